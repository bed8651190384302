#include "runtime/host/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/error.h"

namespace tenon::runtime::host {

using ir::Axes;
using ir::Node;
using ir::OpClass;
using ir::OpKind;
using ir::ValueId;

int add_slot(Frame& frame, Axes axes, ir::DType type, bool external) {
  if (axes.size() > kMaxRank)
    throw UserError(fmt::format("a tensor has {} axes; the host engine takes at most {}",
                                axes.size(), kMaxRank));
  frame.slots.push_back(Slot{std::move(axes), type, external});
  return static_cast<int>(frame.slots.size()) - 1;
}

ProductStep compile_product(const Frame& frame, int a, int b, ir::DimId dim, int out, bool zero) {
  const Axes& xa = frame.slots[static_cast<std::size_t>(a)].axes;
  const Axes& xb = frame.slots[static_cast<std::size_t>(b)].axes;
  const Axes& xo = frame.slots[static_cast<std::size_t>(out)].axes;
  ProductStep step;
  step.a = a;
  step.b = b;
  step.out = out;
  step.zero = zero;
  step.a_k = ir::find_dim(xa, dim);
  step.b_k = ir::find_dim(xb, dim);
  TENON_CHECK(step.a_k >= 0 && step.b_k >= 0,
              "a product contracts an axis that both operands have");
  for (int i = 0; i < static_cast<int>(xo.size()); ++i) {
    ir::DimId d = xo[static_cast<std::size_t>(i)].dim;
    int in_a = ir::find_dim(xa, d);
    int in_b = ir::find_dim(xb, d);
    // Only the innermost axis of each side becomes a dimension of the matrix.
    auto make_outer = [&](int old_a, int old_b, int old_out) {
      if (old_out >= 0) step.outer.push_back({old_a, old_b, old_out});
    };
    if (in_a >= 0 && in_b >= 0) {
      make_outer(in_a, in_b, i);
    } else if (in_a >= 0) {
      make_outer(step.a_m, -1, step.out_m);
      step.a_m = in_a;
      step.out_m = i;
    } else {
      make_outer(-1, step.b_n, step.out_n);
      step.b_n = in_b;
      step.out_n = i;
    }
  }
  TENON_CHECK(step.out_n < 0 || step.out_n == static_cast<int>(xo.size()) - 1,
              "columns of a product are adjacent");
  return step;
}

namespace {

bool known(OpKind op) {
  switch (op) {
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul:
    case OpKind::kDiv:
    case OpKind::kSquare:
    case OpKind::kSqrt:
    case OpKind::kRsqrt:
      return true;
    default:
      return ir::is_function(op);
  }
}

// Assigns nodes to steps, then writes the steps.
class Compiler {
 public:
  Compiler(Frame& frame, const ir::Graph& graph, std::vector<Place>& places, ir::DType elem)
      : frame_(frame), graph_(graph), places_(places), elem_(elem) {
    places_.resize(static_cast<std::size_t>(graph.value_count()));
    home_.assign(places_.size(), -1);
    chained_.assign(places_.size(), false);
    needed_.assign(places_.size(), false);
  }

  Steps run(const std::vector<ValueId>& values, const std::vector<Export>& exports,
            const std::vector<SumInto>& sums) {
    for (ValueId v : values) assign(v);
    for (const SumInto& s : sums)
      chain_for_sum(s.value).sums.push_back({s.value, ir::kNoValue, s.slot});
    mark_needed();
    for (const Export& e : exports) assign_export(e);
    for (std::size_t i = 0; i < plans_.size(); ++i) emit(static_cast<int>(i));
    return std::move(steps_);
  }

 private:
  struct Sum {
    ValueId value = ir::kNoValue;   // what is summed
    ValueId result = ir::kNoValue;  // the kSum node, or none when it goes to `slot`
    int slot = -1;
  };
  // A step in the making: a product, or a chain over `axes`.
  struct Plan {
    ValueId product = ir::kNoValue;
    Axes axes;
    std::vector<ValueId> nodes;
    std::vector<Sum> sums;
    std::vector<Export> stores;
  };

