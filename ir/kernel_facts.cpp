#include "ir/kernel_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "ir/error.h"
#include "ir/online_accumulator.h"

namespace tenon::ir {

namespace {

Axes full(Axes axes) {
  for (Axis& axis : axes) axis.part = kFull;
  return axes;
}

// Builds a graph in which equal nodes are one value.
class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}

  ValueId add(const Node& node) {
    for (ValueId v = static_cast<ValueId>(graph_.inputs().size()); v < graph_.value_count(); ++v) {
      const Node& have = graph_.node(v);
      if (have.op != node.op || have.a != node.a || have.b != node.b) continue;
      bool same = true;
      if (node.op == OpKind::kConst) same = have.constant == node.constant;
      if (node.op == OpKind::kSum || node.op == OpKind::kMatmul) same = have.dim == node.dim;
      if (node.op == OpKind::kCast) same = have.dtype == node.dtype;
      if (node.op == OpKind::kBroadcast) same = have.axes == node.axes;
      if (same) return v;
    }
    return graph_.append(node);
  }

 private:
  Graph& graph_;
};

class Flattener {
 public:
  Flattener(const MuGraph& graph, const BlockGraph& block) : graph_(graph), block_(block) {}

  Dataflow run() {
    for (const GridDim& g : block_.grid) flow_.split = flow_.split || g.split;
    add_inputs();
    Builder builder(flow_.graph);
    const Graph& body = block_.graph;
    for (ValueId v = static_cast<ValueId>(body.inputs().size()); v < body.value_count(); ++v)
      map_.push_back(add_node(builder, body.node(v)));
    for (const BlockOutput& out : block_.outputs)
      flow_.outputs.push_back(
          {graph_.tensors[static_cast<std::size_t>(out.tensor)], at(out.value)});
    return std::move(flow_);
  }

 private:
  ValueId at(ValueId v) const { return map_[static_cast<std::size_t>(v)]; }

  void add_inputs() {
    std::map<TensorId, ValueId> seen;
    for (const BlockInput& in : block_.inputs) {
      for (const AxisMap& map : in.maps)
        if (map.shift != 0) throw NotLowerable("a block reads another block's share");
      auto it = seen.find(in.tensor);
      if (it == seen.end()) {
        const Tensor& tensor = graph_.tensors[static_cast<std::size_t>(in.tensor)];
        it = seen.emplace(in.tensor, flow_.graph.input(tensor.name, tensor.axes)).first;
        flow_.inputs.push_back(tensor);
      }
      map_.push_back(it->second);
    }
  }

  bool split_dim(DimId dim) const {
    return std::any_of(block_.grid.begin(), block_.grid.end(),
                       [&](const GridDim& g) { return g.dim == dim && g.split; });
  }

  // A reduction of a body value must see the whole axis, in pieces or at once.
  void check_whole(ValueId operand, DimId dim, bool accumulated) const {
    const Axes& axes = block_.graph.axes(operand);
    int i = find_dim(axes, dim);
    if (i < 0) throw NotLowerable("an accumulator takes a value without the dim that it sums");
    Part part = axes[static_cast<std::size_t>(i)].part;
    if (!accumulated && part != kFull)
      throw NotLowerable("a reduction of one loop step's or block's share outside an accumulator");
    if ((part & kGrid) && !split_dim(dim)) throw NotLowerable("a reduction of a block's own share");
  }

  ValueId add_node(Builder& builder, Node node) {
    if (node.op == OpKind::kAccumulated) return add_accumulated(builder, node);
    if (node.op == OpKind::kSum || node.op == OpKind::kMatmul) check_whole(node.a, node.dim, false);
    if (node.op == OpKind::kMatmul) check_whole(node.b, node.dim, false);
    if (node.a != kNoValue) node.a = at(node.a);
    if (node.b != kNoValue) node.b = at(node.b);
    node.axes = full(node.axes);
    return builder.add(node);
  }

