// A whole list of workloads, on one device or on several at once, into one database.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "optimizer/optimize.h"

namespace tenon::optimizer {

struct ManyOptions {
  Options each;  // but for workload, device and budget
  std::vector<ir::Workload> workloads;
  std::vector<std::string> devices;
  double budget_seconds = 60;  // of all
};

struct ManyOutcome {
  std::size_t workload = 0;  // index in the list
  std::string device;
  Report report;
  std::string error;  // why there is no report; empty where there is one
};

// Devices of one name share the list: each takes the next workload when it is done with one.
// Devices of different names each tune the whole list. What is left of the budget is shared
// equally by the workloads that are left, so that what one does not need serves the others; those
// that it does not reach are answered from the database or say so. `done` is called for each as it
// ends, one at a time. Outcomes are in the order of the list, then of devices' names. Throws
// UserError, DeviceError for bad options; what fails for one workload costs that one.
std::vector<ManyOutcome> optimize_many(const ManyOptions& options, std::stop_token stop,
                                       const std::function<void(const ManyOutcome&)>& done);
// How many outcomes there will be. Throws DeviceError where a device is missing.
std::size_t outcomes_of(const ManyOptions& options);

// "all" → every GPU of this machine; "cuda:0,cuda:1" → these; another id → itself. Throws UserError
// for an id twice, DeviceError where "all" finds none.
std::vector<std::string> expand_devices(const std::string& text);

}  // namespace tenon::optimizer
