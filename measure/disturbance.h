// Whether something else disturbed a measurement: other processes on the GPU, throttled clocks,
// samples that lie too far apart.
#pragma once

#include <memory>
#include <string>

#include "measure/measure.h"
#include "runtime/device.h"

namespace tenon::measure {

class DisturbanceMonitor {
 public:
  // Asks NVML (opened at run time) where there is one; on the host and without NVML only the
  // samples tell.
  explicit DisturbanceMonitor(const runtime::Device& device);
  ~DisturbanceMonitor();
  DisturbanceMonitor(const DisturbanceMonitor&) = delete;
  DisturbanceMonitor& operator=(const DisturbanceMonitor&) = delete;

  // Around what is measured. end() says what disturbed it, in a clause; empty: nothing was noticed.
  void begin();
  std::string end();

  // The interquartile range against the median: beyond this share the samples do not agree.
  static constexpr double kWidestOnGpu = 0.25, kWidestOnHost = 1.0;
  static constexpr std::size_t kFewSamples = 9;  // of fewer the range says little
  std::string wide_spread(const Timing& timing) const;

 private:
  struct Nvml;
  std::unique_ptr<Nvml> nvml_;  // null: none
  double widest_ = kWidestOnHost;
};

// A clause for NVML's bits of reasons why clocks are lowered; empty where none of them lowers them
// beyond what the kernels at hand do by themselves (a power cap under load is their own doing).
std::string throttle_text(unsigned long long reasons);

}  // namespace tenon::measure
