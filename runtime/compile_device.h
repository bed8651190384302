// "compile:sm_XX": names a target and executes nothing.
#pragma once

#include <memory>
#include <vector>

#include "runtime/device.h"

namespace tenon::runtime {

std::vector<DeviceInfo> compile_targets();
// `target` is what follows "compile:". Throws UserError for one that is not known.
std::unique_ptr<Device> open_compile_device(const std::string& target);

}  // namespace tenon::runtime