  ValueId add_accumulated(Builder& builder, const Node& node) {
    const Accumulator& acc = block_.accumulators[static_cast<std::size_t>(node.accumulator)];
    Node out;
    out.dim = acc.dim;
    if (acc.kind == "sum")
      out.op = OpKind::kSum;
    else if (acc.kind == "matmul")
      out.op = OpKind::kMatmul;
    else if (is_deviation_accumulator(acc, block_.graph) ||
             is_centered_matmul_accumulator(acc, block_.graph))
      return add_online(builder, acc, node.result);
    else
      throw NotLowerable("an accumulator that is neither a sum nor a product");
    for (ValueId operand : acc.operands) check_whole(operand, acc.dim, true);
    out.a = at(acc.operands[0]);
    if (out.op == OpKind::kMatmul) out.b = at(acc.operands[1]);
    return builder.add(out);
  }

  static ValueId node(Builder& builder, OpKind op, ValueId a, ValueId b = kNoValue, DimId dim = 0) {
    Node n;
    n.op = op;
    n.a = a;
    n.b = b;
    n.dim = dim;
    return builder.add(n);
  }

  // What is gathered about a running mean is, in the end, gathered about the mean.
  ValueId add_online(Builder& builder, const Accumulator& acc, int result) {
    for (ValueId operand : acc.operands) check_whole(operand, acc.dim, true);
    ValueId x = at(acc.operands[0]);
    Node inverse;
    inverse.op = OpKind::kConst;
    inverse.constant = Constant{{1, 1}, {{acc.dim, -1}}, {}};
    ValueId mean = node(builder, OpKind::kMul, node(builder, OpKind::kSum, x, kNoValue, acc.dim),
                        builder.add(inverse));
    if (acc.operands.size() == 1 && result == 0) return mean;
    ValueId deviation = node(builder, OpKind::kSub, x, mean);
    if (acc.operands.size() == 1)
      return node(builder, OpKind::kSum, node(builder, OpKind::kSquare, deviation), kNoValue,
                  acc.dim);
    Node rounded;
    rounded.op = OpKind::kCast;
    rounded.dtype = DType::kElem;
    rounded.a = deviation;
    return node(builder, OpKind::kMatmul, builder.add(rounded), at(acc.operands[1]), acc.dim);
  }

  const MuGraph& graph_;
  const BlockGraph& block_;
  Dataflow flow_;
  std::vector<ValueId> map_;
};

bool is_reduction(const Graph& graph, ValueId v) {
  return !graph.is_input(v) &&
         (graph.node(v).op == OpKind::kSum || graph.node(v).op == OpKind::kMatmul);
}

// Products whose result has at most one axis are sums of a pointwise product: Σ_k x·g.
Dataflow products_to_sums(const Dataflow& flow) {
  Dataflow out;
  out.inputs = flow.inputs;
  out.split = flow.split;
  out.merge = flow.merge;
  out.periodic = flow.periodic;
  for (const GraphInput& in : flow.graph.inputs()) out.graph.input(in.name, in.axes);
  Builder builder(out.graph);
  std::vector<ValueId> map;
  for (ValueId v = 0; v < flow.graph.value_count(); ++v) {
    if (flow.graph.is_input(v)) {
      map.push_back(v);
      continue;
    }
    Node node = flow.graph.node(v);
    if (node.a != kNoValue) node.a = map[static_cast<std::size_t>(node.a)];
    if (node.b != kNoValue) node.b = map[static_cast<std::size_t>(node.b)];
    if (node.op == OpKind::kMatmul && node.axes.size() <= 1) {
      Node product;
      product.op = OpKind::kMul;
      product.a = node.a;
      product.b = node.b;
      Node sum;
      sum.op = OpKind::kSum;
      sum.dim = node.dim;
      sum.a = builder.add(product);
      map.push_back(builder.add(sum));
      continue;
    }
    map.push_back(builder.add(node));
  }
  for (const Dataflow::Output& o : flow.outputs)
    out.outputs.push_back({o.tensor, map[static_cast<std::size_t>(o.value)]});
  return out;
}

