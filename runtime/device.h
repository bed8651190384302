// Devices and what runs on them. A device owns memory and streams; an Executable is a
// launch plan loaded on a device with its weights prepared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/target.h"

namespace tenon::runtime {

struct DeviceInfo {
  std::string id;            // "cuda:0", "host", "compile:sm_90a"
  std::string name;          // "NVIDIA H200"; host: the processor's model name
  std::string device_class;  // "sm_90a", "host"
  std::string driver;        // "580.65.06 (CUDA 13.0)"; host: ""
  ir::Target target;
  std::size_t memory_bytes = 0;
  bool executes = true;  // compile: devices do not
};

// Device memory, freed with the object. On the host plain aligned memory.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual void* data() = 0;  // an address on the device
  virtual std::size_t size() const = 0;
};

// A stream of the device. kernel launches are ordered on it. nullptr is the default stream.
using StreamHandle = void*;  // a CUstream; ignored by the host

class Device;

// A plan made ready to launch.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual const ir::LaunchPlan& plan() const = 0;
  // Runs the prepare launches on `stream` over the caller's parameters (device addresses in
  // signature order of inputs; entries of activations are ignored) and returns when they have
  // ended. Must precede launch.
  virtual void prepare(const std::vector<const void*>& inputs, StreamHandle stream) = 0;
  // One call: inputs and outputs are device addresses in signature order (a parameter's may be
  // null: the one given to prepare is meant), `m` the dynamic
  // extent within [m_min, m_max] (checked: UserError). Asynchronous on `stream` on CUDA, done
  // on return on the host. The first launch after prepare is never a dependent one.
  // `dependent` = false suppresses dependent launch for this call.
  virtual void launch(const void* const* inputs, void* const* outputs, std::int64_t m,
                      StreamHandle stream, bool dependent = true) = 0;
  // Another binding of the same plan, to be prepared with other weights: code is shared, and so
  // is workspace, which belongs to streams (launches of both on one stream are ordered).
  virtual std::unique_ptr<Executable> replicate() const = 0;
  // Uses what `other` prepared of the same parameters, where both plans make a buffer by the same
  // kernels. True where that was all: it takes the place of prepare. Otherwise prepare must follow,
  // and makes what is missing.
  virtual bool adopt(const Executable& other) { return false; }
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual std::unique_ptr<Memory> allocate(
      std::size_t bytes) = 0;  // 256-byte aligned; throws DeviceError
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;    // synchronous
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;  // synchronous
  virtual void fill(void* to, std::uint8_t value, std::size_t bytes) = 0;    // synchronous
  virtual void synchronize() = 0;  // throws DeviceError when a kernel failed
  // `cubins[i]` are the bytes of plan.modules[i]; their SHA-256 is checked. Throws DeviceError
  // when the device refuses them, UserError when plan and device do not fit.
  virtual std::unique_ptr<Executable> load(const ir::LaunchPlan& plan,
                                           const std::vector<std::string>& cubins) = 0;
};

// Devices of this machine: host always, cuda:N where a driver is found, and the compile:
// targets. Never throws; `note` collects why CUDA is not there.
std::vector<DeviceInfo> list_devices(std::string* note = nullptr);

// "auto" (cuda:0 where there is one, else host), "host", "cuda:N", "compile:sm_XX". Throws
// UserError for a malformed id, DeviceError where the device is missing. A compile: device
// executes nothing: its memory and load throw DeviceError.
std::unique_ptr<Device> open_device(const std::string& id);

}  // namespace tenon::runtime