  static std::size_t at(ValueId v) { return static_cast<std::size_t>(v); }
  Place& place(ValueId v) { return places_[at(v)]; }

  int new_plan(Axes axes) {
    if (axes.size() > kMaxRank)
      throw UserError(fmt::format("a value has {} axes; the host engine takes at most {}",
                                  axes.size(), kMaxRank));
    plans_.push_back(Plan{ir::kNoValue, std::move(axes), {}, {}, {}});
    return static_cast<int>(plans_.size()) - 1;
  }

  // The first step from which `v` can be read, `axes` being those of the reading chain.
  int ready(ValueId v, const Axes* axes) const {
    if (home_[at(v)] < 0) return 0;
    bool inside = axes != nullptr && chained_[at(v)] && graph_.axes(v) == *axes;
    return inside ? home_[at(v)] : home_[at(v)] + 1;
  }

  // A chain over `axes` at or after step `first`: the nearest when it may share values with
  // an operand there, else the latest.
  int find_chain(const Axes& axes, int first, bool nearest) {
    int found = -1;
    for (int i = first; i < static_cast<int>(plans_.size()); ++i) {
      const Plan& plan = plans_[static_cast<std::size_t>(i)];
      if (plan.product != ir::kNoValue || plan.axes != axes) continue;
      if (plan.nodes.size() + plan.sums.size() >= kMaxChainNodes) continue;
      found = i;
      if (nearest) break;
    }
    return found >= 0 ? found : new_plan(axes);
  }

  Plan& chain_for_sum(ValueId operand) {
    const Axes axes = graph_.axes(operand);
    int chain = find_chain(axes, ready(operand, &axes), true);
    last_sum_home_ = chain;
    return plans_[static_cast<std::size_t>(chain)];
  }

  void assign(ValueId v) {
    const Node& node = graph_.node(v);
    switch (node.op == OpKind::kAccumulated ? OpClass::kConstant : ir::info(node.op).op_class) {
      case OpClass::kConstant:
        if (node.op == OpKind::kAccumulated) {
          TENON_CHECK(place(v).kind != Place::kNone, "accumulated values are placed by the block");
        } else {
          frame_.constants.push_back(node.constant);
          place(v) = {Place::kConstant, static_cast<int>(frame_.constants.size()) - 1};
        }
        return;
      case OpClass::kReduction: {
        chain_for_sum(node.a).sums.push_back({node.a, v, -1});
        home_[at(v)] = last_sum_home_;
        return;
      }
      case OpClass::kProduct:
        plans_.push_back(Plan{v, {}, {}, {}, {}});
        home_[at(v)] = static_cast<int>(plans_.size()) - 1;
        return;
      case OpClass::kPointwise:
        if (!known(node.op))
          throw UserError("operator", std::string(ir::info(node.op).name),
                          "an operator of the host engine");
        break;
      case OpClass::kRounding:
      case OpClass::kShape:
        break;
    }
    int first = 0;
    bool fused = false;
    for (ValueId operand : {node.a, node.b}) {
      if (operand == ir::kNoValue) continue;
      first = std::max(first, ready(operand, &node.axes));
      fused = fused || (home_[at(operand)] >= 0 && chained_[at(operand)] &&
                        graph_.axes(operand) == node.axes);
    }
    int chain = find_chain(node.axes, first, fused);
    plans_[static_cast<std::size_t>(chain)].nodes.push_back(v);
    home_[at(v)] = chain;
    chained_[at(v)] = true;
  }

