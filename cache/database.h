// The tuning database: one SQLite file. docs/database.md is its data dictionary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/plan.h"

namespace tenon::cache {

// Rows as values; ids are 0 until stored. Field meanings: docs/database.md.
// Hashes left empty are computed; `created` and `started` left empty are the time of storing.

struct WorkloadRow {
  std::int64_t id = 0;
  std::string key;           // ir::key: the workload without m
  std::string program;       // its name
  std::string program_text;  // canonical text form; its SHA-256 is the program's identity
  std::int64_t m = 0;
  std::string dims_json;
  std::string dtype;
  std::string attributes_json;
};

struct EnvironmentRow {
  std::int64_t id = 0;
  std::string device_name;
  std::string device_class;  // "host", "sm_90a" …
  int sm_count = 0;
  std::string driver;
  std::string nvrtc;
  std::string tenon;
};

struct MuGraphRow {
  std::int64_t id = 0;
  std::string sha256;  // ir::identity
  std::string text;
  std::string label;    // ir::describe
  std::string program;  // the name of the program it was found for
};

struct ScheduleRow {
  std::int64_t id = 0;
  std::string sha256;
  std::string text;
};

struct EvidenceRow {
  std::int64_t id = 0;
  std::int64_t mugraph = 0;
  std::int64_t plan = 0;  // 0: of the µGraph alone
  std::string method;     // "random", "z3", "numeric" …
  std::string verdict;    // "pass", "proved", "refuted", "unknown", "timeout", "unsupported"
  std::string reason;
  std::string figures_json;
  std::string counterexample_json;
  double seconds = 0;
  std::string created;
  // ir::identity of the program compared with. Empty: not stated, counts for every program of
  // the µGraph's name.
  std::string program_sha256;
};

struct KernelRow {
  std::int64_t id = 0;
  std::string source_sha256;
  std::string source;
  std::string options;
  std::string target;
  std::string nvrtc;
  std::string cubin;  // bytes; empty when the compilation failed
  std::string cubin_sha256;
  std::string resources_json;
  int registers = 0;
  int shared_bytes = 0;
  int spill_bytes = 0;
  double compile_seconds = 0;
  std::string status;  // "ok", "compile_error"
  std::string log;
};

struct PlanRow {
  std::int64_t id = 0;
  std::int64_t workload = 0;
  std::int64_t mugraph = 0;
  std::int64_t schedule = 0;
  std::string device_class;
  // ir::print(LaunchPlan), naming the cubins of `kernels` by their SHA-256; empty for a candidate
  // that got no plan, whose `sha256` is then free to tell it from others.
  std::string text;
  std::string sha256;
  std::int64_t m_min = 0;
  std::int64_t m_max = 0;
  bool dependent_launch = false;
  bool uses_library = false;
  std::vector<std::int64_t> kernels;  // in the order of the plan's modules
};

struct MeasurementRow {
  std::int64_t id = 0;
  std::int64_t plan = 0;
  std::int64_t environment = 0;
  std::int64_t session = 0;  // 0: none
  std::string status;        // "ok", "compile_error", "launch_error", "wrong_result", "timeout",
                             // "crashed", "unsupported"
  std::string reason;
  std::string kind;    // "measured" or "estimated"
  double time_us = 0;  // stored as NULL, and read as 0, unless finite
  double spread_us = 0;
  std::vector<double> samples_us;
  std::string protocol;
  std::string created;
  std::string disturbance;  // what disturbed it (another process, clocks …); empty: nothing known
  bool decides = true;      // false: disturbed, and may not choose a winner
  std::string settings;     // what was asked for, as one line; equal lines may be compared
};

struct SessionRow {
  std::int64_t id = 0;
  std::int64_t workload = 0;
  std::int64_t environment = 0;
  std::string options_json;
  std::int64_t seed = 0;
  std::string stop_reason;  // empty while it runs
  std::string counters_json;
  std::string started;
  std::string ended;
  double reference_time_us = 0;  // the unfused form; 0: unknown
  std::string owner;             // the process that runs it; empty: not stated
};

// A stored winner with all that is needed to load it and to explain it.
struct Stored;
// What is wrong with a stored plan beyond its checksums, to those who can read plans; empty:
// nothing.
using Damage = std::function<std::string(const Stored&)>;

struct Stored {
  WorkloadRow workload;
  EnvironmentRow environment;
  MuGraphRow mugraph;
  ScheduleRow schedule;
  PlanRow plan;
  MeasurementRow measurement;         // id 0: never measured nor estimated
  std::vector<EvidenceRow> evidence;  // of each method and verdict the newest, oldest first
  std::vector<KernelRow> kernels;
  double reference_time_us = 0;  // the unfused form in the same session; 0 where unknown
  bool usable = false;           // random pass and numeric pass (measured), nothing refuted
  bool fresh = true;             // measured on the device, driver and versions asked for
  int passed_over = 0;           // better plans that are damaged; the note says which
  std::string note;  // why it is not fresh or not usable; empty when nothing is to be said
};

// An m for which plans were stored, and the interval for which they are valid.
struct TunedInterval {
  std::int64_t m = 0;
  std::int64_t m_min = 0, m_max = 0;
};

struct Query {
  std::string workload_key;  // ir::key
  std::string
      program_text;    // ir::print of its program: only to say how it differs from what is stored
  std::int64_t m = 0;  // must lie in the plan's interval
  std::string device_class;
  std::string device_name;  // empty: any; else preferred (fresh), others are stale
  bool dependent_launch = false;
  bool allow_library = true;
  bool include_estimated = false;
  std::string driver;  // these three only decide what is fresh; empty: any
  std::string nvrtc;
  std::string tenon;
  // Why the asker cannot use a plan, which is then passed over; an empty answer: it can. No
  // function: nothing is refused.
  std::function<std::string(const Stored&)> refuse;
  Damage damage;  // a plan with some is passed over as one with a wrong checksum is, and named
};

// One connection to one file. Its methods may be called from several threads; several processes
// may write and read the same file. Every method throws UserError, one sentence that names the
// path, when the file turns out corrupt, full, locked for longer than 30 s or unwritable.
class Database {
 public:
  // A database packed for shipping (cache/pack.h) held in memory, read-only. Throws UserError,
  // naming `name` in the place of a path, as open() does.
  static std::unique_ptr<Database> open_packed(std::string_view bytes, const std::string& name);
  // Creates it (and its folder) where missing unless read_only. Throws UserError that names the
  // path when it is not a Tenon database, is corrupt, has a newer version, or cannot be written;
  // the file is then as it was. A read-only database in a folder without write permission is
  // opened immutable, a packed one always is and only opens read-only.
  static std::unique_ptr<Database> open(const std::string& path, bool read_only = false);
  virtual ~Database() = default;
  virtual const std::string& path() const = 0;

