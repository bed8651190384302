// Timing by the protocol of docs/performance.md and numeric acceptance, on a device.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/workload.h"
#include "runtime/device.h"
#include "verifier/verifier.h"

namespace tenon::measure {

enum class Status : std::uint8_t {
  kOk,
  kCompileError,
  kLaunchError,
  kWrongResult,
  kTimeout,
  kCrashed,
  kUnsupported
};
std::string name(Status status);                   // "ok", "compile_error", …
Status status_from_name(const std::string& text);  // kUnsupported for what is none

struct Protocol {
  int samples = 20;  // at least; the median is the result
  double min_sample_us =
      0;  // calls per sample are chosen so that a sample lasts this long (0: device default)
  bool dependent_launch = false;  // chain with dependent launch instead of plain graph
  bool rotate = true;  // inputs and weights rotate over > 4 × L2 (host: > 2 × last-level cache)
  double hang_limit_s = 10;
  // Calls long enough to warm the card are measured as bursts from a card at rest: this pause, one
  // replay, one timed replay.
  double idle_ms = 30;
  // Screening: a first look that orders candidates; only the longest calls are bursts, of fewer
  // samples. What its first replay shows to be slower than `drop_above_us` (0: nothing) is not
  // sampled further.
  bool screening = false;
  double drop_above_us = 0;
  std::string text() const;  // one line, stored with measurements; without what only limits them
};

// The least time after which a candidate counts as hung, when the unfused form takes this long: ten
// thousand calls of it, within 1 s and 60 s; 10 s while its time is unknown (0).
double hang_limit_s(double unfused_us);

struct Timing {
  Status status = Status::kOk;
  std::string reason;              // when not ok
  std::vector<double> samples_us;  // per call
  double median_us = 0;
  double spread_us = 0;  // interquartile range
  std::string protocol;
  std::string disturbance;  // what else used the device, throttled it …; empty: nothing noticed
  bool not_run = false;     // another candidate took the device with it: this says nothing
};

// The user stopped the session while a runner was at work.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The status that evidence of a numeric acceptance gives its candidate: kOk for a pass, else by
// what the reason begins with ("crashed: …"), kWrongResult for a result that is wrong.
Status status_of(const verifier::Evidence& numeric);

// A plan with its cubins: what a worker is given.
struct Candidate {
  ir::LaunchPlan plan;
  std::vector<std::string> cubins;
};

// Runs candidates of one workload on one device. The seam behind which they run in worker
// processes: everything that crosses it is a value. Both throw Interrupted.
class Runner {
 public:
  virtual ~Runner() = default;
  // Interleaved (A B C A B C …): one timing per candidate, in order.
  virtual std::vector<Timing> time(const std::vector<Candidate>& candidates,
                                   const Protocol& protocol) = 0;
  // Numeric acceptance on all input families of design.md that apply to the workload. The
  // evidence's method is "numeric"; figures hold the bound and the worst ratios per family.
  virtual verifier::Evidence accept(const Candidate& candidate, std::uint64_t seed) = 0;
};
// In this process: for tests and to debug a candidate; one that faults ends the process.
std::unique_ptr<Runner> make_local_runner(const std::string& device_id,
                                          const ir::Workload& workload);

struct WorkerOptions {
  std::string program;        // the worker's executable; empty: find_worker()
  double start_limit_s = 60;  // to open the device and make the inputs
  // After a stop was requested an acceptance may take this much longer; timing ends at once.
  double grace_s = 1.2;
};
// In a process of its own (measure/worker.h), which is replaced when a candidate takes it down.
// Throws DeviceError where the device is missing or the worker cannot be started.
std::unique_ptr<Runner> make_worker_runner(const std::string& device_id,
                                           const ir::Workload& workload, std::stop_token stop = {},
                                           const WorkerOptions& options = {});
// $TENON_WORKER, else tenon_worker beside this program or library, or where the build puts it.
// Throws DeviceError that says where it was looked for.
std::string find_worker();

}  // namespace tenon::measure
