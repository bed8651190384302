// A workload: a program at given extents and dtype, with attributes bound.
#pragma once

#include <map>
#include <string>

#include "ir/program.h"

namespace tenon::ir {

struct Workload {
  Program program;
  Extents extents;                           // by DimId; every extent >= 1
  DType dtype = DType::kBF16;                // what kElem is bound to; never kElem
  std::map<std::string, double> attributes;  // every attribute of the program, bound
  // Kernels read the weights where the caller has them: nothing that prepare makes may be a copy
  // of one (ir/weights.h). It narrows which plans serve, not what is computed, so that it is no
  // part of the key: a plan without copies serves those who allow them too.
  bool keep_weights = false;
  // Elements between the rows (steps of the first axis) of activations and outputs that do not lie
  // one behind the other, by name. Part of the key.
  std::map<std::string, std::int64_t> row_strides;
  friend bool operator==(const Workload&, const Workload&) = default;
};

// Binds dims by name and attributes to their defaults. Throws UserError that names the
// dim when one is missing, unknown, < 1 or > 2^31-1, or when the number of elements of
// any tensor exceeds 2^40.
Workload make_workload(const Program& program, const std::map<std::string, std::int64_t>& dims,
                       DType dtype, const std::map<std::string, double>& attributes = {});

// The workload with rows of the activation or output `name` `stride` elements apart; rows that lie
// one behind the other are the same as none given. Throws UserError unless it is a tensor of two
// axes or more whose first is m, and the stride at least a row and at most 2^31-1.
Workload with_row_stride(Workload workload, const std::string& name, std::int64_t stride);
// Elements of a row of `axes`: of all but the first axis.
std::int64_t row_elements(const Axes& axes, const Workload& workload);
// Elements between rows of the activation or output `name`.
std::int64_t row_stride(const std::string& name, const Axes& axes, const Workload& workload);

// "rmsnorm_linear m=16 k=576 n=960 bf16 eps=1e-06", with " keep-weights" where they stay.
std::string print(const Workload& workload);

// The key under which winners are stored: the workload without `dynamic_dim` ("m"), as
// canonical JSON {program, program_id, dims, dtype, attributes}.
std::string key(const Workload& workload, const std::string& dynamic_dim = "m");

std::int64_t extent(const Workload& workload, const std::string& dim);

}  // namespace tenon::ir
