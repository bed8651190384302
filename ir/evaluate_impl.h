// Implementation of ir/evaluate.h; include that one.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "ir/error.h"
#include "ir/evaluate.h"

namespace tenon::ir {

namespace detail {

std::int64_t ceil_div(std::int64_t a, std::int64_t b);

// Elements [begin, end) of a dim; element j of the axis is (begin + j + rotate) mod modulus.
struct Range {
  std::int64_t begin = 0, end = 0, rotate = 0, modulus = 1;
  std::int64_t size() const { return end - begin; }
  std::int64_t element(std::int64_t j) const { return (begin + j + rotate) % modulus; }
};

// The part of a dim that an axis map gives to block `block` and step `step`.
Range part_range(std::int64_t extent, AxisMap map, std::int64_t blocks, std::int64_t block,
                 std::int64_t steps, std::int64_t step, bool dim_in_grid);

// Counts through a box, last index fastest.
class Odometer {
 public:
  explicit Odometer(std::vector<std::int64_t> extents)
      : extents_(std::move(extents)), index_(extents_.size(), 0) {
    for (std::int64_t e : extents_) done_ = done_ || e == 0;
  }
  bool done() const { return done_; }
  const std::vector<std::int64_t>& index() const { return index_; }
  void next() {
    for (std::size_t i = extents_.size(); i-- > 0;) {
      if (++index_[i] < extents_[i]) return;
      index_[i] = 0;
    }
    done_ = true;
  }

