// What a correct kernel answers on each input family: float64 rows and the bound, made once for
// a workload and shared by all its candidates.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ir/workload.h"
#include "measure/families.h"
#include "measure/reference.h"

namespace tenon::measure {

// One set of inputs and what is expected of it.
struct Expectation {
  struct Output {
    std::int64_t columns = 1;         // of the comparison: the last axis
    std::int64_t rows_per_row = 1;    // rows of the comparison for one row of the program
    std::vector<double> exact;        // the checked rows
    double reference_error = 0;       // e(reference)
    double bound = 0;                 // B
  };
  std::vector<std::int64_t> rows;     // checked, ascending
  std::vector<bool> finite;           // by row of the program: inputs of this row are finite
  std::vector<Output> outputs;
};

class Expectations {
 public:
  Expectations(const ir::Workload& workload, std::uint64_t seed);

  const ir::Workload& workload() const { return workload_; }
  int row_dim() const { return row_dim_; }         // "m", or -1: the program mixes rows, all are checked
  std::int64_t rows_at(std::int64_t m) const { return row_dim_ < 0 ? 1 : m; }
  ir::Extents extents_at(std::int64_t m) const;

  const std::vector<Tensor>& parameters(bool hostile);
  std::vector<Tensor> activations(Family family, std::int64_t m) const;
  const Expectation& family(Family family, std::int64_t m);
  // Rows are one-hot at `positions` of activation `which`; made for exactly those rows. Only where
  // rows are independent (row_dim() >= 0).
  Expectation one_hot(std::size_t which, const std::vector<std::int64_t>& positions);

  // At most this many rows of a family are checked at this cost a row.
  std::int64_t row_limit() const;

 private:
  Expectation make(const std::vector<Tensor>& activations, bool hostile, std::int64_t m, double least_error);
  std::vector<std::int64_t> choose_rows(const std::vector<bool>& finite, std::int64_t m) const;
  // e(reference) on further rows, where few columns make the error of a few rows a matter of luck.
  double extra_error(Family family);

  ir::Workload workload_;
  std::uint64_t seed_;
  int row_dim_ = -1;
  std::vector<Tensor> parameters_[2];
  std::map<std::pair<Family, std::int64_t>, Expectation> families_;
  std::map<Family, double> extra_errors_;
};

}  // namespace tenon::measure
