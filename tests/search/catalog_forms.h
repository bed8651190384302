// What a µGraph of a norm-linear program looks like: the named forms, read off the µGraph.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/search/programs.h"

namespace tenon::search::test {

inline const ir::Tensor& tensor_of(const ir::MuGraph& g, ir::TensorId t) {
  return g.tensors[static_cast<std::size_t>(t)];
}

inline bool loads(const ir::MuGraph& g, const ir::Kernel& kernel, const std::string& name) {
  if (!kernel.block()) {
    const ir::LibraryMatmul& p = *kernel.library();
    return tensor_of(g, p.a).name == name || tensor_of(g, p.b).name == name;
  }
  return std::any_of(
      kernel.block()->inputs.begin(), kernel.block()->inputs.end(),
      [&](const ir::BlockInput& in) { return tensor_of(g, in.tensor).name == name; });
}

inline bool any_loads(const ir::MuGraph& g, const std::string& name) {
  return std::any_of(g.kernels.begin(), g.kernels.end(),
                     [&](const ir::Kernel& k) { return loads(g, k, name); });
}

inline int prepared(const ir::MuGraph& g, std::size_t axes) {
  return static_cast<int>(
      std::count_if(g.tensors.begin(), g.tensors.end(), [&](const ir::Tensor& t) {
        return t.kind == ir::TensorKind::kPrepared && t.axes.size() == axes;
      }));
}

// Products of a kernel, about a running mean or not, in a loop or over whole rows.
inline int products(const ir::BlockGraph& block) {
  int n = count_nodes(block.graph, ir::OpKind::kMatmul) + count_accumulators(block, "matmul");
  for (const ir::Accumulator& acc : block.accumulators)
    n += acc.kind == "custom" && acc.operands.size() == 2;
  return n;
}

inline int running_means(const ir::BlockGraph& block) {
  return count_accumulators(block, "custom");
}

// Does a value depend on a sum, in the loop or not, or on a tensor that another kernel wrote?
inline bool depends_on_statistics(const ir::MuGraph& g, const ir::BlockGraph& block,
                                  ir::ValueId v) {
  if (block.graph.is_input(v))
    return tensor_of(g, block.inputs[static_cast<std::size_t>(v)].tensor).kind ==
           ir::TensorKind::kIntermediate;
  const ir::Node& node = block.graph.node(v);
  if (node.op == ir::OpKind::kSum || node.op == ir::OpKind::kAccumulated) return true;
  return (node.a != ir::kNoValue && depends_on_statistics(g, block, node.a)) ||
         (node.b != ir::kNoValue && depends_on_statistics(g, block, node.b));
}

inline std::vector<ir::ValueId> product_operands(const ir::BlockGraph& block) {
  std::vector<ir::ValueId> out;
  for (const ir::Node& node : block.graph.nodes())
    if (node.op == ir::OpKind::kMatmul) out.insert(out.end(), {node.a, node.b});
  for (const ir::Accumulator& acc : block.accumulators)
    if (acc.operands.size() == 2) out.insert(out.end(), acc.operands.begin(), acc.operands.end());
  return out;
}

// No operand of a product has been normalized: the scale comes after.
inline bool defers_scale(const ir::MuGraph& g, const ir::BlockGraph& block) {
  std::vector<ir::ValueId> operands = product_operands(block);
  return !operands.empty() && std::none_of(operands.begin(), operands.end(), [&](ir::ValueId v) {
    return depends_on_statistics(g, block, v);
  });
}

// Only statistics of rows: sums, and outputs without the summed axis.
inline bool is_statistics_kernel(const ir::MuGraph& g, const ir::Kernel& kernel) {
  const ir::BlockGraph* block = kernel.block();
  if (!block || products(*block) > 0) return false;
  bool sums = count_nodes(block->graph, ir::OpKind::kSum) > 0 || !block->accumulators.empty();
  return sums && std::any_of(block->outputs.begin(), block->outputs.end(), [&](const auto& out) {
           return tensor_of(g, out.tensor).axes.size() == 1;
         });
}

// --- forms --------------------------------------------------------------------------------

// A statistics kernel, then products of unnormalized operands whose epilogue has the scale.
inline bool is_deferred(const ir::MuGraph& g) {
  return g.kernels.size() >= 2 && is_statistics_kernel(g, g.kernels[0]) &&
         std::all_of(g.kernels.begin() + 1, g.kernels.end(), [&](const ir::Kernel& k) {
           return k.block() && products(*k.block()) > 0 && defers_scale(g, *k.block());
         });
}

// Statistics and products in one loop of one kernel.
inline bool is_one_pass(const ir::MuGraph& g) {
  if (g.kernels.size() != 1 || !g.kernels[0].block()) return false;
  const ir::BlockGraph& block = *g.kernels[0].block();
  bool sums = count_accumulators(block, "sum") > 0 || running_means(block) > 0;
  return block.loop.size() == 1 && sums && products(block) > 0 && defers_scale(g, block);
}

// Rows whole, normalized, then multiplied, in one kernel.
inline bool is_norm_as_prologue(const ir::MuGraph& g) {
  if (g.kernels.size() != 1 || !g.kernels[0].block()) return false;
  const ir::BlockGraph& block = *g.kernels[0].block();
  return block.loop.empty() && products(block) > 0 && !defers_scale(g, block);
}

// Its squares are of deviations: a second pass over the rows, nothing that cancels.
inline bool squares_deviations(const ir::MuGraph& g) {
  const ir::Graph& graph = g.kernels[0].block()->graph;
  return std::all_of(graph.nodes().begin(), graph.nodes().end(), [&](const ir::Node& n) {
    return n.op != ir::OpKind::kSquare ||
           (!graph.is_input(n.a) && graph.node(n.a).op == ir::OpKind::kSub);
  });
}

inline bool is_split_one_pass(const ir::MuGraph& g) {
  return is_one_pass(g) && is_split(*g.kernels[0].block());
}

// The Σx, Σx² form and the running-mean form of LayerNorm's statistics beside the product.
inline bool is_two_sums(const ir::MuGraph& g) {
  return is_one_pass(g) && running_means(*g.kernels[0].block()) == 0 &&
         count_accumulators(*g.kernels[0].block(), "sum") == 2;
}
inline bool is_running_mean(const ir::MuGraph& g) {
  if (!is_one_pass(g)) return false;
  const ir::BlockGraph& block = *g.kernels[0].block();
  return running_means(block) == 2 && block.accumulators.size() == 2;
}

// One kernel that makes every output.
inline bool is_one_kernel(const ir::MuGraph& g) {
  return g.kernels.size() == 1 && g.kernels[0].block() != nullptr;
}

}  // namespace tenon::search::test
