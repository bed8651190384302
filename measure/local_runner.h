// The runner that works in its own process (inner header).
#pragma once

#include <map>
#include <memory>

#include "measure/contender.h"
#include "measure/device_expectation.h"
#include "measure/disturbance.h"
#include "measure/expectation.h"
#include "measure/measure.h"
#include "measure/watch.h"

namespace tenon::measure {

class LocalRunner final : public Runner {
 public:
  // `device` must execute. `watch` outlives the runner.
  LocalRunner(std::unique_ptr<runtime::Device> device, const ir::Workload& workload, Watch& watch);
  std::vector<Timing> time(const std::vector<Candidate>& candidates,
                           const Protocol& protocol) override;
  verifier::Evidence accept(const Candidate& candidate, std::uint64_t seed) override;

  // The device was lost to a candidate: nothing more can be measured in this process.
  bool lost() const { return !device_; }
  void set_hang_limit(double seconds) { hang_limit_s_ = seconds; }

 private:
  double cold_bytes() const;  // what rotation must exceed to find caches cold
  double free_memory() const;
  // Lets go of the device without freeing what lives there, which would wait or fail.
  void give_up();

  std::unique_ptr<runtime::Device> device_;
  ir::Workload workload_;
  Watch& watch_;
  DisturbanceMonitor monitor_;
  double hang_limit_s_ = 10;                // of acceptance: that of the last timing
  std::unique_ptr<Rotation> rotations_[2];  // without and with rotation
  std::map<std::uint64_t, Expectations> expected_;
  std::map<std::uint64_t, std::unique_ptr<DeviceExpectations>> on_device_;
};

}  // namespace tenon::measure
