// The prepare graph as kernels: what depends on parameters only, computed once at load.
#pragma once

#include <vector>

#include "ir/family.h"

namespace tenon::codegen {

struct PrepareStep {
  ir::KernelFacts facts;
  ir::KernelSchedule schedule;
};

// Steps in order. Every sum and product is computed into a float tensor of its own (named
// "prepare.0", "prepare.1", …), every stored tensor by a pointwise kernel over those. Throws
// Rejected.
std::vector<PrepareStep> prepare_steps(const ir::MuGraph& graph, const ir::Workload& workload,
                                       const ir::Target& target);

}  // namespace tenon::codegen