  // Each put returns the id; rows with the same natural key (docs/database.md) are not duplicated.
  // References must be ids that a put returned (InternalError otherwise).
  virtual std::int64_t put(const WorkloadRow& row) = 0;
  virtual std::int64_t put(const EnvironmentRow& row) = 0;
  virtual std::int64_t put(const MuGraphRow& row) = 0;
  virtual std::int64_t put(const ScheduleRow& row) = 0;
  virtual std::int64_t put(const EvidenceRow& row) = 0;
  virtual std::int64_t put(const KernelRow& row) = 0;
  virtual std::int64_t put(const PlanRow& row) = 0;
  virtual std::int64_t put(const MeasurementRow& row) = 0;
  virtual std::int64_t put(const SessionRow& row) = 0;
  virtual void finish_session(std::int64_t id, const std::string& stop_reason,
                              const std::string& counters_json) = 0;
  virtual void set_session_reference(std::int64_t id, double reference_time_us) = 0;
  // The newest session of this workload in this environment with these options (but for the
  // budget), where it was interrupted or never ended; else nothing.
  virtual std::optional<SessionRow> unfinished_session(std::int64_t workload,
                                                       std::int64_t environment,
                                                       const std::string& options_json) = 0;
  // Makes `owner` the owner of a session that goes on.
  virtual void resume_session(std::int64_t id, const std::string& owner) = 0;
  // What a session measured, oldest first.
  virtual std::vector<MeasurementRow> measurements_of(std::int64_t session) = 0;
  // What the session measured of the plan decides no more: its longest measurement was disturbed,
  // and a short one from before does not stand in for it.
  virtual void retract(std::int64_t session, std::int64_t plan) = 0;
  // Runs `body` in one transaction; rolled back when it throws. May be nested.
  virtual void transaction(const std::function<void()>& body) = 0;

