#include "measure/local_runner.h"

#include "ir/error.h"
#include "measure/accept.h"
#include "measure/timing.h"
#include "runtime/cuda/context.h"
#include "runtime/host/machine.h"

namespace tenon::measure {

namespace {

constexpr const char* kLost =
    "the device was lost to a kernel that faulted or did not end; measure in a new process";
constexpr double kHostMemory = 768e6;  // of all buffers that calls rotate over
constexpr double kLoadS = 10;          // loading a candidate and preparing its weights

bool on_host(const runtime::Device& device) { return device.info().device_class == "host"; }

}  // namespace

LocalRunner::LocalRunner(std::unique_ptr<runtime::Device> device, const ir::Workload& workload,
                         Watch& watch)
    : device_(std::move(device)), workload_(workload), watch_(watch), monitor_(*device_) {
  if (!device_->info().executes)
    throw DeviceError("device " + device_->info().id +
                      " only compiles; nothing can be measured on it");
}

std::vector<Timing> LocalRunner::time(const std::vector<Candidate>& candidates,
                                      const Protocol& protocol) {
  if (candidates.empty()) return {};
  if (!device_) throw DeviceError(kLost);
  hang_limit_s_ = protocol.hang_limit_s;
  std::unique_ptr<Rotation>& rotation = rotations_[protocol.rotate ? 1 : 0];
  if (!rotation)
    rotation = std::make_unique<Rotation>(*device_, workload_, protocol.rotate ? cold_bytes() : 0);
  rotation->begin(candidates, on_host(*device_) ? kHostMemory : free_memory() * 0.6);
  auto contenders = std::make_unique<std::vector<Contender>>();
  bool alive = true;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!alive) {
      contenders->emplace_back();
    } else {
      Watched watched(&watch_, static_cast<int>(i), protocol.hang_limit_s + kLoadS);
      contenders->push_back(rotation->make(candidates[i]));
      alive = contenders->back().ok() || !device_lost(*device_);
    }
    contenders->back().index = static_cast<int>(i);
  }
  if (!alive) {
    mark_not_run(*contenders);
  } else if (on_host(*device_)) {
    time_on_host(*rotation, *contenders, protocol, watch_);
  } else {
    monitor_.begin();
    alive = time_on_cuda(*device_, *rotation, *contenders, protocol, watch_);
  }
  const std::string disturbance = alive ? monitor_.end() : "";
  std::vector<Timing> timings;
  for (Contender& c : *contenders) {
    if (c.ok())
      c.timing.disturbance = !disturbance.empty() ? disturbance : monitor_.wide_spread(c.timing);
    timings.push_back(c.timing);
  }
  if (!alive) {
    static_cast<void>(contenders.release());
    give_up();
  }
  return timings;
}

verifier::Evidence LocalRunner::accept(const Candidate& candidate, std::uint64_t seed) {
  if (!device_) throw DeviceError(kLost);
  auto it = expected_.find(seed);
  if (it == expected_.end()) it = expected_.emplace(seed, Expectations(workload_, seed)).first;
  std::unique_ptr<DeviceExpectations>& on_device = on_device_[seed];
  if (!on_device) on_device = std::make_unique<DeviceExpectations>(*device_, workload_);
  verifier::Evidence evidence = measure::accept(*device_, it->second, candidate, seed,
                                                on_device.get(), &watch_, hang_limit_s_ + kLoadS);
  if (status_of(evidence) == Status::kLaunchError && device_lost(*device_)) give_up();
  return evidence;
}

void LocalRunner::give_up() {
  for (auto& kept : rotations_) static_cast<void>(kept.release());
  for (auto& kept : on_device_) static_cast<void>(kept.second.release());
  static_cast<void>(device_.release());
  device_ = nullptr;
}

double LocalRunner::cold_bytes() const {
  if (on_host(*device_)) return 2.0 * static_cast<double>(runtime::host::last_level_cache_bytes());
  return 4.0 * static_cast<double>(device_->info().target.l2_bytes);
}

double LocalRunner::free_memory() const {
  auto context = runtime::cuda::context_of(*device_);
  runtime::cuda::Scope scope(*context);
  std::size_t free = 0, total = 0;
  context->driver().check(context->driver().memory_info(&free, &total), "asking for free memory");
  return static_cast<double>(free);
}

std::unique_ptr<Runner> make_local_runner(const std::string& device_id,
                                          const ir::Workload& workload) {
  static Watch nobody;  // has no state
  return std::make_unique<LocalRunner>(runtime::open_device(device_id), workload, nobody);
}

}  // namespace tenon::measure
