// The Runner of this process.
#include <map>

#include "ir/error.h"
#include "measure/accept.h"
#include "measure/expectation.h"
#include "measure/measure.h"
#include "measure/timing.h"
#include "runtime/cuda/context.h"
#include "runtime/host/machine.h"

namespace tenon::measure {

namespace {

constexpr const char* kLost =
    "the device was lost to a kernel that did not end; measure in a new process";
constexpr double kHostMemory = 768e6;  // of all buffers that calls rotate over

class LocalRunner final : public Runner {
 public:
  LocalRunner(const std::string& device_id, const ir::Workload& workload)
      : device_(runtime::open_device(device_id)), workload_(workload) {
    if (!device_->info().executes)
      throw DeviceError("device " + device_id + " only compiles; nothing can be measured on it");
  }

  std::vector<Timing> time(const std::vector<Candidate>& candidates,
                           const Protocol& protocol) override {
    if (candidates.empty()) return {};
    if (!device_) throw DeviceError(kLost);
    const bool host = device_->info().device_class == "host";
    std::unique_ptr<Rotation>& rotation = rotations_[protocol.rotate ? 1 : 0];
    if (!rotation)
      rotation =
          std::make_unique<Rotation>(*device_, workload_, protocol.rotate ? cold_bytes() : 0);
    rotation->begin(candidates, host ? kHostMemory : free_memory() * 0.6);
    auto contenders = std::make_unique<std::vector<Contender>>();
    for (const Candidate& c : candidates) contenders->push_back(rotation->make(c));
    bool alive = true;
    if (host)
      time_on_host(*rotation, *contenders, protocol);
    else
      alive = time_on_cuda(*device_, *rotation, *contenders, protocol);
    std::vector<Timing> timings;
    for (Contender& c : *contenders) timings.push_back(c.timing);
    if (!alive) {
      // Freeing memory would wait for the kernel that does not end; the process is to be replaced.
      static_cast<void>(contenders.release());
      for (auto& kept : rotations_) static_cast<void>(kept.release());
      for (auto& kept : on_device_) static_cast<void>(kept.second.release());
      static_cast<void>(device_.release());
      device_ = nullptr;
    }
    return timings;
  }

  verifier::Evidence accept(const Candidate& candidate, std::uint64_t seed) override {
    if (!device_) throw DeviceError(kLost);
    auto it = expected_.find(seed);
    if (it == expected_.end()) it = expected_.emplace(seed, Expectations(workload_, seed)).first;
    std::unique_ptr<DeviceExpectations>& on_device = on_device_[seed];
    if (!on_device) on_device = std::make_unique<DeviceExpectations>(*device_, workload_);
    return measure::accept(*device_, it->second, candidate, seed, on_device.get());
  }

 private:
  // What rotation must exceed to find caches cold.
  double cold_bytes() const {
    if (device_->info().device_class == "host")
      return 2.0 * static_cast<double>(runtime::host::last_level_cache_bytes());
    return 4.0 * static_cast<double>(device_->info().target.l2_bytes);
  }

  double free_memory() const {
    auto context = runtime::cuda::context_of(*device_);
    runtime::cuda::Scope scope(*context);
    std::size_t free = 0, total = 0;
    context->driver().check(context->driver().memory_info(&free, &total), "asking for free memory");
    return static_cast<double>(free);
  }

  std::unique_ptr<runtime::Device> device_;
  ir::Workload workload_;
  std::unique_ptr<Rotation> rotations_[2];  // without and with rotation
  std::map<std::uint64_t, Expectations> expected_;
  std::map<std::uint64_t, std::unique_ptr<DeviceExpectations>> on_device_;
};

}  // namespace

std::unique_ptr<Runner> make_local_runner(const std::string& device_id,
                                          const ir::Workload& workload) {
  return std::make_unique<LocalRunner>(device_id, workload);
}

}  // namespace tenon::measure