class Analyzer {
 public:
  explicit Analyzer(Dataflow flow) {
    facts_.flow = products_to_sums(flow);
    mark_live();
  }

  KernelFacts run() {
    collect();
    if (products_.empty())
      choose_row();
    else
      choose_contraction_dims();
    check_axes();
    rank_sums();
    if (!products_.empty()) add_operands();
    make_passes();
    check_outputs();
    return std::move(facts_);
  }

 private:
  const Graph& graph() const { return facts_.flow.graph; }
  bool live(ValueId v) const { return live_[static_cast<std::size_t>(v)]; }

  void mark_live() {
    live_.assign(static_cast<std::size_t>(graph().value_count()), false);
    for (const Dataflow::Output& out : facts_.flow.outputs)
      live_[static_cast<std::size_t>(out.value)] = true;
    for (ValueId v = graph().value_count() - 1; v >= 0; --v) {
      if (!live(v) || graph().is_input(v)) continue;
      for (ValueId operand : {graph().node(v).a, graph().node(v).b})
        if (operand != kNoValue) live_[static_cast<std::size_t>(operand)] = true;
    }
  }

  void collect() {
    for (ValueId v = 0; v < graph().value_count(); ++v) {
      if (!live(v) || !is_reduction(graph(), v)) continue;
      (graph().node(v).op == OpKind::kSum ? sums_ : products_).push_back(v);
    }
    facts_.kernel_class = products_.empty() ? KernelClass::kRows : KernelClass::kContraction;
  }

  void choose_row() {
    for (ValueId v : sums_) {
      const Axes& axes = graph().axes(v);
      if (axes.size() > 1) throw NotLowerable("a sum whose result has two axes");
      if (axes.empty()) continue;
      if (facts_.row >= 0 && facts_.row != axes[0].dim)
        throw NotLowerable("sums whose results lie along different dims");
      facts_.row = axes[0].dim;
    }
    if (facts_.row < 0 && !facts_.flow.outputs[0].tensor.axes.empty())
      facts_.row = facts_.flow.outputs[0].tensor.axes[0].dim;
  }

  void choose_contraction_dims() {
    for (ValueId v : sums_)
      if (depends_on_product(graph().node(v).a))
        throw NotLowerable("a sum over a product's result in one kernel");
    facts_.reduced = graph().node(products_[0]).dim;
    // Rows are the slowest axis of what is written, else of the product.
    const Axes& axes = graph().axes(products_[0]);
    if (axes.size() != 2) throw NotLowerable("a product with batch axes");
    facts_.row = axes[0].dim;
    for (const Dataflow::Output& out : facts_.flow.outputs)
      if (out.tensor.axes.size() == 2 && find_dim(axes, out.tensor.axes[0].dim) >= 0) {
        facts_.row = out.tensor.axes[0].dim;
        break;
      }
    facts_.column = axes[0].dim == facts_.row ? axes[1].dim : axes[0].dim;
    for (ValueId v : products_) {
      const Axes& other = graph().axes(v);
      if (graph().node(v).dim != facts_.reduced || other.size() != 2 ||
          find_dim(other, static_cast<DimId>(facts_.row)) < 0 ||
          find_dim(other, static_cast<DimId>(facts_.column)) < 0)
        throw NotLowerable("products over different dims in one kernel");
      if (depends_on_product(graph().node(v).a) || depends_on_product(graph().node(v).b))
        throw NotLowerable("a product of another product's result in one kernel");
    }
    for (ValueId v : sums_) {
      const Axes& result = graph().axes(v);
      if (result.size() > 1 || (result.size() == 1 && result[0].dim != facts_.row))
        throw NotLowerable("a sum along the columns of a kernel with a product");
      if (graph().node(v).dim == facts_.row || graph().node(v).dim == facts_.column)
        throw NotLowerable("a sum over a dim of the product's result");
    }
  }

