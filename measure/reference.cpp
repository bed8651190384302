#include "measure/reference.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "ir/error.h"

namespace tenon::measure {

namespace {

using ir::Axes;
using ir::DimId;
using ir::Node;
using ir::OpKind;
using ir::ValueId;

std::int64_t count_of(const std::vector<std::int64_t>& extents) {
  std::int64_t n = 1;
  for (std::int64_t e : extents) n *= e;
  return n;
}

// A value: an input as it came, or computed.
template <class S>
struct Value {
  Axes axes;
  std::vector<std::int64_t> extents;
  const float* input = nullptr;
  std::vector<S> data;

  S at(std::int64_t i) const {
    return input ? static_cast<S>(input[i]) : data[static_cast<std::size_t>(i)];
  }
  // Distance of neighbours along `dim`; 0 without it.
  std::int64_t stride(DimId dim) const {
    std::int64_t s = 1;
    for (std::size_t a = axes.size(); a-- > 0;) {
      if (axes[a].dim == dim) return s;
      s *= extents[a];
    }
    return 0;
  }
  std::int64_t extent(DimId dim) const {
    int a = ir::find_dim(axes, dim);
    return a < 0 ? 1 : extents[static_cast<std::size_t>(a)];
  }
};

// Offset of element `index` of `shape` in a value with these strides along shape's axes.
std::int64_t offset(std::int64_t index, const std::vector<std::int64_t>& shape,
                    const std::vector<std::int64_t>& strides) {
  std::int64_t at = 0;
  for (std::size_t a = shape.size(); a-- > 0;) {
    at += index % shape[a] * strides[a];
    index /= shape[a];
  }
  return at;
}

template <class S>
std::vector<std::int64_t> strides_along(const Value<S>& v, const Axes& axes) {
  std::vector<std::int64_t> s;
  for (const ir::Axis& axis : axes) s.push_back(v.stride(axis.dim));
  return s;
}

bool all_finite(const float* values, std::int64_t count) {
  return tbb::parallel_reduce(
      tbb::blocked_range<std::int64_t>(0, count, 1 << 18), true,
      [values](const auto& range, bool so_far) {
        return so_far && std::all_of(values + range.begin(), values + range.end(),
                                     [](float x) { return std::isfinite(x); });
      },
      std::logical_and<>());
}

// Pairwise: the error of a long sum grows with its logarithm.
template <class S, class F>
S pairwise(std::int64_t begin, std::int64_t end, const F& term) {
  if (end - begin <= 16) {
    S s = 0;
    for (std::int64_t i = begin; i < end; ++i) s += term(i);
    return s;
  }
  std::int64_t middle = begin + (end - begin) / 2;
  return pairwise<S>(begin, middle, term) + pairwise<S>(middle, end, term);
}

// acc[r][j] += a[r] · b[j], the inner loop of a product, over `Rows` rows.
constexpr int kRows = 8;
constexpr int kColumns = 256;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TENON_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TENON_CLONES
#endif

#define TENON_UPDATE(name, S, B)                                                          \
  TENON_CLONES void name(S* __restrict acc, const S* __restrict a, const B* __restrict b, \
                         int rows, int columns) {                                         \
    for (int r = 0; r < rows; ++r) {                                                      \
      const S x = a[r];                                                                   \
      S* __restrict to = acc + r * kColumns;                                              \
      for (int j = 0; j < columns; ++j) to[j] += x * static_cast<S>(b[j]);                \
    }                                                                                     \
  }
TENON_UPDATE(update, double, float)
TENON_UPDATE(update, double, double)
TENON_UPDATE(update, float, float)
#undef TENON_UPDATE

// out[row, column] for one block of rows and columns; b's columns are adjacent.
template <class S, class B>
void product_block(S* out, const Value<S>& a, const std::vector<std::int64_t>& a_rows,
                   std::int64_t a_step, const B* b, std::int64_t b_step, std::int64_t k,
                   int columns, std::int64_t out_columns, bool skip_zeros) {
  std::vector<S> acc(static_cast<std::size_t>(kRows * kColumns), S{0});
  const int rows = static_cast<int>(a_rows.size());
  for (std::int64_t p = 0; p < k; ++p) {
    S x[kRows];
    bool any = false;
    for (int r = 0; r < rows; ++r) {
      x[r] = a.at(a_rows[static_cast<std::size_t>(r)] + p * a_step);
      any = any || !(x[r] == 0);
    }
    if (any || !skip_zeros) update(acc.data(), x, b + p * b_step, rows, columns);
  }
  for (int r = 0; r < rows; ++r)
    for (int j = 0; j < columns; ++j)
      out[r * out_columns + j] = acc[static_cast<std::size_t>(r * kColumns + j)];
}

template <class D>
class Evaluation {
 public:
  using S = typename D::Scalar;
  Evaluation(const ir::Workload& workload, const ir::Extents& extents, D domain)
      : graph_(workload.program.graph), extents_(extents), domain_(std::move(domain)) {}

