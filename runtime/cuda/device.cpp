#include "runtime/cuda/device.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "runtime/cuda/context.h"

namespace tenon::runtime::cuda {

Context::Context(const Driver& driver, CUdevice device) : driver_(driver), device_(device) {
  driver.check(driver.primary_retain(&handle_, device), "opening the CUDA context");
}

Context::~Context() { driver_.primary_release(device_); }

CudaMemory::CudaMemory(std::shared_ptr<const Context> context, std::size_t bytes)
    : context_(std::move(context)), bytes_(bytes) {
  Scope scope(*context_);
  context_->driver().check(context_->driver().memory_allocate(&address_, bytes + (bytes == 0)),
                           fmt::format("allocating {} bytes on the GPU", bytes));
}

CudaMemory::~CudaMemory() {
  CUcontext current = nullptr;
  const Driver& d = context_->driver();
  d.context_current(&current);
  bool push = current != context_->handle() && d.context_push(context_->handle()) == CUDA_SUCCESS;
  d.memory_free(address_);
  if (push) d.context_pop(&current);
}

namespace {

int attribute(const Driver& d, CUdevice device, CUdevice_attribute which) {
  int value = 0;
  d.device_attribute(&value, which, device);
  return value;
}

ir::Target make_target(const Driver& d, CUdevice device, const std::string& device_class) {
  ir::Target target;
  try {
    target = ir::target_from_name(device_class);
  } catch (const UserError&) {
    target = ir::target_from_name("sm_80");  // rates of a relative, until measured
    target.name = device_class;
  }
  target.sm_count = attribute(d, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  target.shared_bytes_per_block =
      attribute(d, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  target.shared_bytes_per_sm =
      attribute(d, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  target.registers_per_sm =
      attribute(d, device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  target.l2_bytes = attribute(d, device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  return target;
}

DeviceInfo make_info(const Driver& d, int ordinal) {
  CUdevice device = 0;
  d.check(d.device_get(&device, ordinal), fmt::format("device cuda:{}", ordinal));
  int major = attribute(d, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  int minor = attribute(d, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  DeviceInfo info;
  info.id = fmt::format("cuda:{}", ordinal);
  char name[256] = {};
  d.device_name(name, sizeof name - 1, device);
  info.name = name;
  info.device_class = major == 9 && minor == 0 ? "sm_90a" : fmt::format("sm_{}{}", major, minor);
  info.driver = d.version;
  info.target = make_target(d, device, info.device_class);
  d.device_memory(&info.memory_bytes, device);
  info.executes = major >= 8;
  return info;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(const Driver& d, int ordinal) : driver_(d), info_(make_info(d, ordinal)) {
    if (!info_.executes)
      throw DeviceError(
          fmt::format("device {} ({}) has compute capability {}; 8.0 or later is needed", info_.id,
                      info_.name, info_.device_class.substr(3)));
    CUdevice device = 0;
    d.check(d.device_get(&device, ordinal), "device " + info_.id);
    context_ = std::make_shared<const Context>(d, device);
  }

  const DeviceInfo& info() const override { return info_; }
  const std::shared_ptr<const Context>& context() const { return context_; }

  std::unique_ptr<Memory> allocate(std::size_t bytes) override {
    return std::make_unique<CudaMemory>(context_, bytes);
  }

  void upload(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    Scope scope(*context_);
    driver_.check(driver_.copy_to_device(address(to), from, bytes), "copying to " + info_.id);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    Scope scope(*context_);
    driver_.check(driver_.copy_to_host(to, address(from), bytes), "copying from " + info_.id);
  }
  void fill(void* to, std::uint8_t value, std::size_t bytes) override {
    if (bytes == 0) return;
    Scope scope(*context_);
    driver_.check(driver_.memset_async(address(to), value, bytes, nullptr),
                  "filling memory of " + info_.id);
    driver_.check(driver_.stream_synchronize(nullptr), "filling memory of " + info_.id);
  }
  void synchronize() override {
    Scope scope(*context_);
    driver_.check(driver_.context_synchronize(), "a kernel on " + info_.id + " failed");
  }
  std::unique_ptr<Executable> load(const ir::LaunchPlan& plan,
                                   const std::vector<std::string>& cubins) override {
    return load_plan(context_, info_, plan, cubins);
  }

 private:
  static CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

  const Driver& driver_;
  DeviceInfo info_;
  std::shared_ptr<const Context> context_;
};

}  // namespace

std::shared_ptr<const Context> context_of(const Device& device) {
  const CudaDevice* own = dynamic_cast<const CudaDevice*>(&device);
  return own ? own->context() : nullptr;
}

int device_count() {
  const Driver* d = driver();
  int count = 0;
  if (d == nullptr || d->device_count(&count) != CUDA_SUCCESS) return 0;
  return count;
}

std::vector<DeviceInfo> list_cuda(std::string* note) {
  std::vector<DeviceInfo> infos;
  std::string why;
  const Driver* d = driver(&why);
  if (d == nullptr) {
    if (note) *note = why;
    return infos;
  }
  int count = device_count();
  if (count == 0 && note) *note = "the CUDA driver finds no GPU";
  for (int i = 0; i < count; ++i) {
    try {
      infos.push_back(make_info(*d, i));
    } catch (const DeviceError& error) {
      if (note) *note = error.what();
    }
  }
  return infos;
}

std::unique_ptr<Device> open_cuda(int ordinal) {
  std::string why;
  const Driver* d = driver(&why);
  if (d == nullptr)
    throw DeviceError(fmt::format("device cuda:{} is not available: {}", ordinal, why));
  int count = device_count();
  if (ordinal >= count)
    throw DeviceError(fmt::format("device cuda:{} does not exist; this machine has {} GPU{}",
                                  ordinal, count, count == 1 ? "" : "s"));
  return std::make_unique<CudaDevice>(*d, ordinal);
}

}  // namespace tenon::runtime::cuda