  bool depends_on(ValueId v, const std::function<bool(ValueId)>& what) const {
    if (what(v)) return true;
    if (graph().is_input(v)) return false;
    for (ValueId operand : {graph().node(v).a, graph().node(v).b})
      if (operand != kNoValue && depends_on(operand, what)) return true;
    return false;
  }
  bool depends_on_product(ValueId v) const {
    return depends_on(v, [&](ValueId u) {
      return !graph().is_input(u) && graph().node(u).op == OpKind::kMatmul;
    });
  }

  void check_axes() const {
    for (ValueId v = 0; v < graph().value_count(); ++v) {
      if (!live(v)) continue;
      const Axes& axes = graph().axes(v);
      if (axes.size() > 2) throw NotLowerable("a value with more than two axes");
      if (axes.size() == 2 && facts_.kernel_class == KernelClass::kRows &&
          !facts_.has_dim(v, facts_.row))
        throw NotLowerable("a value with two axes of which none is the row");
      if (axes.size() == 2 && facts_.kernel_class == KernelClass::kContraction)
        for (const Axis& axis : axes)
          if (axis.dim != facts_.row && axis.dim != facts_.column && axis.dim != facts_.reduced &&
              !facts_.has_dim(v, facts_.row))
            throw NotLowerable("a value along a dim that the product does not have");
    }
  }

  // The phase of a sum: one more than that of the sums it depends on.
  int rank(ValueId v) {
    if (graph().is_input(v)) return 0;
    auto it = rank_.find(v);
    if (it != rank_.end()) return it->second;
    int r = 0;
    for (ValueId operand : {graph().node(v).a, graph().node(v).b})
      if (operand != kNoValue) r = std::max(r, rank(operand));
    if (graph().node(v).op == OpKind::kSum) ++r;
    rank_[v] = r;
    return r;
  }
  void rank_sums() {
    for (ValueId v : sums_) rank(v);
  }

  // The input a chain streams: one with both axes, else any with `inner`.
  int source_of(ValueId v, int inner) const {
    int best = -1;
    int best_score = 0;
    for (int i : facts_.inputs_of(v)) {
      const Axes& axes = facts_.flow.inputs[static_cast<std::size_t>(i)].axes;
      if (find_dim(axes, static_cast<DimId>(inner)) < 0 || facts_.is_periodic(i)) continue;
      int score = static_cast<int>(axes.size()) * 2 + (axes.back().dim == inner ? 1 : 0);
      if (score > best_score) {
        best = i;
        best_score = score;
      }
    }
    return best;
  }

  void add_operands() {
    for (ValueId v : products_) {
      const Node& node = graph().node(v);
      ValueId a = node.a;
      ValueId b = node.b;
      if (!facts_.has_dim(a, facts_.row)) std::swap(a, b);
      if (!facts_.has_dim(a, facts_.row) || facts_.has_dim(a, facts_.column) ||
          facts_.has_dim(b, facts_.row) || !facts_.has_dim(b, facts_.column))
        throw NotLowerable("a product whose operands share an axis that is not summed");
      facts_.products.push_back(
          {v, add_operand(facts_.a_operands, a), add_operand(facts_.b_operands, b)});
    }
    put_summed_operand_first();
  }

  int add_operand(std::vector<Operand>& list, ValueId v) const {
    for (std::size_t i = 0; i < list.size(); ++i)
      if (list[i].value == v) return static_cast<int>(i);
    Operand operand;
    operand.value = v;
    operand.source = source_of(v, facts_.reduced);
    operand.identity = graph().is_input(v);
    list.push_back(operand);
    return static_cast<int>(list.size()) - 1;
  }

