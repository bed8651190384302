#include "ir/roots.h"

namespace tenon::ir {

std::vector<bool> inputs_under_roots(const Program& program) {
  const Graph& graph = program.graph;
  const std::size_t inputs = graph.inputs().size();
  std::vector<bool> under(static_cast<std::size_t>(graph.value_count()), false);
  auto mark = [&](ValueId v) {
    if (v != kNoValue) under[static_cast<std::size_t>(v)] = true;
  };
  // Users come after their operands: one walk backwards sees every use of a value first.
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    const bool root = node.op == OpKind::kSqrt || node.op == OpKind::kRsqrt;
    const bool passes = node.op == OpKind::kAdd || node.op == OpKind::kSum ||
                        node.op == OpKind::kBroadcast || node.op == OpKind::kCast ||
                        ((node.op == OpKind::kMul || node.op == OpKind::kDiv) && node.a != node.b);
    if (root || (passes && under[inputs + i])) {
      mark(node.a);
      mark(node.b);
    }
  }
  under.resize(inputs);
  return under;
}

}  // namespace tenon::ir
