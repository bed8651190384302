#include "codegen/prepare.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <set>

#include "codegen/codegen.h"

namespace tenon::codegen {

namespace {

using ir::ValueId;

class PrepareLowering {
 public:
  PrepareLowering(const ir::MuGraph& graph, const ir::Workload& workload, const ir::Target& target)
      : mugraph_(graph), graph_(graph.prepare.graph), workload_(workload), target_(target) {}

  std::vector<PrepareStep> run() {
    check_constants();
    for (const ir::BlockOutput& out : mugraph_.prepare.outputs) materialize(out.value);
    for (const ir::BlockOutput& out : mugraph_.prepare.outputs)
      add_step(mugraph_.tensors[static_cast<std::size_t>(out.tensor)], out.value);
    return std::move(steps_);
  }

 private:
  void check_constants() const {
    int dynamic = ir::dynamic_dim(workload_);
    for (const ir::Node& node : graph_.nodes())
      if (node.op == ir::OpKind::kConst && dynamic >= 0 &&
          node.constant.dims.count(static_cast<ir::DimId>(dynamic)) > 0)
        throw Rejected("the prepare graph uses the extent of m, which varies between launches");
  }

  bool reduction(ValueId v) const {
    return !graph_.is_input(v) &&
           (graph_.node(v).op == ir::OpKind::kSum || graph_.node(v).op == ir::OpKind::kMatmul);
  }

  // Gives every reduction that `v` depends on a tensor, operands first.
  void materialize(ValueId v) {
    if (graph_.is_input(v) || materialized_.count(v)) return;
    for (ValueId operand : {graph_.node(v).a, graph_.node(v).b})
      if (operand != ir::kNoValue) materialize(operand);
    if (!reduction(v)) return;
    ir::Tensor tensor;
    tensor.name = fmt::format("prepare.{}", materialized_.size());
    tensor.kind = ir::TensorKind::kPrepared;
    tensor.dtype = ir::DType::kF32;
    tensor.axes = graph_.axes(v);
    add_step(tensor, v);
    materialized_.emplace(v, tensor);
  }

  // The dataflow from parameters and materialized values to `v`.
  ir::Dataflow flow_to(const ir::Tensor& tensor, ValueId v) const {
    std::set<ValueId> leaves;
    std::set<ValueId> inner;
    std::function<void(ValueId)> visit = [&](ValueId u) {
      if (graph_.is_input(u) || materialized_.count(u)) {
        leaves.insert(u);
        return;
      }
      if (!inner.insert(u).second) return;
      for (ValueId operand : {graph_.node(u).a, graph_.node(u).b})
        if (operand != ir::kNoValue) visit(operand);
    };
    visit(v);
    ir::Dataflow flow;
    std::map<ValueId, ValueId> map;
    for (ValueId u : leaves) {
      const ir::Tensor& leaf = graph_.is_input(u) ? parameter(u) : materialized_.at(u);
      map[u] = flow.graph.input(leaf.name, leaf.axes);
      flow.inputs.push_back(leaf);
    }
    for (ValueId u : inner) {
      ir::Node node = graph_.node(u);
      if (node.a != ir::kNoValue) node.a = map.at(node.a);
      if (node.b != ir::kNoValue) node.b = map.at(node.b);
      map[u] = flow.graph.append(node);
    }
    flow.outputs.push_back({tensor, map.at(v)});
    return flow;
  }

  const ir::Tensor& parameter(ValueId v) const {
    const std::string& name = graph_.inputs()[static_cast<std::size_t>(v)].name;
    for (const ir::Tensor& tensor : mugraph_.tensors)
      if (tensor.name == name) return tensor;
    TENON_CHECK(false, "a prepare graph reads a tensor that does not exist: " + name);
  }

  void add_step(const ir::Tensor& tensor, ValueId v) {
    ir::KernelView view;
    view.name = "prepare of " + tensor.name;
    try {
      view.facts = ir::analyze(flow_to(tensor, v));
      ir::KernelSchedule schedule = choose(view);
      if (auto reason = ir::illegal(view, schedule, workload_, target_)) throw Rejected(*reason);
      steps_.push_back({std::move(*view.facts), std::move(schedule)});
    } catch (const ir::NotLowerable& e) {
      throw Rejected(fmt::format("{}: {}", view.name, e.what()));
    }
  }

  // Run once, so simple: whole warps along contiguous rows, a thread a row otherwise, and
  // products in float.
  ir::KernelSchedule choose(const ir::KernelView& view) const {
    const ir::KernelFacts& facts = *view.facts;
    if (facts.kernel_class == ir::KernelClass::kContraction)
      return {"contraction",
              {{"tile_m", 64},
               {"tile_n", 64},
               {"tile_k", 16},
               {"warps_m", 2},
               {"warps_n", 2},
               {"stages", 2},
               {"fma", 1}}};
    bool along_rows = false;
    for (const ir::SumPass& pass : facts.passes)
      along_rows =
          along_rows || (pass.source >= 0 &&
                         ir::stride_of(facts.flow.inputs[static_cast<std::size_t>(pass.source)],
                                       pass.dim, workload_.extents) == 1);
    if (facts.passes.empty()) along_rows = facts.flow.outputs[0].tensor.axes.size() == 2;
    return {"rows", {{"threads", 128}, {"group", along_rows ? 32 : 1}}};
  }

  const ir::MuGraph& mugraph_;
  const ir::Graph& graph_;
  const ir::Workload& workload_;
  const ir::Target& target_;
  std::map<ValueId, ir::Tensor> materialized_;
  std::vector<PrepareStep> steps_;
};

}  // namespace

std::vector<PrepareStep> prepare_steps(const ir::MuGraph& graph, const ir::Workload& workload,
                                       const ir::Target& target) {
  return PrepareLowering(graph, workload, target).run();
}

}  // namespace tenon::codegen
