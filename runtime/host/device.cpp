#include "runtime/host/device.h"

#include <tbb/task_arena.h>

#include <cstring>
#include <new>

#include "ir/error.h"
#include "runtime/host/aligned.h"
#include "runtime/host/executable.h"
#include "runtime/host/kernels.h"
#include "runtime/host/machine.h"

namespace tenon::runtime::host {

namespace {

class HostMemory final : public Memory {
 public:
  explicit HostMemory(std::size_t bytes) : bytes_(bytes) {}
  void* data() override { return bytes_.data(); }
  std::size_t size() const override { return bytes_.size(); }

 private:
  AlignedBytes bytes_;
};

class HostDevice final : public Device {
 public:
  HostDevice() : info_(host_info()) {}
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Memory> allocate(std::size_t bytes) override {
    try {
      return std::make_unique<HostMemory>(bytes);
    } catch (const std::bad_alloc&) {
      throw DeviceError("the host has no " + std::to_string(bytes) + " bytes of memory left");
    }
  }
  void upload(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void fill(void* to, std::uint8_t value, std::size_t bytes) override {
    if (bytes) std::memset(to, value, bytes);
  }
  void synchronize() override {}
  std::unique_ptr<Executable> load(const ir::LaunchPlan& plan,
                                   const std::vector<std::string>&) override {
    if (plan.device_class != "host")
      throw UserError("a plan for device", plan.device_class, "a plan for host");
    return make_executable(plan);
  }

 private:
  static void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes) std::memcpy(to, from, bytes);
  }
  DeviceInfo info_;
};

}  // namespace

DeviceInfo host_info() {
  DeviceInfo info;
  info.id = "host";
  info.name = processor_model();
  info.device_class = "host";
  info.target = ir::target_from_name("host");
  // Rough rates, for ranking schedules only: a core sustains about 10 GB/s and, with its
  // widest vectors at 2.5 GHz, one or two fused multiply-adds a cycle.
  const int threads = tbb::this_task_arena::max_concurrency();
  const Kernels& set = kernels();
  const double lanes = set.name[0] == 'b' ? 4 : (set.name[3] == '5' ? 16 : 8);
  info.target.sm_count = threads;
  info.target.memory_tb_per_s = 0.010 * threads;
  info.target.fp32_tflops = 2.5e9 * 2 * lanes * 1.2 * threads / 1e12;
  info.target.matrix_tflops = info.target.fp32_tflops;
  info.target.launch_us = 5;
  info.target.l2_bytes =
      static_cast<int>(std::min<std::size_t>(last_level_cache_bytes(), std::size_t{1} << 30));
  info.memory_bytes = physical_memory_bytes();
  return info;
}

std::unique_ptr<Device> open_host() { return std::make_unique<HostDevice>(); }

}  // namespace tenon::runtime::host
