#include "measure/expectation.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "verifier/numeric.h"

namespace tenon::measure {

namespace {

constexpr double kCostLimit = 1e9;        // multiplications of the reference, by family
constexpr std::int64_t kFewestRows = 16;  // checked at any cost
constexpr std::int64_t kFewColumns = 64;

std::vector<const Tensor*> merge(const ir::Workload& workload,
                                 const std::vector<Tensor>& activations,
                                 const std::vector<Tensor>& parameters) {
  std::vector<const Tensor*> inputs;
  for (std::size_t i = 0; i < activations.size(); ++i)
    inputs.push_back(workload.program.signature.inputs[i].role == ir::Role::kActivation
                         ? &activations[i]
                         : &parameters[i]);
  return inputs;
}

}  // namespace

Expectations::Expectations(const ir::Workload& workload, std::uint64_t seed)
    : workload_(workload), seed_(seed) {
  const auto& dims = workload_.program.signature.dims;
  auto m = std::find(dims.begin(), dims.end(), "m");
  if (m == dims.end()) return;
  int dim = static_cast<int>(m - dims.begin());
  if (rows_independent(workload_.program, static_cast<ir::DimId>(dim))) row_dim_ = dim;
}

ir::Extents Expectations::extents_at(std::int64_t m) const {
  ir::Extents extents = workload_.extents;
  const auto& dims = workload_.program.signature.dims;
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (dims[d] == "m") extents[d] = m;
  return extents;
}

const std::vector<Tensor>& Expectations::parameters(bool hostile) {
  std::vector<Tensor>& p = parameters_[hostile ? 1 : 0];
  if (p.empty()) p = make_parameters(workload_, hostile, seed_);
  return p;
}

std::vector<Tensor> Expectations::activations(Family family, std::int64_t m) const {
  return make_activations(workload_, extents_at(m), family, seed_);
}

std::int64_t Expectations::row_limit() const {
  double cost = std::max(1.0, row_cost(workload_, static_cast<ir::DimId>(std::max(0, row_dim_))));
  return std::max<std::int64_t>(kFewestRows, static_cast<std::int64_t>(kCostLimit / cost));
}

const Expectation& Expectations::family(Family family, std::int64_t m) {
  auto key = std::make_pair(family, m);
  auto it = families_.find(key);
  if (it == families_.end()) {
    double extra = row_dim_ < 0 ? 0 : extra_error(family);
    it = families_.emplace(key, make(activations(family, m), hostile_weights(family), m, extra))
             .first;
  }
  return it->second;
}

const Expectation& Expectations::one_hot(std::size_t which,
                                         const std::vector<std::int64_t>& positions) {
  TENON_CHECK(row_dim_ >= 0, "one-hot rows need a program whose rows are independent");
  if (one_hot_positions_ != positions || one_hot_which_ != which) {
    const std::int64_t m = static_cast<std::int64_t>(positions.size());
    one_hot_ = make(make_one_hot(workload_, extents_at(m), which, positions), false, m, 0, true);
    one_hot_which_ = which;
    one_hot_positions_ = positions;
  }
  return one_hot_;
}

Expectation slice(const Expectation& all, std::size_t first, std::size_t count, std::int64_t m) {
  Expectation part;
  part.finite.assign(static_cast<std::size_t>(m), true);
  for (std::size_t i = 0; i < count; ++i) part.rows.push_back(static_cast<std::int64_t>(i));
  for (const Expectation::Output& o : all.outputs) {
    Expectation::Output out{o.columns, o.rows_per_row, {}, o.reference_error, o.bound};
    const std::ptrdiff_t size = o.columns * o.rows_per_row;
    auto begin = o.exact.begin() + static_cast<std::ptrdiff_t>(first) * size;
    out.exact.assign(begin, begin + static_cast<std::ptrdiff_t>(count) * size);
    part.outputs.push_back(std::move(out));
  }
  return part;
}

double Expectations::extra_error(Family family) {
  auto it = extra_errors_.find(family);
  if (it != extra_errors_.end()) return it->second;
  std::int64_t narrowest = kFewColumns;
  for (const ir::Axes& axes : workload_.program.signature.output_axes)
    narrowest = std::min(narrowest, workload_.extents[axes.back().dim]);
  double worst = 0;
  if (narrowest < kFewColumns) {
    const std::int64_t rows = std::clamp<std::int64_t>(256 / narrowest, kFewestRows, kFewColumns);
    Expectation e = make(make_activations(workload_, extents_at(rows), family, seed_ + 1),
                         hostile_weights(family), rows, 0);
    for (const auto& o : e.outputs) worst = std::max(worst, o.reference_error);
  }
  return extra_errors_[family] = worst;
}

std::vector<std::int64_t> Expectations::choose_rows(const std::vector<bool>& finite,
                                                    std::int64_t m) const {
  const std::int64_t limit = row_limit();
  std::vector<std::int64_t> rows;
  if (m <= limit) {
    for (std::int64_t r = 0; r < m; ++r) rows.push_back(r);
    return rows;
  }
  // The ends, every row with a NaN and its neighbours, and an even sample whose step is odd,
  // so that it meets every place of a tile.
  auto add = [&](std::int64_t r) {
    if (r >= 0 && r < m) rows.push_back(r);
  };
  add(0);
  add(m - 1);
  for (std::int64_t r = 0; r < m && static_cast<std::int64_t>(rows.size()) < limit / 2; ++r)
    if (!finite[static_cast<std::size_t>(r)]) {
      add(r - 1);
      add(r);
      add(r + 1);
    }
  std::int64_t step = (m / limit + 1) | 1;
  for (std::int64_t r = step / 2; r < m; r += step) add(r);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

Expectation Expectations::make(const std::vector<Tensor>& activations, bool hostile, std::int64_t m,
                               double least_error, bool all_rows) {
  const ir::Signature& signature = workload_.program.signature;
  Expectation e;
  const std::int64_t rows = rows_at(m);
  e.finite.assign(static_cast<std::size_t>(rows), true);
  for (const Tensor& t : activations) {
    if (t.data.empty()) continue;
    const std::size_t size = t.data.size() / static_cast<std::size_t>(rows);
    std::vector<char> finite(static_cast<std::size_t>(rows));  // bits cannot be set in parallel
    tbb::parallel_for(std::size_t{0}, finite.size(), [&](std::size_t row) {
      const float* begin = t.data.data() + row * size;
      finite[row] = std::all_of(begin, begin + size, [](float x) { return std::isfinite(x); });
    });
    for (std::size_t row = 0; row < finite.size(); ++row)
      if (!finite[row]) e.finite[row] = false;
  }

  std::vector<std::vector<double>> exact;
  std::vector<std::vector<float>> rounded;
  ir::Extents extents = extents_at(m);
  if (row_dim_ >= 0) {
    const ir::DimId dim = static_cast<ir::DimId>(row_dim_);
    e.rows = choose_rows(e.finite, all_rows ? 0 : m);
    for (std::int64_t r = 0; all_rows && r < m; ++r) e.rows.push_back(r);
    std::vector<Tensor> some;
    for (const Tensor& t : activations)
      some.push_back(t.data.empty() ? t : gather_rows(t, dim, e.rows));
    extents[dim] = static_cast<std::int64_t>(e.rows.size());
    std::vector<const Tensor*> inputs = merge(workload_, some, parameters(hostile));
    exact = evaluate_exact(workload_, extents, inputs);
    rounded = evaluate_rounded(workload_, extents, inputs);
  } else {
    e.rows = {0};
    std::vector<const Tensor*> inputs = merge(workload_, activations, parameters(hostile));
    exact = evaluate_exact(workload_, extents, inputs);
    rounded = evaluate_rounded(workload_, extents, inputs);
  }
  for (std::size_t o = 0; o < exact.size(); ++o) {
    Expectation::Output out;
    const ir::Axes& axes = signature.output_axes[o];
    out.columns = axes.empty() ? 1 : extents[axes.back().dim];
    if (row_dim_ >= 0 && axes.size() == 1) out.columns = 1;
    const std::int64_t compared =
        static_cast<std::int64_t>(exact[o].size()) / std::max<std::int64_t>(1, out.columns);
    out.rows_per_row = compared / static_cast<std::int64_t>(e.rows.size());
    out.reference_error = std::max(
        least_error, verifier::relative_row_error(rounded[o], exact[o], compared, out.columns));
    out.bound = verifier::row_bound(out.reference_error,
                                    ir::bind(signature.outputs[o].dtype, workload_.dtype));
    out.exact = std::move(exact[o]);
    e.outputs.push_back(std::move(out));
  }
  return e;
}

}  // namespace tenon::measure
