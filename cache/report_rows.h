// What a report shows of each workload on each device.
#pragma once

#include <string>
#include <vector>

#include "cache/database.h"

namespace tenon::cache {

struct ReportEntry {
  WorkloadRow workload;
  std::string device;  // its name
  std::string device_class;
  bool dependent_launch = false;
  std::int64_t best = 0;        // the winner's plan, 0: none
  std::string label, schedule;  // of the winner
  double best_us = 0, spread_us = 0;
  double unfused_us = 0;         // in the newest session that knows it
  double library_us = 0;         // fastest usable plan with the vendor's library; 0: none
  double own_us = 0;             // and without
  std::vector<double> times_us;  // of all candidates timed, newest measurement, ascending
  std::vector<std::pair<std::string, std::int64_t>> statuses;  // how many candidates ended how
  std::string counters_json;                                   // of the newest session that ended
  struct Point {
    std::string created, toolchain;  // "driver 580.65, NVRTC 13.0, Tenon 0.1.0"
    double best_us = 0;              // the fastest usable plan measured with it
  };
  std::vector<Point> history;  // by toolchain, oldest first
};

// At most `most_times` times of an entry are kept, evenly spread over their order. Throws
// UserError.
std::vector<ReportEntry> report_entries(const std::string& database, std::size_t most_times = 2000);

}  // namespace tenon::cache
