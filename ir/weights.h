// What of the weights stays in memory for a candidate: the caller's own, and what prepare made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/mugraph.h"
#include "ir/plan.h"

namespace tenon::ir {

// Prepared tensors of the µGraph that are copies of weights in another form (γ folded into W): they
// have all dims of some parameter of two axes or more. Vectors (Wᵀg, Wᵀb) are not.
std::vector<TensorId> weight_copies(const MuGraph& graph);

// What a plan needs in memory between launches.
struct HeldWeights {
  std::int64_t parameter_bytes = 0;  // of the caller's parameters that launches read
  std::int64_t prepared_bytes = 0;   // of what prepare makes and launches read
  std::vector<std::string> copies;   // names of the prepared buffers that are copies of weights
  std::int64_t bytes() const { return parameter_bytes + prepared_bytes; }
};
// Throws UserError where the plan's µGraph cannot be read.
HeldWeights held_weights(const LaunchPlan& plan);

}  // namespace tenon::ir
