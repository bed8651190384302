#include "search/lower.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "ir/error.h"
#include "ir/online_accumulator.h"

namespace tenon::search {

namespace {

ir::DType tensor_dtype(const Expression& e) {
  return e.axes.size() >= 2 ? ir::DType::kElem : ir::DType::kF32;
}

// Adds nodes to a graph, rounding where the policy says.
class Emitter {
 public:
  explicit Emitter(const Space& space) : space_(space) {}
  ir::Graph graph;

  ir::ValueId rounded(ir::ValueId v, ir::DType have, ir::DType want) {
    if (want == ir::DType::kF32 || have == want) return v;
    auto [it, fresh] = casts_.try_emplace({v, want}, ir::kNoValue);
    if (fresh) it->second = graph.cast(v, want);
    return it->second;
  }

  // Operands of a product in the order that gives the result its storage order.
  std::pair<ir::ValueId, ir::ValueId> oriented(const Operation& o, ClassId result, ir::ValueId a,
                                               ir::ValueId b) const {
    ir::Graph probe = one_node(o, space_.at(o.a).axes, &space_.at(o.b).axes);
    bool in_order = probe.nodes().back().axes == space_.at(result).axes;
    return in_order ? std::pair(a, b) : std::pair(b, a);
  }

  ir::ValueId pointwise(const Operation& o, ir::ValueId a, ir::ValueId b) {
    return b == ir::kNoValue ? graph.unary(o.op, a) : graph.binary(o.op, a, b);
  }

 private:
  const Space& space_;
  std::map<std::pair<ir::ValueId, ir::DType>, ir::ValueId> casts_;
};

class Lowering {
 public:
  Lowering(const Space& space, const ir::Program& program) : space_(space) {
    out_.signature = program.signature;
    for (ir::ProgramOutput& out : out_.signature.outputs) out.value = ir::kNoValue;
    for (const ir::ProgramInput& in : program.signature.inputs)
      out_.tensors.push_back({in.name, ir::TensorKind::kInput, in.dtype, in.axes});
    for (std::size_t o = 0; o < program.signature.outputs.size(); ++o)
      out_.tensors.push_back({program.signature.outputs[o].name, ir::TensorKind::kOutput,
                              program.signature.outputs[o].dtype,
                              program.signature.output_axes[o]});
    for (ClassId c : space.classes())
      if (space.at(c).input >= 0) tensor_[c] = space.at(c).input;
    for (std::size_t o = 0; o < space.outputs().size(); ++o)
      tensor_[space.outputs()[o]] = static_cast<ir::TensorId>(program.signature.inputs.size() + o);
  }

  ir::MuGraph run(const std::vector<const KernelChoice*>& kernels) {
    prepare(kernels);
    for (const KernelChoice* kernel : kernels) {
      ir::Kernel k;
      k.name = "k" + std::to_string(out_.kernels.size());
      if (kernel->library)
        k.body = library(*kernel->library);
      else
        k.body = block(*kernel->form);
      out_.kernels.push_back(std::move(k));
    }
    return std::move(out_);
  }

 private:
  ir::TensorId declare(ClassId c, ir::TensorKind kind, const char* prefix) {
    const Expression& e = space_.at(c);
    ir::TensorId t = static_cast<ir::TensorId>(out_.tensors.size());
    std::string name;
    int count = 0;
    do {
      name = prefix + std::to_string(count++);
    } while (std::any_of(out_.tensors.begin(), out_.tensors.end(),
                         [&](const ir::Tensor& other) { return other.name == name; }));
    out_.tensors.push_back({name, kind, tensor_dtype(e), e.axes});
    tensor_[c] = t;
    return t;
  }

  ir::TensorId store_to(ClassId c) {
    auto it = tensor_.find(c);
    return it != tensor_.end() ? it->second : declare(c, ir::TensorKind::kIntermediate, "t");
  }

  const ir::Tensor& tensor(ir::TensorId t) const {
    return out_.tensors[static_cast<std::size_t>(t)];
  }

