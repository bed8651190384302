#include "ir/weights.h"

#include <algorithm>

namespace tenon::ir {

namespace {

bool has_all(const Axes& axes, const Axes& wanted) {
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](const Axis& axis) { return find_dim(axes, axis.dim) >= 0; });
}

bool is_copy(const MuGraph& graph, const Tensor& tensor) {
  const std::vector<ProgramInput>& inputs = graph.signature.inputs;
  return std::any_of(inputs.begin(), inputs.end(), [&](const ProgramInput& in) {
    return in.role == Role::kParameter && in.axes.size() >= 2 && has_all(tensor.axes, in.axes);
  });
}

}  // namespace

std::vector<TensorId> weight_copies(const MuGraph& graph) {
  std::vector<TensorId> out;
  for (std::size_t t = 0; t < graph.tensors.size(); ++t)
    if (graph.tensors[t].kind == TensorKind::kPrepared && is_copy(graph, graph.tensors[t]))
      out.push_back(static_cast<TensorId>(t));
  return out;
}

HeldWeights held_weights(const LaunchPlan& plan) {
  HeldWeights held;
  const MuGraph graph = parse_mugraph(plan.mugraph);
  for (const Buffer& buffer : plan.buffers) {
    if (!buffer.in_main) continue;
    const std::int64_t bytes = buffer.elements.evaluate(plan.extents.data()) *
                               static_cast<std::int64_t>(size_of(buffer.dtype));
    if (buffer.role == BufferRole::kParameter) held.parameter_bytes += bytes;
    if (buffer.role != BufferRole::kPrepared) continue;
    held.prepared_bytes += bytes;
    auto tensor = std::find_if(graph.tensors.begin(), graph.tensors.end(), [&](const Tensor& t) {
      return t.kind == TensorKind::kPrepared && t.name == buffer.name;
    });
    // What launches read of prepare beyond the µGraph's own tensors is an operand in another order.
    if (tensor == graph.tensors.end() || is_copy(graph, *tensor))
      held.copies.push_back(buffer.name);
  }
  return held;
}

}  // namespace tenon::ir
