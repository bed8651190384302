// Accumulators about a running mean: sums of deviations from a mean that is known only at the end.
//
// Where |mean| is large against the deviations, Σ x² - x̄·Σ x and Σ x·b - x̄·Σ b cancel. These carry
// the mean of the elements so far and correct what was summed about the earlier one when it moves
// (Welford 1962; merging after Chan, Golub, LeVeque 1979), as online softmax does with its maximum.
// With x̄ the mean of the C elements before a step and x̄' that of all after it:
//   x̄' = x̄ + Σ (x - x̄) / (C + c), c elements in the step, and the same once more about x̄'
//   q' = q + Σ (x - x̄')² + (x̄' - x̄)²·C
//   p' = p + Σ (x - x̄')·b - (x̄' - x̄)·s,   s' = s + Σ b
#pragma once

#include "ir/mugraph.h"

namespace tenon::ir {

// Results: the mean of x along `dim`, and Σ (x - mean)². Both have x's other axes.
Accumulator make_deviation_accumulator(const Graph& body, ValueId x, DimId dim);

// Result: Σ (x - mean)·b, with the axes of matmul(x, b, dim). Operand deviations are rounded to the
// workload's dtype.
Accumulator make_centered_matmul_accumulator(const Graph& body, ValueId x, ValueId b, DimId dim);

// Is it one of the two? (Whatever its values are numbered.)
bool is_deviation_accumulator(const Accumulator& accumulator, const Graph& body);
bool is_centered_matmul_accumulator(const Accumulator& accumulator, const Graph& body);

}  // namespace tenon::ir
