// The host device: memory is plain memory, plans run on the threads of TBB.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace tenon::runtime::host {

DeviceInfo host_info();
std::unique_ptr<Device> open_host();

}  // namespace tenon::runtime::host
