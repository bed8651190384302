#include "runtime/compile_device.h"

#include "ir/error.h"

namespace tenon::runtime {

namespace {

constexpr const char* kTargets[] = {"sm_80", "sm_86", "sm_89", "sm_90a"};

DeviceInfo compile_info(const std::string& target) {
  DeviceInfo info;
  info.id = "compile:" + target;
  info.name = target + " (compiles only)";
  info.device_class = target;
  info.target = ir::target_from_name(target);
  info.executes = false;
  return info;
}

class CompileDevice final : public Device {
 public:
  explicit CompileDevice(const std::string& target) : info_(compile_info(target)) {}
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Memory> allocate(std::size_t) override { refuse(); }
  void upload(void*, const void*, std::size_t) override { refuse(); }
  void download(void*, const void*, std::size_t) override { refuse(); }
  void fill(void*, std::uint8_t, std::size_t) override { refuse(); }
  void synchronize() override {}
  std::unique_ptr<Executable> load(const ir::LaunchPlan&,
                                   const std::vector<std::string>&) override {
    refuse();
  }

 private:
  [[noreturn]] void refuse() const {
    throw DeviceError("device " + info_.id + " only compiles; to run a kernel open cuda:N or host");
  }
  DeviceInfo info_;
};

}  // namespace

std::vector<DeviceInfo> compile_targets() {
  std::vector<DeviceInfo> infos;
  for (const char* target : kTargets) infos.push_back(compile_info(target));
  return infos;
}

std::unique_ptr<Device> open_compile_device(const std::string& target) {
  if (target == "host")
    throw UserError("device", "compile:host", "compile:sm_80, compile:sm_90a or another sm_XX");
  try {
    return std::make_unique<CompileDevice>(target);
  } catch (const UserError&) {
    throw UserError("device", "compile:" + target,
                    "compile:sm_80, compile:sm_86, compile:sm_89, compile:sm_90 or compile:sm_90a");
  }
}

}  // namespace tenon::runtime
