// RMSNorm and linear in double precision, for the examples to check themselves against.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "ir/dtype.h"

namespace tenon::examples {

// The largest relative error of a row of y (bf16 bits, m × n) for x (m × k), g (k), w (k × n); NaN
// where a row has one.
inline double worst_row_error(const std::vector<float>& x, const std::vector<float>& g,
                              const std::vector<float>& w, const std::vector<std::uint16_t>& y,
                              std::size_t m, std::size_t k, std::size_t n) {
  double worst = 0;
  for (std::size_t i = 0; i < m; ++i) {
    double squares = 0, error = 0, norm = 0;
    for (std::size_t l = 0; l < k; ++l) squares += double{x[i * k + l]} * x[i * k + l];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(k) + 1e-6);
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l) sum += double{x[i * k + l]} * g[l] * w[l * n + j];
      error += std::pow(ir::from_bits16(ir::DType::kBF16, y[i * n + j]) - sum * scale, 2);
      norm += std::pow(sum * scale, 2);
    }
    const double relative = std::sqrt(error / norm);
    if (std::isnan(relative)) return relative;  // no maximum would keep it
    worst = std::fmax(worst, relative);
  }
  return worst;
}

}  // namespace tenon::examples
