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

// What calls with one number launch, and what they must be given.
struct TorchLayer {
  Layer* layer = nullptr;                                     // null: nothing
  std::int32_t dtype = 0, device_type = 0, device_index = 0;  // at::ScalarType, at::DeviceType
  std::int64_t columns_in = 0, columns_out = 0;               // last extents of x and the result
  bool dependent = false;
};

// Calls of that number must not be in flight. Throws UserError for a number out of range.
void set_torch_layer(std::int64_t number, const TorchLayer& layer);

}  // namespace tenon::runtime
