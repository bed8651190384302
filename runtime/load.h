// From the database to something that can be launched: what `tenon run` and programs do.
#pragma once

#include <memory>
#include <string>

#include "cache/database.h"
#include "ir/workload.h"
#include "runtime/device.h"

namespace tenon::runtime {

// The query for a workload on a device, as `optimize` and `run` ask it.
cache::Query make_query(const ir::Workload& workload, const DeviceInfo& device,
                        bool dependent_launch = false);

// The extent of the dynamic dim "m"; 1 where the program has none.
std::int64_t dynamic_extent(const ir::Workload& workload);

// Loads a stored plan with its cubins on `device`. Throws UserError when the stored plan cannot
// be parsed, DeviceError when the device refuses it.
std::unique_ptr<Executable> load(const cache::Stored& stored, Device& device);

}  // namespace tenon::runtime