  void prepare(const std::vector<const KernelChoice*>& kernels) {
    std::set<ClassId> wanted;
    for (const KernelChoice* kernel : kernels) {
      if (kernel->library) {
        wanted.insert({kernel->library->a, kernel->library->b});
      } else {
        for (const Load& load : kernel->form->loads) wanted.insert(load.cls);
      }
    }
    std::vector<ClassId> prepared;
    for (ClassId c : wanted)
      if (space_.is_prepared(c)) prepared.push_back(c);
    if (prepared.empty()) return;

    std::vector<Way> ways = prepare_ways(space_, prepared);
    Emitter emitter(space_);
    std::map<ClassId, ir::ValueId> value;
    std::set<ClassId> leaves;
    for (const Way& way : ways)
      for (ClassId c : {way.operation.a, way.operation.b})
        if (c != kNoClass && space_.at(c).input >= 0) leaves.insert(c);
    for (ClassId c : leaves)
      value[c] = emitter.graph.input(tensor(tensor_.at(c)).name, space_.at(c).axes);
    auto at = [&](ClassId c) {
      if (c == kNoClass) return ir::kNoValue;
      if (!value.count(c)) value[c] = emitter.graph.constant(*space_.at(c).constant);
      return value.at(c);
    };
    for (const Way& way : ways) {
      const Operation& o = way.operation;
      ir::ValueId a = at(o.a);
      ir::ValueId b = at(o.b);
      value[way.result] = prepare_node(emitter, way, a, b);
    }
    for (ClassId c : prepared) {
      ir::TensorId t = declare(c, ir::TensorKind::kPrepared, "p");
      ir::ValueId v = emitter.rounded(value.at(c), ir::DType::kF32, tensor(t).dtype);
      out_.prepare.outputs.push_back({t, v});
    }
    out_.prepare.graph = std::move(emitter.graph);
  }

  // Preparing happens once and off the clock: operands of its products stay in fp32.
  ir::ValueId prepare_node(Emitter& emitter, const Way& way, ir::ValueId a, ir::ValueId b) const {
    const Operation& o = way.operation;
    switch (ir::info(o.op).op_class) {
      case ir::OpClass::kReduction:
        return emitter.graph.sum(a, o.dim);
      case ir::OpClass::kProduct: {
        auto [first, second] = emitter.oriented(o, way.result, a, b);
        return emitter.graph.matmul(first, second, o.dim);
      }
      case ir::OpClass::kShape:
        return emitter.graph.broadcast(a, space_.at(way.result).axes);
      default:
        return emitter.pointwise(o, a, b);
    }
  }

  ir::LibraryMatmul library(const LibraryForm& form) {
    ir::Graph probe;
    ir::ValueId a = probe.input("a", space_.at(form.a).axes);
    ir::ValueId b = probe.input("b", space_.at(form.b).axes);
    bool in_order = probe.axes(probe.matmul(a, b, form.dim)) == space_.at(form.out).axes;
    ir::TensorId first = tensor_.at(in_order ? form.a : form.b);
    ir::TensorId second = tensor_.at(in_order ? form.b : form.a);
    return {first, second, store_to(form.out), form.dim};
  }

  static ir::Part part(const Frame& frame, ir::DimId dim, Tile tile) {
    if (frame.grid_dims() & bit(dim)) return ir::kGrid;
    if (frame.loop == dim && tile == Tile::kStep) return frame.split ? ir::kGridLoop : ir::kLoop;
    return ir::kFull;
  }

  ir::BlockGraph block(const KernelForm& form) {
    ir::BlockGraph block;
    for (ir::DimId d : form.frame.grid) block.grid.push_back({d, false});
    if (form.frame.loop >= 0) {
      ir::DimId loop = static_cast<ir::DimId>(form.frame.loop);
      block.loop = {loop};
      if (form.frame.split) block.grid.push_back({loop, true});
    }
    Emitter emitter(space_);
    std::vector<ir::ValueId> value;
    std::vector<ir::DType> dtype;  // of loads; fp32 for what is computed
    for (const Load& load : form.loads) {
      value.push_back(ir::kNoValue);
      dtype.push_back(ir::DType::kF32);
      if (space_.at(load.cls).constant) continue;
      ir::BlockInput in;
      in.tensor = tensor_.at(load.cls);
      for (const ir::Axis& axis : tensor(in.tensor).axes)
        in.maps.push_back({part(form.frame, axis.dim, load.tile), 0});
      value.back() =
          emitter.graph.input(tensor(in.tensor).name, ir::tiled_axes(tensor(in.tensor), in));
      dtype.back() = tensor(in.tensor).dtype;
      block.inputs.push_back(std::move(in));
    }
    for (std::size_t i = 0; i < form.loads.size(); ++i)
      if (const auto& c = space_.at(form.loads[i].cls).constant)
        value[i] = emitter.graph.constant(*c);
    for (const BlockOp& op : form.ops) {
      auto at = [&](int v) { return v < 0 ? ir::kNoValue : value[static_cast<std::size_t>(v)]; };
      ir::ValueId a = at(op.a);
      ir::ValueId b = at(op.b);
      if (op.operation.op == ir::OpKind::kMatmul) {
        a = emitter.rounded(a, dtype[static_cast<std::size_t>(op.a)], ir::DType::kElem);
        b = emitter.rounded(b, dtype[static_cast<std::size_t>(op.b)], ir::DType::kElem);
      }
      value.push_back(block_node(block, emitter, form.frame, op, a, b));
      dtype.push_back(ir::DType::kF32);
    }
    for (int v : form.stores) {
      ir::TensorId t = store_to(form.cls(v));
      block.outputs.push_back({t, emitter.rounded(value[static_cast<std::size_t>(v)],
                                                  ir::DType::kF32, tensor(t).dtype)});
    }
    block.graph = std::move(emitter.graph);
    return block;
  }

