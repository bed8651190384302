// The cost model of the families of sm_90a (ir/hopper_family.h).
#pragma once

#include "ir/hopper_family.h"
#include "search/cost_model.h"

namespace tenon::search {

// `schedule` must be legal for the kernel.
KernelCost hopper_cost(const ir::KernelFacts& facts, const ir::KernelSchedule& schedule,
                       const ir::Workload& workload, const ir::Target& target);

}  // namespace tenon::search
