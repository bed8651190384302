// Lowering to the families of sm_90a (ir/hopper_family.h).
#pragma once

#include "codegen/lower.h"
#include "ir/hopper_family.h"

namespace tenon::codegen {

// `schedule` must be legal for the kernel.
Lowered lower_hopper(const ir::KernelFacts& facts, const ir::KernelSchedule& schedule,
                     const ir::Workload& workload, const ir::Target& target,
                     const LowerOptions& options);

}  // namespace tenon::codegen