  std::vector<std::vector<S>> run(const ir::Signature& signature,
                                  const std::vector<const Tensor*>& inputs) {
    values_.resize(static_cast<std::size_t>(graph_.value_count()));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      values_[i] = Value<S>{inputs[i]->axes, inputs[i]->extents, inputs[i]->data.data(), {}};
    for (ValueId v = static_cast<ValueId>(inputs.size()); v < graph_.value_count(); ++v)
      evaluate(v);
    std::vector<std::vector<S>> out;
    for (std::size_t o = 0; o < signature.outputs.size(); ++o) {
      const Value<S>& v = values_[static_cast<std::size_t>(signature.outputs[o].value)];
      Value<S> stored = shaped(signature.output_axes[o]);
      std::vector<std::int64_t> strides = strides_along(v, stored.axes);
      const ir::DType type = ir::bind(signature.outputs[o].dtype, domain_.elem());
      each(stored, [&](std::int64_t i) {
        return domain_.round(type, v.at(offset(i, stored.extents, strides)));
      });
      out.push_back(std::move(stored.data));
    }
    return out;
  }

 private:
  Value<S> shaped(const Axes& axes) const {
    Value<S> v;
    v.axes = axes;
    for (const ir::Axis& axis : axes) v.extents.push_back(extents_[axis.dim]);
    v.data.resize(static_cast<std::size_t>(count_of(v.extents)));
    return v;
  }

  template <class F>
  static void each(Value<S>& v, const F& f) {
    tbb::parallel_for(tbb::blocked_range<std::size_t>(0, v.data.size(), 4096), [&](const auto& r) {
      for (std::size_t i = r.begin(); i < r.end(); ++i) v.data[i] = f(static_cast<std::int64_t>(i));
    });
  }

  void evaluate(ValueId id) {
    const Node& node = graph_.node(id);
    Value<S> out = shaped(node.axes);
    if (node.op == OpKind::kConst) {
      out.data = {domain_.constant(node.constant, extents_)};
    } else {
      const Value<S>& a = values_[static_cast<std::size_t>(node.a)];
      const std::vector<std::int64_t> along_a = strides_along(a, node.axes);
      if (node.op == OpKind::kSum) {
        const std::int64_t n = a.extent(node.dim), step = a.stride(node.dim);
        each(out, [&](std::int64_t i) {
          const std::int64_t base = offset(i, out.extents, along_a);
          return pairwise<S>(0, n, [&](std::int64_t p) { return a.at(base + p * step); });
        });
      } else if (node.op == OpKind::kMatmul) {
        product(out, node, a, values_[static_cast<std::size_t>(node.b)]);
      } else {
        pointwise(out, node, a, along_a);
      }
    }
    values_[static_cast<std::size_t>(id)] = std::move(out);
  }

  void pointwise(Value<S>& out, const Node& node, const Value<S>& a,
                 const std::vector<std::int64_t>& along_a) {
    if (node.op == OpKind::kBroadcast) {
      each(out, [&](std::int64_t i) { return a.at(offset(i, out.extents, along_a)); });
    } else if (node.op == OpKind::kCast) {
      const ir::DType type = ir::bind(node.dtype, domain_.elem());
      each(out, [&](std::int64_t i) {
        return domain_.round(type, a.at(offset(i, out.extents, along_a)));
      });
    } else if (node.b == ir::kNoValue) {
      each(out, [&](std::int64_t i) {
        return domain_.apply(node.op, a.at(offset(i, out.extents, along_a)));
      });
    } else {
      const Value<S>& b = values_[static_cast<std::size_t>(node.b)];
      const std::vector<std::int64_t> along_b = strides_along(b, node.axes);
      each(out, [&](std::int64_t i) {
        return domain_.apply(node.op, a.at(offset(i, out.extents, along_a)),
                             b.at(offset(i, out.extents, along_b)));
      });
    }
  }

