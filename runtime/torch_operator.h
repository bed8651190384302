// The operator tenon::layer of PyTorch, over PyTorch's C functions (its "stable ABI", 2.7 and
// later), so that a call from Python reaches the launch without passing through Python again.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/layer.h"

namespace tenon::runtime {

// Implements the operator, which must have been defined, for CPU and, where PyTorch has it, CUDA
// tensors. False, with `why`, where PyTorch is not loaded or too old. Once is enough.
bool register_torch_operator(std::string& why);

// What calls with the number `layer` launch; null: nothing. Calls of that number must not be in
// flight. Throws UserError for a number that is out of range.
void set_torch_layer(std::int64_t layer, Layer* kernel, bool dependent);

}  // namespace tenon::runtime