  // Chain values that are read outside of their chain.
  void mark_needed() {
    auto need = [&](ValueId v, int reader) {
      if (v != ir::kNoValue && chained_[at(v)] && home_[at(v)] != reader) needed_[at(v)] = true;
    };
    for (int i = 0; i < static_cast<int>(plans_.size()); ++i) {
      const Plan& plan = plans_[static_cast<std::size_t>(i)];
      for (ValueId v : plan.nodes) {
        need(graph_.node(v).a, i);
        need(graph_.node(v).b, i);
      }
      for (const Sum& s : plan.sums) need(s.value, i);
      if (plan.product != ir::kNoValue) {
        need(graph_.node(plan.product).a, -1);
        need(graph_.node(plan.product).b, -1);
      }
    }
  }

  void assign_export(const Export& e) {
    if (chained_[at(e.value)] && home_[at(e.value)] >= 0) {
      if (e.slot < 0)
        needed_[at(e.value)] = true;
      else
        plans_[static_cast<std::size_t>(home_[at(e.value)])].stores.push_back(e);
    } else if (e.slot >= 0) {
      plans_[static_cast<std::size_t>(new_plan(graph_.axes(e.value)))].stores.push_back(e);
    }
  }

  void emit(int index) {
    const Plan& plan = plans_[static_cast<std::size_t>(index)];
    if (plan.product != ir::kNoValue) {
      const Node& node = graph_.node(plan.product);
      int out = add_slot(frame_, node.axes);
      steps_.push_back(
          compile_product(frame_, slot_of(node.a), slot_of(node.b), node.dim, out, true));
      place(plan.product) = {Place::kSlot, out};
      return;
    }
    chain_ = Chain{};
    chain_.axes = plan.axes;
    operands_.clear();
    loads_.clear();
    for (ValueId v : plan.nodes) emit_node(v, plan);
    for (const Sum& s : plan.sums)
      if (home_[at(s.value)] != index || !chained_[at(s.value)]) emit_sum(s, operand(s.value));
    for (const Export& e : plan.stores)
      if (!chained_[at(e.value)]) emit_store(operand(e.value), e.slot);
    assign_strips();
    TENON_CHECK(chain_.views.size() <= kMaxViews && chain_.registers <= kMaxRegisters,
                "a chain is short");
    steps_.push_back(std::move(chain_));
  }

  void emit_node(ValueId v, const Plan& plan) {
    const Node& node = graph_.node(v);
    if (node.op == OpKind::kBroadcast) {
      operands_[v] = operand(node.a);
    } else {
      Instruction in;
      in.kind = node.op == OpKind::kCast ? Instruction::kRound : Instruction::kApply;
      in.op = node.op;
      in.type = ir::bind(node.dtype, elem_);
      in.a = operand(node.a);
      in.binary = node.b != ir::kNoValue;
      if (in.binary) in.b = operand(node.b);
      in.to = chain_.registers++;
      chain_.instructions.push_back(in);
      operands_[v] = {Operand::kRegister, in.to};
    }
    if (needed_[at(v)]) {
      int slot = add_slot(frame_, node.axes);
      place(v) = {Place::kSlot, slot};
      emit_store(operands_[v], slot);
    }
    for (const Export& e : plan.stores)
      if (e.value == v) emit_store(operands_[v], e.slot);
    for (const Sum& s : plan.sums)
      if (s.value == v) emit_sum(s, operands_[v]);
  }

  void emit_store(Operand from, int slot) {
    Instruction in;
    in.kind = Instruction::kStore;
    in.a = from;
    in.slot = slot;
    in.view = view(slot, true);
    chain_.instructions.push_back(in);
  }

  void emit_sum(const Sum& s, Operand from) {
    int slot = s.slot;
    if (s.result != ir::kNoValue) {
      slot = add_slot(frame_, graph_.axes(s.result));
      place(s.result) = {Place::kSlot, slot};
      chain_.zeroed.push_back(slot);
    }
    Instruction in;
    in.kind = Instruction::kSum;
    in.a = from;
    in.slot = slot;
    in.view = view(slot, true);
    chain_.instructions.push_back(in);
  }

