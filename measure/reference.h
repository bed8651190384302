// The program itself, evaluated fast enough for real shapes: in float64, and in fp32 with its
// casts as written (the reference pipeline of the numeric contract). It shares no code with the
// engines whose results it judges.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/domain.h"
#include "ir/program.h"
#include "ir/workload.h"

namespace tenon::measure {

using Tensor = ir::Values<float>;  // inputs, representable in their types

// Whether every output row depends on the same row of the activations only, `dim` being the
// rows' dim: then rows may be evaluated apart from the others.
bool rows_independent(const ir::Program& program, ir::DimId dim);

// The rows `rows` of a tensor along `dim`, in that order; a tensor without the dim is returned
// whole.
Tensor gather_rows(const Tensor& tensor, ir::DimId dim, const std::vector<std::int64_t>& rows);

// Outputs in signature order, at `extents`, for inputs in signature order.
std::vector<std::vector<double>> evaluate_exact(const ir::Workload& workload,
                                                const ir::Extents& extents,
                                                const std::vector<const Tensor*>& inputs);
std::vector<std::vector<float>> evaluate_rounded(const ir::Workload& workload,
                                                 const ir::Extents& extents,
                                                 const std::vector<const Tensor*>& inputs);

// Multiplications that one row costs: what limits how many rows are checked.
double row_cost(const ir::Workload& workload, ir::DimId dim);

}  // namespace tenon::measure