 private:
  std::vector<std::int64_t> extents_;
  std::vector<std::int64_t> index_;
  bool done_ = false;
};

std::int64_t product(const std::vector<std::int64_t>& extents);

// Offset steps of a value along the axes of another; 0 where it lacks the axis.
std::vector<std::int64_t> strides_along(const Axes& axes, const std::vector<std::int64_t>& extents,
                                        const Axes& along);

inline std::int64_t dot(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

template <class S>
std::int64_t extent_of(const Values<S>& v, DimId dim) {
  int i = find_dim(v.axes, dim);
  return i < 0 ? 1 : v.extents[static_cast<std::size_t>(i)];
}

template <class S>
Values<S> make_values(const Axes& axes, std::vector<std::int64_t> extents) {
  Values<S> v{axes, std::move(extents), {}};
  v.data.resize(static_cast<std::size_t>(product(v.extents)));
  return v;
}

// Extents of a result from its operands (broadcast needs `fallback` for new axes).
template <class S>
std::vector<std::int64_t> result_extents(const Axes& axes, const Values<S>* a, const Values<S>* b,
                                         const std::function<std::int64_t(Axis)>& fallback) {
  std::vector<std::int64_t> extents;
  for (const Axis& axis : axes) {
    std::int64_t e = -1;
    for (const Values<S>* operand : {a, b}) {
      if (operand == nullptr) continue;
      int i = find_dim(operand->axes, axis.dim);
      if (i >= 0) e = operand->extents[static_cast<std::size_t>(i)];
    }
    extents.push_back(e >= 0 ? e : fallback(axis));
  }
  return extents;
}

template <class D>
Values<typename D::Scalar> evaluate_sum(const Node& node, const Extents& dims, D& domain,
                                        const Values<typename D::Scalar>& a) {
  using S = typename D::Scalar;
  auto out = make_values<S>(node.axes, result_extents<S>(node.axes, &a, nullptr, {}));
  std::int64_t steps = extent_of(a, node.dim);
  std::vector<std::int64_t> along = strides_along(a.axes, a.extents, node.axes);
  std::int64_t stride = strides_along(a.axes, a.extents, {Axis{node.dim, kFull}})[0];
  std::size_t o = 0;
  for (Odometer at(out.extents); !at.done(); at.next(), ++o) {
    std::int64_t base = dot(along, at.index());
    if (steps == 0) {
      out.data[o] = domain.constant(Constant{Rational{0, 1}, {}, {}}, dims);
      continue;
    }
    S s = a.data[static_cast<std::size_t>(base)];
    for (std::int64_t k = 1; k < steps; ++k)
      s = domain.apply(OpKind::kAdd, s, a.data[static_cast<std::size_t>(base + k * stride)]);
    out.data[o] = s;
  }
  return out;
}

template <class D>
Values<typename D::Scalar> evaluate_matmul(const Node& node, const Extents& dims, D& domain,
                                           const Values<typename D::Scalar>& a,
                                           const Values<typename D::Scalar>& b) {
  using S = typename D::Scalar;
  auto out = make_values<S>(node.axes, result_extents<S>(node.axes, &a, &b, {}));
  std::int64_t steps = extent_of(a, node.dim);
  TENON_CHECK(steps == extent_of(b, node.dim), "extents of a product agree");
  std::vector<std::int64_t> along_a = strides_along(a.axes, a.extents, node.axes);
  std::vector<std::int64_t> along_b = strides_along(b.axes, b.extents, node.axes);
  std::int64_t stride_a = strides_along(a.axes, a.extents, {Axis{node.dim, kFull}})[0];
  std::int64_t stride_b = strides_along(b.axes, b.extents, {Axis{node.dim, kFull}})[0];
  std::size_t o = 0;
  for (Odometer at(out.extents); !at.done(); at.next(), ++o) {
    std::int64_t base_a = dot(along_a, at.index());
    std::int64_t base_b = dot(along_b, at.index());
    auto term = [&](std::int64_t k) {
      return domain.apply(OpKind::kMul, a.data[static_cast<std::size_t>(base_a + k * stride_a)],
                          b.data[static_cast<std::size_t>(base_b + k * stride_b)]);
    };
    if (steps == 0) {
      out.data[o] = domain.constant(Constant{Rational{0, 1}, {}, {}}, dims);
      continue;
    }
    S s = term(0);
    for (std::int64_t k = 1; k < steps; ++k) s = domain.apply(OpKind::kAdd, s, term(k));
    out.data[o] = s;
  }
  return out;
}

// One node over values already computed. `axis_extent` gives the extent of a broadcast's new axis.
template <class D>
Values<typename D::Scalar> evaluate_node(const Node& node, const Extents& dims, D& domain,
                                         const Values<typename D::Scalar>* a,
                                         const Values<typename D::Scalar>* b,
                                         const std::function<std::int64_t(Axis)>& axis_extent) {
  using S = typename D::Scalar;
  if (node.op == OpKind::kConst) return Values<S>{{}, {}, {domain.constant(node.constant, dims)}};
  if (node.op == OpKind::kSum) return evaluate_sum(node, dims, domain, *a);
  if (node.op == OpKind::kMatmul) return evaluate_matmul(node, dims, domain, *a, *b);
  TENON_CHECK(node.op != OpKind::kAccumulated, "an accumulator outside of a block graph");

  auto out = make_values<S>(node.axes, result_extents<S>(node.axes, a, b, axis_extent));
  std::vector<std::int64_t> along_a = strides_along(a->axes, a->extents, node.axes);
  std::vector<std::int64_t> along_b =
      b ? strides_along(b->axes, b->extents, node.axes) : std::vector<std::int64_t>{};
  std::size_t o = 0;
  for (Odometer at(out.extents); !at.done(); at.next(), ++o) {
    const S& x = a->data[static_cast<std::size_t>(dot(along_a, at.index()))];
    if (node.op == OpKind::kBroadcast)
      out.data[o] = x;
    else if (node.op == OpKind::kCast)
      out.data[o] = domain.round(bind(node.dtype, domain.elem()), x);
    else if (b == nullptr)
      out.data[o] = domain.apply(node.op, x);
    else
      out.data[o] =
          domain.apply(node.op, x, b->data[static_cast<std::size_t>(dot(along_b, at.index()))]);
  }
  return out;
}

template <class D>
void evaluate_into(const Graph& graph, ValueId v, const Extents& dims, D& domain,
                   std::vector<Values<typename D::Scalar>>& values,
                   const std::function<std::int64_t(Axis)>& axis_extent) {
  const Node& node = graph.node(v);
  auto at = [&](ValueId id) {
    return id == kNoValue ? nullptr : &values[static_cast<std::size_t>(id)];
  };
  values[static_cast<std::size_t>(v)] =
      evaluate_node(node, dims, domain, at(node.a), at(node.b), axis_extent);
}

template <class D>
std::vector<Values<typename D::Scalar>> evaluate_all(
    const Graph& graph, const Extents& dims, D& domain,
    std::vector<Values<typename D::Scalar>> values,
    const std::function<std::int64_t(Axis)>& axis_extent) {
  TENON_CHECK(values.size() == graph.inputs().size(), "one value per input");
  values.resize(static_cast<std::size_t>(graph.value_count()));
  for (ValueId v = static_cast<ValueId>(graph.inputs().size()); v < graph.value_count(); ++v)
    evaluate_into(graph, v, dims, domain, values, axis_extent);
  return values;
}

template <class S>
std::vector<std::int64_t> full_extents(const Axes& axes, const Extents& dims) {
  std::vector<std::int64_t> extents;
  for (const Axis& axis : axes) extents.push_back(dims[axis.dim]);
  return extents;
}

// A value with its axes in the order of `axes`, rounded to `dtype` as a store does.
template <class D>
Values<typename D::Scalar> stored(D& domain, const Values<typename D::Scalar>& v, const Axes& axes,
                                  DType dtype) {
  using S = typename D::Scalar;
  auto out = make_values<S>(axes, result_extents<S>(axes, &v, nullptr, {}));
  std::vector<std::int64_t> along = strides_along(v.axes, v.extents, axes);
  std::size_t o = 0;
  for (Odometer at(out.extents); !at.done(); at.next(), ++o)
    out.data[o] = domain.round(bind(dtype, domain.elem()),
                               v.data[static_cast<std::size_t>(dot(along, at.index()))]);
  return out;
}

// Executes one block graph over whole tensors.
template <class D>
class BlockEvaluator {
 public:
  using S = typename D::Scalar;
  BlockEvaluator(const MuGraph& graph, const BlockGraph& block, const Extents& dims,
                 const Partition& partition, D& domain, std::vector<Values<S>>& tensors)
      : graph_(graph),
        block_(block),
        dims_(dims),
        partition_(partition),
        domain_(domain),
        tensors_(tensors),
        stage_(stages(block)) {}

  void run() {
    for (const BlockOutput& out : block_.outputs) {
      const Tensor& t = graph_.tensors[static_cast<std::size_t>(out.tensor)];
      tensors_[static_cast<std::size_t>(out.tensor)] =
          make_values<S>(t.axes, full_extents<S>(t.axes, dims_));
    }
    std::vector<std::int64_t> parallel, split;
    for (const GridDim& g : block_.grid) {
      parallel.push_back(g.split ? 1 : partition_.grid[g.dim]);
      split.push_back(g.split ? partition_.grid[g.dim] : 1);
    }
    for (Odometer block(parallel); !block.done(); block.next()) {
      std::optional<std::vector<std::vector<Values<S>>>> merged;
      for (Odometer share(split); !share.done(); share.next()) {
        block_index_.clear();
        for (std::size_t i = 0; i < block_.grid.size(); ++i)
          block_index_.push_back(block.index()[i] + share.index()[i]);
        auto states = run_share();
        merged = merged ? merge(*merged, states) : std::move(states);
      }
      finish(*merged);
    }
  }

 private:
  std::int64_t block_of(DimId dim) const {
    for (std::size_t i = 0; i < block_.grid.size(); ++i)
      if (block_.grid[i].dim == dim) return block_index_[i];
    return 0;
  }
  bool in_grid(DimId dim) const {
    return std::any_of(block_.grid.begin(), block_.grid.end(),
                       [&](const GridDim& g) { return g.dim == dim; });
  }
  std::int64_t step_of(DimId dim) const {
    for (std::size_t i = 0; i < block_.loop.size(); ++i)
      if (block_.loop[i] == dim) return step_index_.empty() ? 0 : step_index_[i];
    return 0;
  }
  Range range(DimId dim, AxisMap map) const {
    bool grid = in_grid(dim);
    return part_range(dims_[dim], map, grid ? partition_.grid[dim] : 1, block_of(dim),
                      partition_.loop[dim], step_of(dim), grid);
  }
  std::function<std::int64_t(Axis)> axis_extent() const {
    return [this](Axis axis) { return range(axis.dim, AxisMap{axis.part, 0}).size(); };
  }

  void load(std::size_t i) {
    const BlockInput& in = block_.inputs[i];
    const Values<S>& tensor = tensors_[static_cast<std::size_t>(in.tensor)];
    std::vector<Range> ranges;
    std::vector<std::int64_t> extents;
    for (std::size_t a = 0; a < tensor.axes.size(); ++a) {
      ranges.push_back(range(tensor.axes[a].dim, in.maps[a]));
      extents.push_back(ranges.back().size());
    }
    auto tile = make_values<S>(block_.graph.inputs()[i].axes, extents);
    std::vector<std::int64_t> strides = strides_along(tensor.axes, tensor.extents, tensor.axes);
    std::size_t o = 0;
    for (Odometer at(extents); !at.done(); at.next(), ++o) {
      std::int64_t from = 0;
      for (std::size_t a = 0; a < ranges.size(); ++a)
        from += ranges[a].element(at.index()[a]) * strides[a];
      tile.data[o] = tensor.data[static_cast<std::size_t>(from)];
    }
    values_[i] = std::move(tile);
  }

  void run_stage(Stage stage) {
    for (ValueId v = 0; v < block_.graph.value_count(); ++v) {
      if (stage_[static_cast<std::size_t>(v)] != stage) continue;
      if (block_.graph.is_input(v))
        load(static_cast<std::size_t>(v));
      else if (block_.graph.node(v).op != OpKind::kAccumulated)
        evaluate_into(block_.graph, v, dims_, domain_, values_, axis_extent());
    }
  }

  // Runs `expression` and picks its outputs.
  std::vector<Values<S>> run_expression(const Graph& expression,
                                        const std::vector<ValueId>& outputs,
                                        std::vector<Values<S>> inputs) {
    auto all = evaluate_all(expression, dims_, domain_, std::move(inputs), axis_extent());
    std::vector<Values<S>> out;
    for (ValueId v : outputs) out.push_back(all[static_cast<std::size_t>(v)]);
    return out;
  }

  // The states of every accumulator after all loop steps of one share.
  std::vector<std::vector<Values<S>>> run_share() {
    values_.assign(static_cast<std::size_t>(block_.graph.value_count()), {});
    step_index_.clear();
    std::vector<std::vector<Values<S>>> states;
    for (const Accumulator& acc : block_.accumulators)
      states.push_back(run_expression(acc.init, acc.init_out, {}));
    run_stage(Stage::kPrologue);
    store_stage(Stage::kPrologue);
    std::vector<std::int64_t> steps;
    for (DimId d : block_.loop) steps.push_back(partition_.loop[d]);
    for (Odometer step(steps); !step.done(); step.next()) {
      step_index_ = step.index();
      run_stage(Stage::kBody);
      store_stage(Stage::kBody);
      for (std::size_t i = 0; i < states.size(); ++i) {
        const Accumulator& acc = block_.accumulators[i];
        std::vector<Values<S>> inputs = states[i];
        bool empty = false;
        for (ValueId operand : acc.operands) {
          inputs.push_back(values_[static_cast<std::size_t>(operand)]);
          empty = empty || extent_of(inputs.back(), acc.dim) == 0;
        }
        if (empty) continue;
        states[i] = run_expression(acc.update, acc.update_out, std::move(inputs));
      }
    }
    step_index_.clear();
    return states;
  }

  std::vector<std::vector<Values<S>>> merge(const std::vector<std::vector<Values<S>>>& left,
                                            const std::vector<std::vector<Values<S>>>& right) {
    std::vector<std::vector<Values<S>>> out;
    for (std::size_t i = 0; i < left.size(); ++i) {
      std::vector<Values<S>> inputs = left[i];
      inputs.insert(inputs.end(), right[i].begin(), right[i].end());
      out.push_back(run_expression(block_.accumulators[i].merge, block_.accumulators[i].merge_out,
                                   std::move(inputs)));
    }
    return out;
  }

  void finish(const std::vector<std::vector<Values<S>>>& states) {
    std::vector<std::vector<Values<S>>> results;
    for (std::size_t i = 0; i < states.size(); ++i)
      results.push_back(run_expression(block_.accumulators[i].finalize,
                                       block_.accumulators[i].finalize_out, states[i]));
    for (ValueId v = static_cast<ValueId>(block_.graph.inputs().size());
         v < block_.graph.value_count(); ++v) {
      const Node& node = block_.graph.node(v);
      if (node.op == OpKind::kAccumulated)
        values_[static_cast<std::size_t>(v)] = results[static_cast<std::size_t>(node.accumulator)]
                                                      [static_cast<std::size_t>(node.result)];
    }
    run_stage(Stage::kEpilogue);
    store_stage(Stage::kEpilogue);
  }

  void store_stage(Stage stage) {
    for (const BlockOutput& out : block_.outputs)
      if (stage_[static_cast<std::size_t>(out.value)] == stage) store(out);
  }

  // omap: the value's axes say where it goes; over grid dims it lacks, block 0 writes.
  void store(const BlockOutput& out) {
    const Axes& axes = block_.graph.axes(out.value);
    for (std::size_t i = 0; i < block_.grid.size(); ++i) {
      int a = find_dim(axes, block_.grid[i].dim);
      bool along = a >= 0 && (axes[static_cast<std::size_t>(a)].part & kGrid);
      if (!along && !block_.grid[i].split && block_index_[i] != 0) return;
    }
    Values<S>& tensor = tensors_[static_cast<std::size_t>(out.tensor)];
    const DType dtype = graph_.tensors[static_cast<std::size_t>(out.tensor)].dtype;
    const Values<S>& value = values_[static_cast<std::size_t>(out.value)];
    std::vector<std::int64_t> strides = strides_along(tensor.axes, tensor.extents, axes);
    std::vector<Range> ranges;
    for (const Axis& axis : axes) ranges.push_back(range(axis.dim, AxisMap{axis.part, 0}));
    std::size_t o = 0;
    for (Odometer at(value.extents); !at.done(); at.next(), ++o) {
      std::int64_t to = 0;
      for (std::size_t a = 0; a < ranges.size(); ++a)
        to += ranges[a].element(at.index()[a]) * strides[a];
      tensor.data[static_cast<std::size_t>(to)] =
          domain_.round(bind(dtype, domain_.elem()), value.data[o]);
    }
  }

  const MuGraph& graph_;
  const BlockGraph& block_;
  const Extents& dims_;
  const Partition& partition_;
  D& domain_;
  std::vector<Values<S>>& tensors_;
  std::vector<Stage> stage_;
  std::vector<std::int64_t> block_index_, step_index_;
  std::vector<Values<S>> values_;
};

void check_inputs(const Signature& signature, const Extents& extents, std::size_t count);

}  // namespace detail

template <class D>
std::vector<Values<typename D::Scalar>> evaluate_graph(
    const Graph& graph, const Extents& extents, D& domain,
    std::vector<Values<typename D::Scalar>> inputs) {
  return detail::evaluate_all(graph, extents, domain, std::move(inputs),
                              [&](Axis axis) { return extents[axis.dim]; });
}

template <class D>
std::vector<Values<typename D::Scalar>> evaluate(
    const Program& program, const Extents& extents, D& domain,
    const std::vector<Values<typename D::Scalar>>& inputs) {
  detail::check_inputs(program.signature, extents, inputs.size());
  auto all = evaluate_graph(program.graph, extents, domain, inputs);
  std::vector<Values<typename D::Scalar>> out;
  for (std::size_t i = 0; i < program.signature.outputs.size(); ++i) {
    const ProgramOutput& o = program.signature.outputs[i];
    out.push_back(detail::stored(domain, all[static_cast<std::size_t>(o.value)],
                                 program.signature.output_axes[i], o.dtype));
  }
  return out;
}

template <class D>
std::vector<Values<typename D::Scalar>> evaluate(
    const MuGraph& graph, const Extents& extents, const Partition& partition, D& domain,
    const std::vector<Values<typename D::Scalar>>& inputs) {
  using S = typename D::Scalar;
  const Signature& signature = graph.signature;
  detail::check_inputs(signature, extents, inputs.size());
  for (const Tensor& t : graph.tensors) element_count(t.axes, extents);
  std::vector<Values<S>> tensors(graph.tensors.size());
  std::copy(inputs.begin(), inputs.end(), tensors.begin());

  std::vector<Values<S>> parameters;
  for (const GraphInput& in : graph.prepare.graph.inputs())
    for (std::size_t i = 0; i < signature.inputs.size(); ++i)
      if (signature.inputs[i].name == in.name) parameters.push_back(inputs[i]);
  auto prepared = evaluate_graph(graph.prepare.graph, extents, domain, std::move(parameters));
  for (const BlockOutput& out : graph.prepare.outputs) {
    const Tensor& t = graph.tensors[static_cast<std::size_t>(out.tensor)];
    tensors[static_cast<std::size_t>(out.tensor)] =
        detail::stored(domain, prepared[static_cast<std::size_t>(out.value)], t.axes, t.dtype);
  }

  for (const Kernel& kernel : graph.kernels) {
    if (const LibraryMatmul* product = kernel.library()) {
      const Tensor& t = graph.tensors[static_cast<std::size_t>(product->out)];
      Node node;
      node.op = OpKind::kMatmul;
      node.dim = product->dim;
      node.axes = t.axes;
      auto value = detail::evaluate_matmul(node, extents, domain,
                                           tensors[static_cast<std::size_t>(product->a)],
                                           tensors[static_cast<std::size_t>(product->b)]);
      tensors[static_cast<std::size_t>(product->out)] =
          detail::stored(domain, value, t.axes, t.dtype);
    } else {
      detail::BlockEvaluator<D>(graph, *kernel.block(), extents, partition, domain, tensors).run();
    }
  }
  auto first = tensors.begin() + static_cast<std::ptrdiff_t>(signature.inputs.size());
  return {first, first + static_cast<std::ptrdiff_t>(signature.outputs.size())};
}

}  // namespace tenon::ir
