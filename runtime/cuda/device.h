// cuda:N through the driver API and the primary context, which PyTorch and others share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace tenon::runtime::cuda {

int device_count();  // 0 without a driver
std::vector<DeviceInfo> list_cuda(std::string* note);
// Throws DeviceError where there is no such device.
std::unique_ptr<Device> open_cuda(int ordinal);

}  // namespace tenon::runtime::cuda
