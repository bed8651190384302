// Timing by the protocol of docs/performance.md and numeric acceptance, on a device.
#pragma once

#include <cstdint>
#include <memory>
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
std::string name(Status status);  // "ok", "compile_error", …

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
  std::string text() const;  // one line, stored with measurements
};

struct Timing {
  Status status = Status::kOk;
  std::string reason;              // when not ok
  std::vector<double> samples_us;  // per call
  double median_us = 0;
  double spread_us = 0;  // interquartile range
  std::string protocol;
};

// A plan with its cubins: what a worker is given.
struct Candidate {
  ir::LaunchPlan plan;
  std::vector<std::string> cubins;
};

// Runs candidates of one workload on one device. The seam behind which they will run in worker
// processes: everything that crosses it is a value.
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
// In this process.
std::unique_ptr<Runner> make_local_runner(const std::string& device_id,
                                          const ir::Workload& workload);

}  // namespace tenon::measure