  bool needed_early(ValueId sum) const {
    auto is_it = [&](ValueId u) { return u == sum; };
    for (const Product& p : facts_.products) {
      const Node& node = graph().node(p.value);
      if (depends_on(node.a, is_it) || depends_on(node.b, is_it)) return true;
    }
    for (ValueId other : sums_)
      if (other != sum && depends_on(graph().node(other).a, is_it)) return true;
    for (std::size_t i = 0; i < facts_.flow.outputs.size(); ++i)
      if (facts_.is_side_output(i) && depends_on(facts_.flow.outputs[i].value, is_it)) return true;
    return false;
  }

  bool fits_product(ValueId sum, const Operand& operand) const {
    const Node& node = graph().node(sum);
    return node.dim == facts_.reduced && operand.source >= 0 && !needed_early(sum) &&
           source_of(node.a, node.dim) == operand.source;
  }

  // Sums are gathered from the tiles of one operand: the one that most of them read.
  void put_summed_operand_first() {
    int best = 0;
    long best_count = -1;
    for (std::size_t i = 0; i < facts_.a_operands.size(); ++i) {
      long count = std::count_if(sums_.begin(), sums_.end(),
                                 [&](ValueId s) { return fits_product(s, facts_.a_operands[i]); });
      if (count > best_count) {
        best = static_cast<int>(i);
        best_count = count;
      }
    }
    std::swap(facts_.a_operands[0], facts_.a_operands[static_cast<std::size_t>(best)]);
    for (Product& p : facts_.products) {
      if (p.a == 0)
        p.a = best;
      else if (p.a == best)
        p.a = 0;
    }
  }

  void make_passes() {
    for (ValueId v : sums_) {
      const Node& node = graph().node(v);
      SumPass pass;
      pass.phase = rank_.at(v);
      pass.dim = node.dim;
      pass.source = source_of(node.a, node.dim);
      pass.with_product =
          facts_.kernel_class == KernelClass::kContraction && fits_product(v, facts_.a_operands[0]);
      if (pass.with_product) pass.phase = 1 << 20;
      passes_.push_back({pass, v});
    }
    std::stable_sort(passes_.begin(), passes_.end(), [](const auto& x, const auto& y) {
      auto key = [](const SumPass& p) { return std::tuple(p.phase, p.dim, p.source); };
      return key(x.first) < key(y.first);
    });
    for (auto& [pass, v] : passes_) {
      if (facts_.passes.empty() || facts_.passes.back().phase != pass.phase ||
          facts_.passes.back().dim != pass.dim || facts_.passes.back().source != pass.source) {
        facts_.passes.push_back(pass);
        facts_.passes.back().first = static_cast<int>(facts_.sums.size());
      }
      ++facts_.passes.back().count;
      facts_.sums.push_back({v, graph().node(v).a});
    }
    int last = 0;
    for (SumPass& pass : facts_.passes) {
      if (pass.with_product) pass.phase = last + 1;
      last = pass.phase;
    }
  }

  void check_outputs() const {
    for (std::size_t i = 0; i < facts_.flow.outputs.size(); ++i) {
      const Dataflow::Output& out = facts_.flow.outputs[i];
      const Axes& axes = out.tensor.axes;
      if (axes.empty() || facts_.is_side_output(i)) continue;
      if (find_dim(axes, static_cast<DimId>(facts_.row)) < 0)
        throw NotLowerable("output " + out.tensor.name + " does not have the kernel's row dim");
      if (facts_.kernel_class == KernelClass::kContraction && axes.size() == 2 &&
          find_dim(axes, static_cast<DimId>(facts_.column)) < 0)
        throw NotLowerable("output " + out.tensor.name +
                           " lies along another dim than the product's columns");
    }
  }

  KernelFacts facts_;
  std::vector<bool> live_;
  std::vector<ValueId> sums_, products_;
  std::map<ValueId, int> rank_;
  std::vector<std::pair<SumPass, ValueId>> passes_;
};

}  // namespace