  ir::ValueId block_node(ir::BlockGraph& block, Emitter& emitter, const Frame& frame,
                         const BlockOp& op, ir::ValueId a, ir::ValueId b) const {
    const Operation& o = op.operation;
    if (o.online) return online_node(block, emitter, op, a, b);
    if (o.op == ir::OpKind::kMatmul) std::tie(a, b) = emitter.oriented(o, op.cls, a, b);
    if (op.accumulate) {
      ir::Accumulator acc = b == ir::kNoValue
                                ? ir::make_sum_accumulator(emitter.graph, a, o.dim)
                                : ir::make_matmul_accumulator(emitter.graph, a, b, o.dim);
      ir::Axes axes = ir::result_axes(acc, 0);
      block.accumulators.push_back(std::move(acc));
      return emitter.graph.accumulated(static_cast<int>(block.accumulators.size()) - 1, 0,
                                       std::move(axes));
    }
    if (o.op == ir::OpKind::kSum) return emitter.graph.sum(a, o.dim);
    if (o.op == ir::OpKind::kMatmul) return emitter.graph.matmul(a, b, o.dim);
    if (o.op == ir::OpKind::kBroadcast) {
      ir::Axes axes = space_.at(op.cls).axes;
      for (ir::Axis& axis : axes) axis.part = part(frame, axis.dim, op.tile);
      return emitter.graph.broadcast(a, std::move(axes));
    }
    return emitter.pointwise(o, a, b);
  }

  // The mean and the squared deviations of one x are results of one accumulator.
  ir::ValueId online_node(ir::BlockGraph& block, Emitter& emitter, const BlockOp& op, ir::ValueId a,
                          ir::ValueId b) const {
    const Online& online = space_.online(op.operation, op.cls);
    int result = online.kind == Online::kSquares ? 1 : 0;
    ir::Accumulator acc;
    if (online.kind == Online::kProduct) {
      bool first = op.operation.a == online.x;
      acc = ir::make_centered_matmul_accumulator(emitter.graph, first ? a : b, first ? b : a,
                                                 op.operation.dim);
    } else {
      acc = ir::make_deviation_accumulator(emitter.graph, a, op.operation.dim);
    }
    std::size_t index = 0;
    while (index < block.accumulators.size() && !(block.accumulators[index] == acc)) ++index;
    ir::Axes axes = ir::result_axes(acc, result);
    if (index == block.accumulators.size()) block.accumulators.push_back(std::move(acc));
    return emitter.graph.accumulated(static_cast<int>(index), result, std::move(axes));
  }

  const Space& space_;
  ir::MuGraph out_;
  std::map<ClassId, ir::TensorId> tensor_;
};

}  // namespace

std::vector<Way> prepare_ways(const Space& space, const std::vector<ClassId>& prepared) {
  // Steps to each class that only parameters make; a shared step is counted for each use,
  // which does not matter for choosing among a handful.
  std::map<ClassId, int> steps;
  std::map<ClassId, Way> best;
  for (ClassId c : space.classes())
    if (space.at(c).parameter_only && (space.at(c).input >= 0 || space.at(c).constant))
      steps[c] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Way& way : space.ways()) {
      const Operation& o = way.operation;
      if (o.online) continue;
      if (!space.at(way.result).parameter_only || !steps.count(o.a)) continue;
      if (o.b != kNoClass && !steps.count(o.b)) continue;
      int n = 1 + steps[o.a] + (o.b == kNoClass ? 0 : steps[o.b]);
      auto it = steps.find(way.result);
      if (it != steps.end() && it->second <= n) continue;
      steps[way.result] = n;
      best[way.result] = way;
      changed = true;
    }
  }
  std::vector<Way> out;
  std::set<ClassId> done;
  std::function<void(ClassId)> visit = [&](ClassId c) {
    if (c == kNoClass || !best.count(c) || !done.insert(c).second) return;
    const Way& way = best.at(c);
    visit(way.operation.a);
    visit(way.operation.b);
    out.push_back(way);
  };
  for (ClassId c : prepared) {
    TENON_CHECK(steps.count(c), "a prepared tensor is made of parameters");
    visit(c);
  }
  return out;
}

ir::MuGraph lower(const Space& space, const ir::Program& program,
                  const std::vector<const KernelChoice*>& kernels) {
  return Lowering(space, program).run(kernels);
}

}  // namespace tenon::search
