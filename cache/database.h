// The tuning database: one SQLite file. docs/database.md is its data dictionary.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/plan.h"

namespace tenon::cache {

// Rows as values; ids are 0 until stored. Field meanings: docs/database.md.
struct WorkloadRow { std::int64_t id = 0; std::string key; std::string program; std::string program_text;
  std::int64_t m = 0; std::string dims_json; std::string dtype; std::string attributes_json; };
struct EnvironmentRow { std::int64_t id = 0; std::string device_name; std::string device_class; int sm_count = 0;
  std::string driver; std::string nvrtc; std::string tenon; };
struct MuGraphRow { std::int64_t id = 0; std::string sha256; std::string text; std::string label; std::string program; };
struct ScheduleRow { std::int64_t id = 0; std::string sha256; std::string text; };
struct EvidenceRow { std::int64_t id = 0; std::int64_t mugraph = 0; std::int64_t plan = 0; /* 0: of the µGraph alone */
  std::string method; std::string verdict; std::string reason; std::string figures_json;
  std::string counterexample_json; double seconds = 0; std::string created; };
struct KernelRow { std::int64_t id = 0; std::string source_sha256; std::string source; std::string options; std::string target;
  std::string nvrtc; std::string cubin; std::string cubin_sha256; std::string resources_json; int registers = 0;
  int shared_bytes = 0; int spill_bytes = 0; double compile_seconds = 0; std::string status; std::string log; };
struct PlanRow { std::int64_t id = 0; std::int64_t workload = 0; std::int64_t mugraph = 0; std::int64_t schedule = 0;
  std::string device_class; std::string text; std::string sha256; std::int64_t m_min = 0; std::int64_t m_max = 0;
  bool dependent_launch = false; bool uses_library = false; std::vector<std::int64_t> kernels; };
struct MeasurementRow { std::int64_t id = 0; std::int64_t plan = 0; std::int64_t environment = 0; std::int64_t session = 0;
  std::string status; std::string reason; std::string kind; /* "measured" or "estimated" */ double time_us = 0; double spread_us = 0;
  std::vector<double> samples_us; std::string protocol; std::string created; };
struct SessionRow { std::int64_t id = 0; std::int64_t workload = 0; std::int64_t environment = 0; std::string options_json;
  std::int64_t seed = 0; std::string stop_reason; std::string counters_json; std::string started; std::string ended; };

// A stored winner with all that is needed to load it and to explain it.
struct Stored {
  WorkloadRow workload; EnvironmentRow environment; MuGraphRow mugraph; ScheduleRow schedule; PlanRow plan;
  MeasurementRow measurement; std::vector<EvidenceRow> evidence; std::vector<KernelRow> kernels;
  double reference_time_us = 0;  // the unfused form in the same session; 0 where unknown
  bool usable = false;           // random pass and numeric pass (measured), nothing refuted
};

struct Query {
  std::string workload_key;            // ir::key
  std::int64_t m = 0;                  // must lie in the plan's interval
  std::string device_class;
  std::string device_name;             // empty: any; else preferred (fresh), others are stale
  bool dependent_launch = false;
  bool allow_library = true;
  bool include_estimated = false;
};

class Database {
 public:
  // Creates it (and its folder) where missing unless read_only. Throws UserError that names the path
  // when it is not a Tenon database, is corrupt, has a newer version, or cannot be written.
  static std::unique_ptr<Database> open(const std::string& path, bool read_only = false);
  virtual ~Database() = default;
  virtual const std::string& path() const = 0;

  // Each put returns the id; rows with the same natural key are not duplicated.
  virtual std::int64_t put(const WorkloadRow& row) = 0;
  virtual std::int64_t put(const EnvironmentRow& row) = 0;
  virtual std::int64_t put(const MuGraphRow& row) = 0;
  virtual std::int64_t put(const ScheduleRow& row) = 0;
  virtual std::int64_t put(const EvidenceRow& row) = 0;
  virtual std::int64_t put(const KernelRow& row) = 0;
  virtual std::int64_t put(const PlanRow& row) = 0;
  virtual std::int64_t put(const MeasurementRow& row) = 0;
  virtual std::int64_t put(const SessionRow& row) = 0;
  virtual void finish_session(std::int64_t id, const std::string& stop_reason, const std::string& counters_json) = 0;
  virtual void set_session_reference(std::int64_t id, double reference_time_us) = 0;
  // Runs `body` in one transaction; rolled back when it throws.
  virtual void transaction(const std::function<void()>& body) = 0;

  // The fastest usable plan, or nothing. `why` then says what is nearest and why it did not match.
  virtual std::optional<Stored> best(const Query& query, std::string* why = nullptr) = 0;
  virtual std::optional<Stored> by_plan(std::int64_t plan_id) = 0;

  struct Listing { std::int64_t plan = 0; std::string program; std::string dims; std::string dtype; std::string device; std::string mugraph;
    std::string schedule; std::string status; std::string kind; double time_us = 0; double spread_us = 0; std::string created; bool best = false; };
  // Every plan's newest measurement, or only the best per workload and device. Sorted by workload, then time.
  virtual std::vector<Listing> list(bool only_best) = 0;
  // (table name, number of rows), in schema order.
  virtual std::vector<std::pair<std::string, std::int64_t>> table_counts() = 0;
};

// $TENON_DB, else $XDG_DATA_HOME/tenon/tuning.db, else ~/.local/share/tenon/tuning.db.
std::string default_path();

}  // namespace tenon::cache