namespace {

// Can the dims be one? Where a value has both they are neighbours; no reduction takes one of them;
// no constant is made of one. An input may have the second alone, as its first axis.
bool can_merge(const Dataflow& flow, Dataflow::Merge m) {
  auto fits = [&](const Axes& axes) {
    int a = find_dim(axes, m.first);
    int b = find_dim(axes, m.second);
    return a < 0 ? b <= 0 : b == a + 1;
  };
  for (const Dataflow::Output& out : flow.outputs)
    if (!fits(out.tensor.axes) ||
        (find_dim(out.tensor.axes, m.first) < 0 && find_dim(out.tensor.axes, m.second) >= 0))
      return false;
  for (ValueId v = 0; v < flow.graph.value_count(); ++v) {
    if (!fits(flow.graph.axes(v))) return false;
    if (flow.graph.is_input(v)) continue;
    const Node& node = flow.graph.node(v);
    bool reduces = node.op == OpKind::kSum || node.op == OpKind::kMatmul;
    if (reduces && (node.dim == m.first || node.dim == m.second)) return false;
    if (reduces && find_dim(node.axes, m.first) < 0 && find_dim(node.axes, m.second) >= 0)
      return false;
    if (node.op == OpKind::kConst &&
        (node.constant.dims.count(m.first) || node.constant.dims.count(m.second)))
      return false;
  }
  return true;
}

Axes merged(const Axes& axes, Dataflow::Merge m) {
  Axes out;
  const bool both = find_dim(axes, m.first) >= 0;
  for (const Axis& axis : axes) {
    if (axis.dim == m.second && both) continue;
    out.push_back(axis);
    if (axis.dim == m.second) out.back().dim = m.first;
  }
  return out;
}

}  // namespace

Dataflow merge_axes(Dataflow flow) {
  std::set<std::pair<DimId, DimId>> neighbours;
  for (ValueId v = 0; v < flow.graph.value_count(); ++v) {
    const Axes& axes = flow.graph.axes(v);
    if (axes.size() < 3) continue;
    for (std::size_t i = 1; i < axes.size(); ++i) neighbours.insert({axes[i - 1].dim, axes[i].dim});
  }
  for (auto [first, second] : neighbours) {
    Dataflow::Merge m{first, second};
    if (!can_merge(flow, m)) continue;
    Dataflow out;
    out.split = flow.split;
    out.merge = m;
    for (ValueId v = 0; v < flow.graph.value_count(); ++v) {
      if (flow.graph.is_input(v)) {
        const GraphInput& in = flow.graph.inputs()[static_cast<std::size_t>(v)];
        Tensor tensor = flow.inputs[static_cast<std::size_t>(v)];
        out.periodic.push_back(find_dim(tensor.axes, first) < 0 &&
                               find_dim(tensor.axes, second) >= 0);
        tensor.axes = merged(tensor.axes, m);
        out.graph.input(in.name, tensor.axes);
        out.inputs.push_back(std::move(tensor));
        continue;
      }
      Node node = flow.graph.node(v);
      node.axes = merged(node.axes, m);
      out.graph.append(node);
    }
    for (Dataflow::Output o : flow.outputs) {
      o.tensor.axes = merged(o.tensor.axes, m);
      out.outputs.push_back(std::move(o));
    }
    return out;
  }
  return flow;
}

Extents merged_extents(const Dataflow& flow, Extents extents) {
  if (flow.merge)
    extents[flow.merge->first] = extents[flow.merge->first] * extents[flow.merge->second];
  return extents;
}

Dataflow flatten(const MuGraph& graph, const BlockGraph& block) {
  return Flattener(graph, block).run();
}

