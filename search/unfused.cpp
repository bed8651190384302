// The forms against which fused ones are measured.
#include <algorithm>
#include <tuple>

#include "search/search.h"

namespace tenon::search {

namespace {

bool has_product(const ir::BlockGraph& block) {
  for (const ir::Accumulator& acc : block.accumulators)
    if (acc.kind == "matmul") return true;
  return std::any_of(block.graph.nodes().begin(), block.graph.nodes().end(),
                     [](const ir::Node& n) { return n.op == ir::OpKind::kMatmul; });
}

bool pointwise(ir::OpKind op) {
  return op != ir::OpKind::kAccumulated && ir::info(op).op_class == ir::OpClass::kPointwise;
}

// One product of loaded tensors, rounding, and what parameters add to or scale of the result.
bool bare_product(const ir::MuGraph& graph, const ir::BlockGraph& block) {
  auto parameter = [&](ir::ValueId v) {
    if (!block.graph.is_input(v)) return false;
    auto t = static_cast<std::size_t>(block.inputs[static_cast<std::size_t>(v)].tensor);
    return t < graph.signature.inputs.size() &&
           graph.signature.inputs[t].role == ir::Role::kParameter;
  };
  int products = 0;
  for (const ir::Accumulator& acc : block.accumulators) {
    if (acc.kind != "matmul") return false;
    for (ir::ValueId operand : acc.operands)
      if (!block.graph.is_input(operand)) return false;
    ++products;
  }
  for (const ir::Node& node : block.graph.nodes()) {
    if (node.op == ir::OpKind::kMatmul) ++products;
    bool passes = node.op == ir::OpKind::kMatmul || node.op == ir::OpKind::kCast ||
                  node.op == ir::OpKind::kAccumulated;
    bool bias =
        pointwise(node.op) && node.b != ir::kNoValue && (parameter(node.a) || parameter(node.b));
    if (!passes && !bias) return false;
  }
  return products == 1;
}

struct Facts {
  bool unfused = true;
  int libraries = 0;
  int splits = 0;
  int squares = 0;    // Σ(x − μ)² has one, Σx² − kμ², which loses digits, has two
  int operators = 0;  // of all block graphs
};

Facts facts_of(const ir::MuGraph& graph) {
  Facts facts;
  facts.unfused = graph.prepare.outputs.empty();
  for (const ir::Kernel& kernel : graph.kernels) {
    const ir::BlockGraph* block = kernel.block();
    if (!block) {
      ++facts.libraries;
      continue;
    }
    if (has_product(*block) && !bare_product(graph, *block)) facts.unfused = false;
    for (const ir::GridDim& d : block->grid) facts.splits += d.split;
    for (const ir::Node& node : block->graph.nodes()) {
      facts.squares += node.op == ir::OpKind::kSquare;
      ++facts.operators;
    }
  }
  return facts;
}

template <class Rank>
int find(const std::vector<ir::MuGraph>& graphs, Rank rank) {
  int best = -1;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    if (!facts_of(graphs[i]).unfused) continue;
    if (best < 0 || rank(graphs[i]) < rank(graphs[static_cast<std::size_t>(best)]))
      best = static_cast<int>(i);
  }
  return best;
}

}  // namespace

int find_unfused(const std::vector<ir::MuGraph>& graphs) {
  return find(graphs, [](const ir::MuGraph& g) {
    Facts f = facts_of(g);
    return std::tuple(f.libraries, f.splits, g.kernels.size(), f.squares, f.operators);
  });
}

int find_unfused_library(const std::vector<ir::MuGraph>& graphs) {
  int best = find(graphs, [](const ir::MuGraph& g) {
    Facts f = facts_of(g);
    return std::tuple(-f.libraries, f.splits, g.kernels.size(), f.squares, f.operators);
  });
  if (best >= 0 && facts_of(graphs[static_cast<std::size_t>(best)]).libraries == 0) return -1;
  return best;
}

}  // namespace tenon::search