  int slot_of(ValueId v) {
    if (place(v).kind == Place::kConstant) {
      // A product of a constant: give it memory.
      int slot = add_slot(frame_, {});
      chain_ = Chain{};
      emit_store({Operand::kConstant, place(v).index}, slot);
      chain_.strips = 1;
      steps_.push_back(std::move(chain_));
      return slot;
    }
    TENON_CHECK(place(v).kind == Place::kSlot, "the operand of a product is in memory");
    return place(v).index;
  }

  Operand operand(ValueId v) {
    if (auto it = operands_.find(v); it != operands_.end()) return it->second;
    const Place& p = place(v);
    if (p.kind == Place::kConstant) return {Operand::kConstant, p.index};
    TENON_CHECK(p.kind == Place::kSlot, "an operand is computed before it is read");
    if (auto it = loads_.find(p.index); it != loads_.end()) return {Operand::kRegister, it->second};
    Instruction in;
    in.kind = Instruction::kLoad;
    in.slot = p.index;
    in.view = view(p.index, false);
    in.to = chain_.registers++;
    chain_.instructions.push_back(in);
    loads_[p.index] = in.to;
    return {Operand::kRegister, in.to};
  }

  int view(int slot, bool written) {
    ChainView v{slot, {}, written};
    for (const ir::Axis& axis : chain_.axes)
      v.axis.push_back(ir::find_dim(frame_.slots[static_cast<std::size_t>(slot)].axes, axis.dim));
    chain_.views.push_back(std::move(v));
    return static_cast<int>(chain_.views.size()) - 1;
  }

  // Registers whose lives do not overlap share a strip buffer.
  void assign_strips() {
    std::vector<int> last(static_cast<std::size_t>(chain_.registers), -1);
    auto uses = [](const Instruction& in, auto&& each) {
      if (in.kind == Instruction::kLoad) return;
      if (in.a.kind == Operand::kRegister) each(static_cast<std::size_t>(in.a.index));
      if (in.binary && in.b.kind == Operand::kRegister) each(static_cast<std::size_t>(in.b.index));
    };
    for (std::size_t i = 0; i < chain_.instructions.size(); ++i)
      uses(chain_.instructions[i], [&](std::size_t r) { last[r] = static_cast<int>(i); });
    std::vector<int> strip(last.size(), -1);
    std::vector<int> free;
    for (std::size_t i = 0; i < chain_.instructions.size(); ++i) {
      Instruction& in = chain_.instructions[i];
      uses(in, [&](std::size_t r) {
        if (last[r] != static_cast<int>(i)) return;
        last[r] = -1;  // both operands may be the same register
        free.push_back(strip[r]);
      });
      if (in.to < 0) continue;
      if (free.empty()) free.push_back(chain_.strips++);
      in.strip = strip[static_cast<std::size_t>(in.to)] = free.back();
      free.pop_back();
    }
    ++chain_.strips;  // one to spread a scalar before it is stored
  }

  Frame& frame_;
  const ir::Graph& graph_;
  std::vector<Place>& places_;
  ir::DType elem_;
  std::vector<Plan> plans_;
  std::vector<int> home_;      // step that makes a value; -1: it exists before
  std::vector<bool> chained_;  // made inside a chain
  std::vector<bool> needed_;   // and read outside of it
  int last_sum_home_ = -1;
  Chain chain_;
  std::map<ValueId, Operand> operands_;
  std::map<int, int> loads_;
  Steps steps_;
};

}  // namespace

Steps compile(Frame& frame, const ir::Graph& graph, const std::vector<ValueId>& values,
              std::vector<Place>& places, const std::vector<Export>& exports,
              const std::vector<SumInto>& sums, ir::DType elem) {
  return Compiler(frame, graph, places, elem).run(values, exports, sums);
}

}  // namespace tenon::runtime::host