namespace {

// The part of a dataflow that some of its outputs need.
Dataflow part_of(const Dataflow& flow, const std::vector<Dataflow::Output>& outputs) {
  std::vector<bool> live(static_cast<std::size_t>(flow.graph.value_count()), false);
  for (const Dataflow::Output& out : outputs) live[static_cast<std::size_t>(out.value)] = true;
  for (ValueId v = flow.graph.value_count() - 1; v >= 0; --v) {
    if (!live[static_cast<std::size_t>(v)] || flow.graph.is_input(v)) continue;
    for (ValueId operand : {flow.graph.node(v).a, flow.graph.node(v).b})
      if (operand != kNoValue) live[static_cast<std::size_t>(operand)] = true;
  }
  Dataflow part;
  part.split = flow.split;
  part.merge = flow.merge;
  std::vector<ValueId> map;
  for (ValueId v = 0; v < flow.graph.value_count(); ++v) {
    map.push_back(kNoValue);
    if (!live[static_cast<std::size_t>(v)]) continue;
    if (flow.graph.is_input(v)) {
      const GraphInput& in = flow.graph.inputs()[static_cast<std::size_t>(v)];
      map.back() = part.graph.input(in.name, in.axes);
      part.inputs.push_back(flow.inputs[static_cast<std::size_t>(v)]);
      if (!flow.periodic.empty())
        part.periodic.push_back(flow.periodic[static_cast<std::size_t>(v)]);
      continue;
    }
    Node node = flow.graph.node(v);
    if (node.a != kNoValue) node.a = map[static_cast<std::size_t>(node.a)];
    if (node.b != kNoValue) node.b = map[static_cast<std::size_t>(node.b)];
    map.back() = part.graph.append(node);
  }
  for (const Dataflow::Output& out : outputs)
    part.outputs.push_back({out.tensor, map[static_cast<std::size_t>(out.value)]});
  return part;
}

// A dataflow whose products share one axis, the row, and differ in the other, by columns; one
// whose products do not is all of one part.
std::vector<Dataflow> by_columns(const Dataflow& flow) {
  std::set<DimId> shared;
  std::vector<DimId> columns;
  bool first = true;
  for (ValueId v = static_cast<ValueId>(flow.inputs.size()); v < flow.graph.value_count(); ++v) {
    if (flow.graph.node(v).op != OpKind::kMatmul) continue;
    std::set<DimId> dims;
    for (const Axis& axis : flow.graph.axes(v)) dims.insert(axis.dim);
    if (dims.size() != 2) return {flow};
    if (first) shared = dims;
    first = false;
    std::erase_if(shared, [&](DimId d) { return !dims.count(d); });
    for (DimId d : dims)
      if (std::find(columns.begin(), columns.end(), d) == columns.end()) columns.push_back(d);
  }
  if (shared.size() != 1) return {flow};
  std::erase(columns, *shared.begin());
  // What has none of the columns goes with the first of them.
  std::vector<std::vector<Dataflow::Output>> outputs(columns.size());
  for (const Dataflow::Output& out : flow.outputs) {
    std::size_t part = 0;
    for (std::size_t c = 0; c < columns.size(); ++c)
      if (find_dim(out.tensor.axes, columns[c]) >= 0) part = c;
    outputs[part].push_back(out);
  }
  std::vector<Dataflow> parts;
  for (const std::vector<Dataflow::Output>& some : outputs) {
    if (some.empty()) return {flow};
    parts.push_back(part_of(flow, some));
  }
  return parts;
}

}  // namespace

KernelFacts analyze(Dataflow flow) {
  std::vector<Dataflow> flows = by_columns(flow);
  if (flows.size() < 2) return Analyzer(std::move(flow)).run();
  std::vector<KernelFacts> parts;
  for (Dataflow& part : flows) parts.push_back(Analyzer(std::move(part)).run());
  KernelFacts facts = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].row != facts.row || parts[i].reduced != facts.reduced ||
        parts[i].kernel_class != KernelClass::kContraction)
      throw NotLowerable("products over different dims in one kernel");
    facts.products.insert(facts.products.end(), parts[i].products.begin(), parts[i].products.end());
  }
  facts.flow = std::move(flow);
  facts.parts = std::move(parts);
  return facts;
}

