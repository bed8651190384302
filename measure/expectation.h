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
    std::int64_t columns = 1;       // of the comparison: the last axis
    std::int64_t rows_per_row = 1;  // rows of the comparison for one row of the program
    std::vector<double> exact;      // the checked rows
    double reference_error = 0;     // e(reference)
    double bound = 0;               // B
  };
  std::vector<std::int64_t> rows;  // checked, ascending
  std::vector<bool> finite;        // by row of the program: inputs of this row are finite
  std::vector<Output> outputs;
};

// Rows [first, first + count) of an expectation, renumbered from 0, as part of a launch of `m`
// rows.
Expectation slice(const Expectation& all, std::size_t first, std::size_t count, std::int64_t m);

class Expectations {
 public:
  Expectations(const ir::Workload& workload, std::uint64_t seed);

  const ir::Workload& workload() const { return workload_; }
  int row_dim() const { return row_dim_; }  // "m", or -1: the program mixes rows, all are checked
  std::int64_t rows_at(std::int64_t m) const { return row_dim_ < 0 ? 1 : m; }
  ir::Extents extents_at(std::int64_t m) const;

  const std::vector<Tensor>& parameters(bool hostile);
  std::vector<Tensor> activations(Family family, std::int64_t m) const;
  const Expectation& family(Family family, std::int64_t m);
  // Row i is one-hot at positions[i] of activation `which`. Only where rows are independent
  // (row_dim() >= 0). e(reference) is over all of them. The last one made is kept.
  const Expectation& one_hot(std::size_t which, const std::vector<std::int64_t>& positions);

  // At most this many rows of a family are checked at this cost a row.
  std::int64_t row_limit() const;

 private:
  Expectation make(const std::vector<Tensor>& activations, bool hostile, std::int64_t m,
                   double least_error, bool all_rows = false);
  std::vector<std::int64_t> choose_rows(const std::vector<bool>& finite, std::int64_t m) const;
  // e(reference) on further rows, where few columns make the error of a few rows a matter of luck.
  double extra_error(Family family);

  ir::Workload workload_;
  std::uint64_t seed_;
  int row_dim_ = -1;
  std::vector<Tensor> parameters_[2];
  std::map<std::pair<Family, std::int64_t>, Expectation> families_;
  std::map<Family, double> extra_errors_;
  std::size_t one_hot_which_ = 0;
  std::vector<std::int64_t> one_hot_positions_;
  Expectation one_hot_;
};

}  // namespace tenon::measure
