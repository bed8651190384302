// From the database to something that can be launched: what `tenon run` and programs do.
#pragma once

#include <memory>
#include <string>

#include "cache/database.h"
#include "ir/workload.h"
#include "runtime/device.h"

namespace tenon::runtime {

// The query for a workload on a device, as `optimize` and `run` ask it. Where the workload keeps
// its weights, plans that hold copies of them are refused; plans that cannot be read are passed
// over.
cache::Query make_query(const ir::Workload& workload, const DeviceInfo& device,
                        bool dependent_launch = false);

// What keeps a stored plan from being read (cache::Damage): of a later version, or no plan at all.
std::string plan_damage(const cache::Stored& stored);

// Why a stored plan does not leave the weights where they are and as they are; empty: it does.
std::string copies_weights(const cache::Stored& stored);

// Why a stored plan may not be launched while others run on the device; empty: it may
// (runtime/residence.h).
std::string needs_device(const cache::Stored& stored);

// The extent of the dynamic dim "m"; 1 where the program has none.
std::int64_t dynamic_extent(const ir::Workload& workload);

// Loads a stored plan with its cubins on `device`. Throws UserError when the stored plan cannot
// be parsed, DeviceError when the device refuses it.
std::unique_ptr<Executable> load(const cache::Stored& stored, Device& device);

}  // namespace tenon::runtime
