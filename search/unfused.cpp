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

// Nothing but one product and rounding.
bool bare_product(const ir::BlockGraph& block) {
  int products = 0;
  for (const ir::Accumulator& acc : block.accumulators) {
    if (acc.kind != "matmul") return false;
    ++products;
  }
  for (const ir::Node& node : block.graph.nodes()) {
    if (node.op == ir::OpKind::kMatmul) ++products;
    if (node.op != ir::OpKind::kMatmul && node.op != ir::OpKind::kCast &&
        node.op != ir::OpKind::kAccumulated)
      return false;
  }
  return products == 1;
}

struct Facts {
  bool unfused = true;
  int libraries = 0;
  int splits = 0;
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
    if (has_product(*block) && !bare_product(*block)) facts.unfused = false;
    for (const ir::GridDim& d : block->grid) facts.splits += d.split;
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
    return std::tuple(f.libraries, f.splits, g.kernels.size());
  });
}

int find_unfused_library(const std::vector<ir::MuGraph>& graphs) {
  int best = find(graphs, [](const ir::MuGraph& g) {
    Facts f = facts_of(g);
    return std::tuple(-f.libraries, f.splits, g.kernels.size());
  });
  if (best >= 0 && facts_of(graphs[static_cast<std::size_t>(best)]).libraries == 0) return -1;
  return best;
}

}  // namespace tenon::search