  void product(Value<S>& out, const Node& node, const Value<S>& a, const Value<S>& b) {
    const std::int64_t k = a.extent(node.dim), a_step = a.stride(node.dim),
                       b_step = b.stride(node.dim);
    const std::vector<std::int64_t> along_a = strides_along(a, node.axes),
                                    along_b = strides_along(b, node.axes);
    const bool tiled =
        !node.axes.empty() && along_a.back() == 0 && along_b.back() == 1 &&
        std::all_of(along_b.begin(), along_b.end() - 1, [](std::int64_t s) { return s == 0; });
    if (!tiled) {  // batch axes, vectors, transposed weights: element by element
      each(out, [&](std::int64_t i) {
        const std::int64_t base_a = offset(i, out.extents, along_a),
                           base_b = offset(i, out.extents, along_b);
        S s = 0;
        for (std::int64_t p = 0; p < k; ++p)
          s += a.at(base_a + p * a_step) * b.at(base_b + p * b_step);
        return s;
      });
      return;
    }
    const std::int64_t n = out.extents.back(), m = static_cast<std::int64_t>(out.data.size()) /
                                                   std::max<std::int64_t>(1, n);
    // Zeros of a contribute nothing where b is finite; one-hot rows are mostly zeros.
    const bool skip_zeros = b.input != nullptr && all_finite(b.input, count_of(b.extents));
    const std::int64_t column_blocks = (n + kColumns - 1) / kColumns,
                       row_blocks = (m + kRows - 1) / kRows;
    tbb::parallel_for(std::int64_t{0}, column_blocks * row_blocks, [&](std::int64_t block) {
      const std::int64_t column = block % column_blocks * kColumns,
                         row = block / column_blocks * kRows;
      std::vector<std::int64_t> rows;
      for (std::int64_t r = row; r < std::min(m, row + kRows); ++r)
        rows.push_back(offset(r * n, out.extents, along_a));
      const int columns = static_cast<int>(std::min<std::int64_t>(kColumns, n - column));
      S* to = out.data.data() + row * n + column;
      if (b.input)
        product_block(to, a, rows, a_step, b.input + column, b_step, k, columns, n, skip_zeros);
      else
        product_block(to, a, rows, a_step, b.data.data() + column, b_step, k, columns, n, false);
    });
  }

  const ir::Graph& graph_;
  const ir::Extents& extents_;
  D domain_;
  std::vector<Value<S>> values_;
};

}  // namespace

std::vector<std::vector<double>> evaluate_exact(const ir::Workload& workload,
                                                const ir::Extents& extents,
                                                const std::vector<const Tensor*>& inputs) {
  return Evaluation<ir::DoubleDomain>(workload, extents, ir::DoubleDomain(workload.attributes))
      .run(workload.program.signature, inputs);
}

std::vector<std::vector<float>> evaluate_rounded(const ir::Workload& workload,
                                                 const ir::Extents& extents,
                                                 const std::vector<const Tensor*>& inputs) {
  return Evaluation<ir::RoundedDomain>(workload, extents,
                                       ir::RoundedDomain(workload.attributes, workload.dtype))
      .run(workload.program.signature, inputs);
}

bool rows_independent(const ir::Program& program, DimId dim) {
  for (const ir::ProgramInput& in : program.signature.inputs) {
    bool has = ir::find_dim(in.axes, dim) >= 0;
    if (has != (in.role == ir::Role::kActivation)) return false;
    if (has && in.axes[0].dim != dim) return false;
  }
  for (const Axes& axes : program.signature.output_axes)
    if (axes.empty() || axes[0].dim != dim) return false;
  for (const Node& node : program.graph.nodes()) {
    bool reduces = (node.op == OpKind::kSum || node.op == OpKind::kMatmul) && node.dim == dim;
    if (reduces || (node.op == OpKind::kConst && node.constant.dims.count(dim))) return false;
  }
  return true;
}

Tensor gather_rows(const Tensor& tensor, DimId dim, const std::vector<std::int64_t>& rows) {
  if (tensor.axes.empty() || tensor.axes[0].dim != dim) return tensor;
  Tensor out{tensor.axes, tensor.extents, {}};
  out.extents[0] = static_cast<std::int64_t>(rows.size());
  const std::int64_t size = tensor.extents[0] ? count_of(tensor.extents) / tensor.extents[0] : 0;
  for (std::int64_t r : rows)
    out.data.insert(out.data.end(), tensor.data.begin() + r * size,
                    tensor.data.begin() + (r + 1) * size);
  return out;
}

double row_cost(const ir::Workload& workload, DimId dim) {
  double cost = 0;
  for (const Node& node : workload.program.graph.nodes()) {
    if (ir::find_dim(node.axes, dim) < 0) continue;
    double n = node.op == OpKind::kMatmul || node.op == OpKind::kSum
                   ? static_cast<double>(workload.extents[node.dim])
                   : 1;
    for (const ir::Axis& axis : node.axes)
      if (axis.dim != dim) n *= static_cast<double>(workload.extents[axis.dim]);
    cost += n;
  }
  return cost;
}

}  // namespace tenon::measure
