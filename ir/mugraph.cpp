// Derived facts of µGraphs: tiled axes, stages, thread graphs, labels.
#include "ir/mugraph.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"

namespace tenon::ir {

Axes tiled_axes(const Tensor& tensor, const BlockInput& input) {
  TENON_CHECK(tensor.axes.size() == input.maps.size(), "one map per axis of " + tensor.name);
  Axes axes = tensor.axes;
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i].part = input.maps[i].part;
  return axes;
}

std::vector<Stage> stages(const BlockGraph& block) {
  const Graph& graph = block.graph;
  std::vector<Stage> stage(static_cast<std::size_t>(graph.value_count()), Stage::kPrologue);
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    Stage& out = stage[static_cast<std::size_t>(v)];
    if (graph.is_input(v)) {
      for (const Axis& axis : graph.axes(v))
        if (axis.part & kLoop) out = Stage::kBody;
      continue;
    }
    const Node& node = graph.node(v);
    if (node.op == OpKind::kAccumulated) out = Stage::kEpilogue;
    for (ValueId operand : {node.a, node.b})
      if (operand != kNoValue) out = std::max(out, stage[static_cast<std::size_t>(operand)]);
  }
  return stage;
}

std::vector<std::vector<ValueId>> thread_graphs(const BlockGraph& block) {
  const Graph& graph = block.graph;
  std::vector<Stage> stage = stages(block);
  std::vector<int> group(static_cast<std::size_t>(graph.value_count()), -1);
  std::vector<std::vector<ValueId>> groups;

  auto in_registers = [&](ValueId v) {
    if (graph.is_input(v)) return false;
    OpClass c = graph.node(v).op == OpKind::kAccumulated ? OpClass::kReduction
                                                         : info(graph.node(v).op).op_class;
    return c == OpClass::kPointwise || c == OpClass::kRounding;
  };
  // A value joins the group of an operand that has its axes and stage; two such operands'
  // groups become one.
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    if (!in_registers(v)) continue;
    int mine = -1;
    for (ValueId operand : {graph.node(v).a, graph.node(v).b}) {
      if (operand == kNoValue || !in_registers(operand)) continue;
      if (graph.axes(operand) != graph.axes(v)) continue;
      if (stage[static_cast<std::size_t>(operand)] != stage[static_cast<std::size_t>(v)]) continue;
      int theirs = group[static_cast<std::size_t>(operand)];
      if (mine == -1) {
        mine = theirs;
      } else if (theirs != mine) {
        for (ValueId moved : groups[static_cast<std::size_t>(theirs)]) {
          group[static_cast<std::size_t>(moved)] = mine;
          groups[static_cast<std::size_t>(mine)].push_back(moved);
        }
        groups[static_cast<std::size_t>(theirs)].clear();
      }
    }
    if (mine == -1) {
      mine = static_cast<int>(groups.size());
      groups.emplace_back();
    }
    group[static_cast<std::size_t>(v)] = mine;
    groups[static_cast<std::size_t>(mine)].push_back(v);
  }
  std::vector<std::vector<ValueId>> out;
  for (auto& members : groups) {
    if (members.empty()) continue;
    std::sort(members.begin(), members.end());
    out.push_back(std::move(members));
  }
  return out;
}

namespace {

std::string describe_kernel(const MuGraph& graph, const Kernel& kernel) {
  if (const LibraryMatmul* product = kernel.library())
    return fmt::format("library product over {}", graph.signature.dims[product->dim]);
  const BlockGraph& block = *kernel.block();
  int products = 0;
  int sums = 0;
  for (const Accumulator& acc : block.accumulators) {
    if (acc.kind == "matmul") ++products;
    if (acc.kind == "sum") ++sums;
  }
  bool normalizes_operand = false;
  std::vector<Stage> stage = stages(block);
  for (ValueId v = static_cast<ValueId>(block.graph.inputs().size()); v < block.graph.value_count();
       ++v) {
    const Node& node = block.graph.node(v);
    if (node.op == OpKind::kMatmul) ++products;
    if (node.op == OpKind::kSum) ++sums;
    if (node.op == OpKind::kMul && stage[static_cast<std::size_t>(v)] != Stage::kEpilogue)
      normalizes_operand = true;
  }
  std::string text;
  if (products == 0)
    text = block.outputs.size() == 1 &&
                   graph.tensors[static_cast<std::size_t>(block.outputs[0].tensor)].axes.size() <= 1
               ? "statistics"
               : (sums > 0 ? "norm" : "pointwise");
  else if (sums == 0)
    text = normalizes_operand ? "product of scaled operands" : "product";
  else
    text = block.loop.empty() ? "norm, then product" : "one-pass norm + product";
  for (const GridDim& dim : block.grid)
    if (dim.split) text += fmt::format(", {} split", graph.signature.dims[dim.dim]);
  return text;
}

}  // namespace

std::string describe(const MuGraph& graph) {
  std::string text;
  if (!graph.prepare.outputs.empty()) text = "parameters folded; ";
  for (std::size_t i = 0; i < graph.kernels.size(); ++i) {
    if (i) text += " | ";
    text += describe_kernel(graph, graph.kernels[i]);
  }
  return text;
}

}  // namespace tenon::ir
