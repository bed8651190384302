#include "verifier/numeric.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "ir/error.h"

namespace tenon::verifier {

namespace {

// One row of float64 results, scaled by its largest magnitude so that no square overflows
// or vanishes.
struct RowNorm {
  bool finite = true;  // every element is
  double scale = 0;    // max |y64| over the finite elements
  double scaled = 0;   // ‖finite elements of y64‖₂ / scale; 0 for a zero row
  double norm() const { return scale * scaled; }
};

RowNorm norm_of(const double* y64, std::int64_t columns) {
  RowNorm row;
  for (std::int64_t j = 0; j < columns; ++j) {
    if (!std::isfinite(y64[j])) {
      row.finite = false;
      continue;
    }
    row.scale = std::max(row.scale, std::fabs(y64[j]));
  }
  if (row.scale == 0) return row;
  double sum = 0;
  for (std::int64_t j = 0; j < columns; ++j) {
    if (!std::isfinite(y64[j])) continue;
    double v = y64[j] / row.scale;
    sum += v * v;
  }
  row.scaled = std::sqrt(sum);
  return row;
}

// ‖y − y64‖₂ / ‖y64‖₂ of a finite, non-zero row; +Inf when y holds a NaN or an Inf.
double row_error(const float* y, const double* y64, std::int64_t columns, const RowNorm& row) {
  double sum = 0;
  for (std::int64_t j = 0; j < columns; ++j) {
    double d = (static_cast<double>(y[j]) - y64[j]) / row.scale;
    sum += d * d;
  }
  double error = std::sqrt(sum) / row.scaled;
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

bool sizes_match(const std::vector<float>& y, const std::vector<double>& y64, std::int64_t rows,
                 std::int64_t columns) {
  if (rows < 0 || columns < 0) return false;
  std::int64_t count = 0;
  if (__builtin_mul_overflow(rows, columns, &count)) return false;
  return y.size() == static_cast<std::size_t>(count) && y64.size() == y.size();
}

// The comparison of one buffer, row by row; keeps the first violation and the worst errors.
class Comparison {
 public:
  Comparison(std::int64_t columns, double bound) : columns_(columns), bound_(bound) {
    report_.pass = true;
  }

  void row(std::int64_t i, const float* y, const double* y64) {
    const RowNorm row = norm_of(y64, columns_);
    if (row.finite && row.scale == 0) return zero_row(i, y);
    elements(i, y, y64, row);
    if (!row.finite) return;
    const double error = row_error(y, y64, columns_, row);
    report_.worst_row = std::max(report_.worst_row, error);
    if (!(error <= bound_))
      violation(i, -1,
                fmt::format("row {}: relative error {:.3g} exceeds {:.3g}", i, error, bound_));
  }

  void violation(std::int64_t i, std::int64_t j, const std::string& reason) {
    if (!report_.pass) return;
    report_.pass = false;
    report_.row = i;
    report_.column = j;
    report_.reason = reason;
  }

  const NumericReport& report() const { return report_; }

 private:
  void zero_row(std::int64_t i, const float* y) {
    for (std::int64_t j = 0; j < columns_; ++j) {
      if (y[j] == 0.0F) continue;
      violation(
          i, j,
          fmt::format("row {} is exactly zero in float64, but column {} is {:.6g}", i, j, y[j]));
      const double infinite = std::numeric_limits<double>::infinity();
      report_.worst_row = report_.worst_element = infinite;
      return;
    }
  }

  void elements(std::int64_t i, const float* y, const double* y64, const RowNorm& row) {
    const double typical = row.norm() / std::sqrt(static_cast<double>(columns_));
    for (std::int64_t j = 0; j < columns_; ++j) {
      if (!std::isfinite(y64[j])) {
        const bool same =
            std::isnan(y64[j]) ? std::isnan(y[j]) : static_cast<double>(y[j]) == y64[j];
        if (!same)
          violation(i, j,
                    fmt::format("row {}, column {}: {:.6g} where float64 has {:.6g}", i, j, y[j],
                                y64[j]));
        continue;
      }
      const double difference = std::fabs(static_cast<double>(y[j]) - y64[j]);
      const double reference = std::max(std::fabs(y64[j]), typical);
      double error = difference == 0 ? 0 : difference / reference;
      if (!std::isfinite(error)) error = std::numeric_limits<double>::infinity();
      if (row.finite) report_.worst_element = std::max(report_.worst_element, error);
      if (!(error <= 8 * bound_))
        violation(
            i, j,
            fmt::format("row {}, column {}: {:.6g} where float64 has {:.6g}; relative error {:.3g} "
                        "exceeds {:.3g}",
                        i, j, y[j], y64[j], error, 8 * bound_));
    }
  }

  std::int64_t columns_;
  double bound_;
  NumericReport report_;
};

}  // namespace

double relative_row_error(const std::vector<float>& y, const std::vector<double>& y64,
                          std::int64_t rows, std::int64_t columns) {
  TENON_CHECK(sizes_match(y, y64, rows, columns), "both buffers hold rows × columns elements");
  double worst = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const RowNorm row = norm_of(y64.data() + i * columns, columns);
    if (!row.finite || row.scale == 0) continue;
    worst =
        std::max(worst, row_error(y.data() + i * columns, y64.data() + i * columns, columns, row));
  }
  return worst;
}

double row_bound(double reference_error, ir::DType dtype) {
  return 1.5 * reference_error + ir::unit_roundoff(dtype);
}

NumericReport compare(const std::vector<float>& y, const std::vector<double>& y64,
                      std::int64_t rows, std::int64_t columns, double bound) {
  Comparison comparison(columns, bound);
  if (!sizes_match(y, y64, rows, columns)) {
    comparison.violation(-1, -1,
                         fmt::format("{} values and {} float64 values where {} × {} are due",
                                     y.size(), y64.size(), rows, columns));
    return comparison.report();
  }
  // A bound that is not a number, or infinite, admits anything: it admits nothing here.
  if (!(bound >= 0 && std::isfinite(bound))) {
    comparison.violation(-1, -1, fmt::format("the row bound is {}", bound));
    return comparison.report();
  }
  for (std::int64_t i = 0; i < rows; ++i)
    comparison.row(i, y.data() + i * columns, y64.data() + i * columns);
  return comparison.report();
}

}  // namespace tenon::verifier
