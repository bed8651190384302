#include "measure/disturbance.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <vector>

#include "runtime/cuda/context.h"

namespace tenon::measure {

namespace {

// NVML's interface, as far as it is used (NVML API reference, "Device Queries"; the structures are
// those of the functions' versioned names).
using NvmlDevice = void*;
struct ProcessInfo {  // nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};
struct UtilizationSample {  // nvmlProcessUtilizationSample_t
  unsigned pid;
  unsigned long long time_us;
  unsigned sm, memory, encoder, decoder;
};
constexpr int kSuccess = 0, kNotFound = 6;
constexpr unsigned kMostProcesses = 256;

constexpr unsigned long long kHardwareSlowdown = 0x8, kSoftwareThermal = 0x20,
                             kHardwareThermal = 0x40, kPowerBrake = 0x80;

unsigned long long now_us() {
  return static_cast<unsigned long long>(std::chrono::duration_cast<std::chrono::microseconds>(
                                             std::chrono::system_clock::now().time_since_epoch())
                                             .count());
}

}  // namespace

std::string throttle_text(unsigned long long reasons) {
  if (reasons & kHardwareThermal) return "the clocks were throttled by the temperature";
  if (reasons & kSoftwareThermal) return "the driver lowered the clocks for the temperature";
  if (reasons & kPowerBrake) return "the clocks were throttled by a power brake";
  if (reasons & kHardwareSlowdown) return "the hardware slowed the clocks down";
  return "";
}

struct DisturbanceMonitor::Nvml {
  void* library = nullptr;
  int (*shutdown)() = nullptr;
  int (*processes)(NvmlDevice, unsigned*, ProcessInfo*) = nullptr;
  int (*throttle)(NvmlDevice, unsigned long long*) = nullptr;
  int (*utilization)(NvmlDevice, UtilizationSample*, unsigned*, unsigned long long) = nullptr;
  NvmlDevice device = nullptr;
  unsigned long long begun_us = 0;

  ~Nvml() {
    if (device != nullptr && shutdown != nullptr) shutdown();
    if (library != nullptr) dlclose(library);
  }

  template <class F>
  void find(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
  }

  bool open(const std::string& bus_id) {
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    int (*init)() = nullptr;
    int (*by_bus_id)(const char*, NvmlDevice*) = nullptr;
    find(init, "nvmlInit_v2");
    find(by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2");
    find(shutdown, "nvmlShutdown");
    find(processes, "nvmlDeviceGetComputeRunningProcesses_v3");
    find(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
    find(utilization, "nvmlDeviceGetProcessUtilization");
    if (init == nullptr || by_bus_id == nullptr || init() != kSuccess) return false;
    return by_bus_id(bus_id.c_str(), &device) == kSuccess;
  }

  // Processes that were at work on the device since begin(), ours apart. Ours are this one and the
  // one that started it; where process ids are another namespace's, as many are taken off.
  std::size_t others() const {
    std::vector<ProcessInfo> list(kMostProcesses);
    unsigned count = kMostProcesses;
    if (processes == nullptr || processes(device, &count, list.data()) != kSuccess) return 0;
    list.resize(std::min(count, kMostProcesses));
    std::set<unsigned> present, active;
    for (const ProcessInfo& p : list) present.insert(p.pid);
    const auto self = static_cast<unsigned>(getpid()), parent = static_cast<unsigned>(getppid());
    std::vector<UtilizationSample> samples(kMostProcesses);
    count = kMostProcesses;
    const int asked =
        utilization == nullptr ? -1 : utilization(device, samples.data(), &count, begun_us);
    if (asked == kNotFound) return 0;  // nobody's work was sampled
    if (asked == kSuccess) {
      samples.resize(std::min(count, kMostProcesses));
      for (const UtilizationSample& s : samples)
        if (s.sm > 0 && present.count(s.pid) > 0) active.insert(s.pid);
    } else {
      active = present;  // who is there may be at work
    }
    if (present.count(self) > 0) {
      active.erase(self);
      active.erase(parent);
      return active.size();
    }
    const std::size_t own = asked == kSuccess ? 1 : 2;  // the parent holds a context, idly
    return active.size() > own ? active.size() - own : 0;
  }
};

DisturbanceMonitor::DisturbanceMonitor(const runtime::Device& device) {
  auto context = runtime::cuda::context_of(device);
  if (!context) return;
  widest_ = kWidestOnGpu;
  const runtime::cuda::Driver& driver = context->driver();
  if (driver.device_pci_bus_id == nullptr) return;
  const std::string& id = device.info().id;
  CUdevice handle = 0;
  std::array<char, 32> bus_id{};
  if (driver.device_get(&handle, std::atoi(id.substr(id.find(':') + 1).c_str())) != CUDA_SUCCESS ||
      driver.device_pci_bus_id(bus_id.data(), static_cast<int>(bus_id.size()), handle) !=
          CUDA_SUCCESS)
    return;
  auto nvml = std::make_unique<Nvml>();
  if (nvml->open(bus_id.data())) nvml_ = std::move(nvml);
}

DisturbanceMonitor::~DisturbanceMonitor() = default;

void DisturbanceMonitor::begin() {
  if (nvml_) nvml_->begun_us = now_us();
}

std::string DisturbanceMonitor::end() {
  if (!nvml_) return "";
  if (std::size_t count = nvml_->others(); count > 0)
    return fmt::format("{} other process{} worked on the GPU", count, count == 1 ? "" : "es");
  unsigned long long reasons = 0;
  if (nvml_->throttle == nullptr || nvml_->throttle(nvml_->device, &reasons) != kSuccess) return "";
  return throttle_text(reasons);
}

std::string DisturbanceMonitor::wide_spread(const Timing& timing) const {
  if (timing.samples_us.size() < kFewSamples) return "";
  // Written as acceptance: what is no number is no agreement.
  if (timing.spread_us <= widest_ * timing.median_us) return "";
  return fmt::format("half of the samples lie {:.0f}% of the median apart",
                     100 * timing.spread_us / timing.median_us);
}

}  // namespace tenon::measure
