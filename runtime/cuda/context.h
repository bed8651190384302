// The primary context of a device and scopes in which it is current (inner header).
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/cuda/driver.h"
#include "runtime/device.h"

namespace tenon::runtime::cuda {

// Retains the primary context; shared by all that lives in it.
class Context {
 public:
  Context(const Driver& driver, CUdevice device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  const Driver& driver() const { return driver_; }
  CUcontext handle() const { return handle_; }

 private:
  const Driver& driver_;
  CUdevice device_;
  CUcontext handle_ = nullptr;
};

// Makes the context current on this thread where it is not yet.
class Scope {
 public:
  explicit Scope(const Context& context) : driver_(context.driver()) {
    CUcontext current = nullptr;
    driver_.context_current(&current);
    if (current == context.handle()) return;
    CUresult result = driver_.context_push(context.handle());
    if (result != CUDA_SUCCESS)
      driver_.check(result, "entering the CUDA context");  // a message allocates
    pushed_ = true;
  }
  ~Scope() {
    CUcontext popped = nullptr;
    if (pushed_) driver_.context_pop(&popped);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

class CudaMemory final : public Memory {
 public:
  // Throws DeviceError when the device has no such room.
  CudaMemory(std::shared_ptr<const Context> context, std::size_t bytes);
  ~CudaMemory() override;
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  void* data() override { return reinterpret_cast<void*>(address_); }
  std::size_t size() const override { return bytes_; }

 private:
  std::shared_ptr<const Context> context_;
  CUdeviceptr address_ = 0;
  std::size_t bytes_ = 0;
};

// The context of a device that open_cuda returned, or null.
std::shared_ptr<const Context> context_of(const Device& device);

// Loads a plan; `info` is the device's. Throws DeviceError, UserError.
std::unique_ptr<Executable> load_plan(std::shared_ptr<const Context> context,
                                      const DeviceInfo& info, const ir::LaunchPlan& plan,
                                      const std::vector<std::string>& cubins);

}  // namespace tenon::runtime::cuda