bool KernelFacts::is_side_output(std::size_t i) const {
  const Axes& axes = flow.outputs[i].tensor.axes;
  return kernel_class == KernelClass::kContraction && axes.size() == 2 && row >= 0 &&
         reduced >= 0 && find_dim(axes, static_cast<DimId>(row)) >= 0 &&
         find_dim(axes, static_cast<DimId>(reduced)) >= 0;
}

int KernelFacts::sum_of(ValueId v) const {
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (sums[i].value == v) return static_cast<int>(i);
  return -1;
}

int KernelFacts::product_of(ValueId v) const {
  for (std::size_t i = 0; i < products.size(); ++i)
    if (products[i].value == v) return static_cast<int>(i);
  return -1;
}

bool KernelFacts::has_dim(ValueId v, int dim) const {
  return dim >= 0 && find_dim(flow.graph.axes(v), static_cast<DimId>(dim)) >= 0;
}

bool KernelFacts::is_row_value(ValueId v) const {
  for (const Axis& axis : flow.graph.axes(v))
    if (axis.dim != row) return false;
  return true;
}

std::vector<int> KernelFacts::inputs_of(ValueId v) const {
  std::set<int> found;
  std::set<ValueId> visited;
  std::function<void(ValueId)> visit = [&](ValueId u) {
    if (!visited.insert(u).second) return;
    if (flow.graph.is_input(u)) {
      found.insert(u);
      return;
    }
    if (is_reduction(flow.graph, u)) return;
    for (ValueId operand : {flow.graph.node(u).a, flow.graph.node(u).b})
      if (operand != kNoValue) visit(operand);
  };
  visit(v);
  return {found.begin(), found.end()};
}

std::optional<DType> exact_type(const Dataflow& flow, ValueId v) {
  if (flow.graph.is_input(v)) return flow.inputs[static_cast<std::size_t>(v)].dtype;
  const Node& node = flow.graph.node(v);
  if (node.op == OpKind::kBroadcast) return exact_type(flow, node.a);
  if (node.op != OpKind::kCast) return std::nullopt;
  // A widening cast leaves the narrower type's values.
  if (node.dtype == DType::kF32) {
    std::optional<DType> inner = exact_type(flow, node.a);
    return inner ? inner : DType::kF32;
  }
  return node.dtype;
}

ValueId strip(const Dataflow& flow, ValueId v, DType elem) {
  while (!flow.graph.is_input(v)) {
    const Node& node = flow.graph.node(v);
    bool nothing = node.op == OpKind::kBroadcast;
    if (node.op == OpKind::kCast) {
      DType to = bind(node.dtype, elem);
      std::optional<DType> from = exact_type(flow, node.a);
      nothing = to == DType::kF32 || (from && bind(*from, elem) == to);
    }
    if (!nothing) break;
    v = node.a;
  }
  return v;
}

std::int64_t stride_of(const Tensor& tensor, int dim, const Extents& extents) {
  std::int64_t stride = 1;
  for (std::size_t i = tensor.axes.size(); i-- > 0;) {
    if (tensor.axes[i].dim == dim) return stride;
    stride *= extents[tensor.axes[i].dim];
  }
  return 0;
}

bool has_row_stride(const Tensor& tensor, const Workload& workload) {
  return (tensor.kind == TensorKind::kInput || tensor.kind == TensorKind::kOutput) &&
         workload.row_strides.count(tensor.name) > 0;
}

std::int64_t stride_of(const Tensor& tensor, int dim, const Workload& workload) {
  if (has_row_stride(tensor, workload) && tensor.axes[0].dim == dim)
    return workload.row_strides.at(tensor.name);
  return stride_of(tensor, dim, workload.extents);
}

}  // namespace tenon::ir
