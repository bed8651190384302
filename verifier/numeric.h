// The numeric contract (design.md): comparison of a computed output with float64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/dtype.h"

namespace tenon::verifier {

struct NumericLimits {
  double row_bound = 0;  // B = 1.5·e(reference) + u
};

struct NumericReport {
  bool pass = false;                   // accepted; NaN anywhere it should not be is not
  double worst_row = 0;                // max over finite rows of ‖y−y64‖₂/‖y64‖₂
  double worst_element = 0;            // max of |y−y64| / max(|y64|, ‖y64‖₂/√N)
  std::int64_t row = -1, column = -1;  // of the first violation
  std::string reason;                  // of the first violation; empty when it passes
};

// e(y): the largest relative row error of `y` against `y64`; rows with a non-finite or zero y64
// are left out. Both are rows × columns, row-major.
double relative_row_error(const std::vector<float>& y, const std::vector<double>& y64,
                          std::int64_t rows, std::int64_t columns);
double row_bound(double reference_error, ir::DType dtype);
// Rows whose y64 is not finite are compared by class (NaN with NaN, Inf with the same Inf).
// A row whose y64 is all zero must be exactly zero.
NumericReport compare(const std::vector<float>& y, const std::vector<double>& y64,
                      std::int64_t rows, std::int64_t columns, double bound);

}  // namespace tenon::verifier