  // The fastest usable plan, or nothing; never throws for what the file holds. `why` is set to
  // what is nearest and why it did not match, or, for a hit, to its note (stale …).
  //
  // A plan is considered when workload key, device class and launch mode are equal and m lies in
  // its interval. Its newest measurement decides: a failed one rules it out. Plans tuned at the
  // m nearest to the one asked for come first, then fresh ones before stale ones, then the
  // fastest. Estimated ones come after all measured ones, and only when asked for. Plans and
  // cubins whose checksum is wrong are passed over, and `why` says so.
  virtual std::optional<Stored> best(const Query& query, std::string* why = nullptr) = 0;
  // Any plan, with its newest measurement (measured before estimated). Nothing for an unknown id.
  // Where a checksum is wrong, `usable` is false, `note` says so and the cubin is left out.
  virtual std::optional<Stored> by_plan(std::int64_t plan_id) = 0;
  // Where plans of the query's workload, device class and launch mode are valid, whatever their
  // measurements and evidence; the query's m is ignored. Sorted; never throws, like `best`.
  virtual std::vector<TunedInterval> tuned(const Query& query) = 0;

  struct Listing {
    std::int64_t plan = 0;
    std::string program;
    std::string dims;  // "m=16 k=576 n=960"
    std::string dtype;
    std::string device;   // its name
    std::string mugraph;  // its SHA-256
    std::string label;    // of the µGraph
    std::string schedule;
    std::string status;
    std::string kind;
    double time_us = 0;  // 0: none
    double spread_us = 0;
    std::string created;
    bool best = false;  // in the view `best`
    std::string device_class;
    bool dependent_launch = false;
    bool usable = false;           // in the view `usable`
    std::string disturbance;       // of the measurement
    double reference_time_us = 0;  // the unfused form in the same session; 0: unknown
    std::string dims_json;
    std::int64_t workload = 0;
    int samples = 0;
  };
  enum class Which : std::uint8_t {
    kAll,      // every plan
    kWinners,  // the best per workload, device class and launch mode
    kFirst,    // these, and where there is no winner the plan that comes nearest to one
    kRivals,   // usable plans and winners of the workload, class and launch mode of plan `of`
    kOne,      // plan `of`
  };
  // Plans with their newest measurement, sorted by workload, then device, then time (those without
  // one last).
  virtual std::vector<Listing> list(Which which, std::int64_t of = 0) = 0;
  std::vector<Listing> list(bool only_best) {
    return list(only_best ? Which::kWinners : Which::kAll);
  }
  // (table name, number of rows), in schema order.
  virtual std::vector<std::pair<std::string, std::int64_t>> table_counts() = 0;
  // What is wrong with the file, one sentence each; empty when nothing is: SQLite's integrity and
  // foreign key checks, the checksums of plans and cubins, and what `damage` says of plans.
  virtual std::vector<std::string> check(const Damage& damage) = 0;
  std::vector<std::string> check() { return check({}); }
};

// $TENON_DB, else $XDG_DATA_HOME/tenon/tuning.db, else ~/.local/share/tenon/tuning.db.
// Throws UserError where none of the three variables is set.
std::string default_path();

}  // namespace tenon::cache
