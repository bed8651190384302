// The forms of normalization + linear that the search must find by itself, by name.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/kernel_facts.h"
#include "tests/search/programs.h"

namespace tenon::search::test {
namespace {

const Result& found() {
  static const Result result = enumerate(rmsnorm_linear(), Options{});
  return result;
}

bool folds_gamma(const ir::MuGraph& g) {
  return g.prepare.outputs.size() == 1 && count_nodes(g.prepare.graph, ir::OpKind::kMul) == 1 &&
         g.prepare.graph.inputs().size() == 2;
}

// One kernel that only computes statistics: a sum accumulated over k, stored as fp32 rows.
bool is_statistics(const ir::MuGraph& g, const ir::Kernel& kernel) {
  const ir::BlockGraph* block = kernel.block();
  if (!block || block->outputs.size() != 1) return false;
  const ir::Tensor& t = g.tensors[static_cast<std::size_t>(block->outputs[0].tensor)];
  return t.dtype == ir::DType::kF32 && t.axes.size() == 1 &&
         count_accumulators(*block, "sum") == 1 && count_accumulators(*block, "matmul") == 0;
}

// A normalization kernel: statistics of whole rows, then the rows scaled and stored as T.
bool is_norm(const ir::MuGraph& g, const ir::Kernel& kernel) {
  const ir::BlockGraph* block = kernel.block();
  if (!block || block->outputs.size() != 1) return false;
  const ir::Tensor& t = g.tensors[static_cast<std::size_t>(block->outputs[0].tensor)];
  return t.dtype == ir::DType::kElem && t.axes.size() == 2 &&
         count_nodes(block->graph, ir::OpKind::kSum) == 1 &&
         count_nodes(block->graph, ir::OpKind::kRsqrt) == 1 && block->accumulators.empty();
}

// A product that accumulates over k, whose result is multiplied by something after the loop.
bool scales_in_epilogue(const ir::Kernel& kernel) {
  const ir::BlockGraph* block = kernel.block();
  if (!block || count_accumulators(*block, "matmul") != 1) return false;
  std::vector<ir::Stage> stage = ir::stages(*block);
  for (ir::ValueId v = 0; v < block->graph.value_count(); ++v) {
    if (block->graph.is_input(v) || stage[static_cast<std::size_t>(v)] != ir::Stage::kEpilogue)
      continue;
    const ir::Node& n = block->graph.node(v);
    if (n.op == ir::OpKind::kMul && n.axes.size() == 2) return true;
  }
  return false;
}

bool bare_product(const ir::Kernel& kernel) {
  const ir::BlockGraph* block = kernel.block();
  return block && count_accumulators(*block, "matmul") == 1 && block->accumulators.size() == 1 &&
         count_nodes(block->graph, ir::OpKind::kMul) == 0 &&
         count_nodes(block->graph, ir::OpKind::kRsqrt) == 0;
}

// The one-pass online form: Σx² and the product in the same loop over k.
bool is_one_pass(const ir::Kernel& kernel) {
  const ir::BlockGraph* block = kernel.block();
  return block && block->loop.size() == 1 && count_accumulators(*block, "sum") == 1 &&
         scales_in_epilogue(kernel);
}

// Norm as prologue: rows whole, normalized, then multiplied, in one kernel without a loop.
bool is_prologue(const ir::Kernel& kernel) {
  const ir::BlockGraph* block = kernel.block();
  if (!block || !block->loop.empty() || !block->accumulators.empty()) return false;
  return count_nodes(block->graph, ir::OpKind::kSum) == 1 &&
         count_nodes(block->graph, ir::OpKind::kMatmul) == 1;
}

template <class P>
int count(P predicate) {
  return static_cast<int>(std::count_if(found().graphs.begin(), found().graphs.end(), predicate));
}

TEST(Forms, UnfusedWithOurProduct) {
  int i = find_unfused(found().graphs);
  ASSERT_GE(i, 0);
  const ir::MuGraph& g = found().graphs[static_cast<std::size_t>(i)];
  ASSERT_EQ(g.kernels.size(), 2u);
  EXPECT_TRUE(g.prepare.outputs.empty());
  EXPECT_TRUE(is_norm(g, g.kernels[0]));
  EXPECT_TRUE(bare_product(g.kernels[1]));
  EXPECT_FALSE(is_split(*g.kernels[1].block()));
}

TEST(Forms, UnfusedWithTheLibrary) {
  int i = find_unfused_library(found().graphs);
  ASSERT_GE(i, 0);
  const ir::MuGraph& g = found().graphs[static_cast<std::size_t>(i)];
  ASSERT_EQ(g.kernels.size(), 2u);
  EXPECT_TRUE(g.prepare.outputs.empty());
  EXPECT_TRUE(is_norm(g, g.kernels[0]));
  ASSERT_NE(g.kernels[1].library(), nullptr);
}

// With γ folded no kernel reads it. (A separate norm kernel multiplies by γ at no cost, so folding
// it there gains nothing and the rule "cost" drops it.)
TEST(Forms, GammaFoldedInPrepare) {
  EXPECT_GE(count([](const ir::MuGraph& g) {
              if (!folds_gamma(g)) return false;
              for (const ir::Kernel& kernel : g.kernels)
                if (kernel.block())
                  for (const ir::BlockInput& in : kernel.block()->inputs)
                    if (g.tensors[static_cast<std::size_t>(in.tensor)].name == "g") return false;
              return true;
            }),
            5);
}

TEST(Forms, ScaleDeferredToTheEpilogueAfterAStatisticsKernel) {
  for (bool folded : {false, true})
    for (bool split : {false, true})
      EXPECT_GE(count([&](const ir::MuGraph& g) {
                  return folds_gamma(g) == folded && g.kernels.size() == 2 &&
                         is_statistics(g, g.kernels[0]) && scales_in_epilogue(g.kernels[1]) &&
                         is_split(*g.kernels[1].block()) == split;
                }),
                1)
          << "folded " << folded << ", split " << split;
}

TEST(Forms, OnePassOnline) {
  for (bool folded : {false, true})
    EXPECT_GE(count([&](const ir::MuGraph& g) {
                return folds_gamma(g) == folded && g.kernels.size() == 1 &&
                       is_one_pass(g.kernels[0]) && !is_split(*g.kernels[0].block());
              }),
              1)
        << "folded " << folded;
}

TEST(Forms, NormAsPrologue) {
  for (bool folded : {false, true})
    EXPECT_GE(count([&](const ir::MuGraph& g) {
                return folds_gamma(g) == folded && g.kernels.size() == 1 &&
                       is_prologue(g.kernels[0]);
              }),
              1)
        << "folded " << folded;
}

TEST(Forms, SplitKWithMergedStatistics) {
  for (bool folded : {false, true})
    EXPECT_GE(count([&](const ir::MuGraph& g) {
                return folds_gamma(g) == folded && g.kernels.size() == 1 &&
                       is_one_pass(g.kernels[0]) && is_split(*g.kernels[0].block());
              }),
              1)
        << "folded " << folded;
}

TEST(Forms, SplitKOfTheUnfusedProduct) {
  EXPECT_GE(count([](const ir::MuGraph& g) {
              return g.kernels.size() == 2 && is_norm(g, g.kernels[0]) &&
                     bare_product(g.kernels[1]) && is_split(*g.kernels[1].block());
            }),
            1);
}

TEST(Forms, ScaleAfterALibraryProduct) {
  EXPECT_GE(count([](const ir::MuGraph& g) {
              return folds_gamma(g) && g.kernels.size() == 2 && g.kernels[0].library() &&
                     g.kernels[1].block();
            }),
            1);
}

TEST(Forms, AreCanonicalValidDistinctAndOrdered) {
  std::string last;
  for (const ir::MuGraph& g : found().graphs) {
    ir::validate(g);
    EXPECT_EQ(ir::canonical(g), g);
    std::string id = ir::identity(g);
    EXPECT_LT(last, id);
    last = id;
    EXPECT_EQ(ir::parse_mugraph(ir::print(g)), g);
  }
  EXPECT_GE(found().graphs.size(), 20u);
  EXPECT_LE(found().graphs.size(), 300u);
}

// Every custom kernel has a dataflow that the lowerings know.
TEST(Forms, AreLowerable) {
  for (const ir::MuGraph& g : found().graphs)
    for (const ir::Kernel& kernel : g.kernels)
      if (kernel.block()) {
        EXPECT_NO_THROW(ir::analyze(g, *kernel.block())) << ir::print(g);
      }
}

TEST(Forms, CountersAddUp) {
  const Counters& c = found().counters;
  EXPECT_EQ(c.distinct, found().graphs.size());
  EXPECT_GT(c.enumerated, c.distinct);
  EXPECT_EQ(c.stop_reason, "exhausted");
  EXPECT_EQ(c.pruned.size(), rules().size());
  for (const char* rule : {"order", "equivalence", "thread", "grid", "loop", "fuse", "cost"})
    EXPECT_GT(c.pruned.at(rule), 0u) << rule;
  EXPECT_EQ(c.cut_off, !c.cuts.empty());
}

// A plain product needs nothing of a normalization: our product, its split form, the library's.
TEST(Forms, PlainLinearGainsNothing) {
  Result r = enumerate(linear(), Options{});
  ASSERT_EQ(r.graphs.size(), 3u);
  int libraries = 0;
  int splits = 0;
  for (const ir::MuGraph& g : r.graphs) {
    EXPECT_TRUE(g.prepare.outputs.empty());
    ASSERT_EQ(g.kernels.size(), 1u);
    const ir::BlockGraph* block = g.kernels[0].block();
    if (!block) {
      ++libraries;
      continue;
    }
    splits += is_split(*block);
    for (const ir::Node& n : block->graph.nodes())
      EXPECT_TRUE(n.op == ir::OpKind::kAccumulated || n.op == ir::OpKind::kCast)
          << ir::info(n.op).name;
  }
  EXPECT_EQ(libraries, 1);
  EXPECT_EQ(splits, 1);
  EXPECT_FALSE(r.counters.cut_off);
  EXPECT_GE(find_unfused(r.graphs), 0);
}

// Two products of one X: one pass over X (split or not), or the unfused form, both products our own
// or both the library's.
TEST(Forms, TwoLinearsShareOnePass) {
  Result r = enumerate(two_linears(), Options{});
  int together = 0;
  for (const ir::MuGraph& g : r.graphs) {
    EXPECT_TRUE(g.prepare.outputs.empty());
    if (g.kernels.size() > 1) continue;
    const ir::BlockGraph* block = g.kernels[0].block();
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(count_accumulators(*block, "matmul"), 2);
    EXPECT_EQ(block->inputs.size(), 3u);
    ++together;
  }
  EXPECT_EQ(together, 2);
  EXPECT_EQ(r.graphs.size(), 2u + 2u);
}

// Rows normalized in one kernel, and nothing with a product.
TEST(Forms, NormAlone) {
  Result r = enumerate(rmsnorm(), Options{});
  EXPECT_EQ(r.graphs.size(), 1u);
  for (const ir::MuGraph& g : r.graphs) {
    EXPECT_TRUE(g.prepare.outputs.empty());
    for (const ir::Kernel& kernel : g.kernels) {
      ASSERT_NE(kernel.block(), nullptr);
      EXPECT_EQ(count_accumulators(*kernel.block(), "matmul"), 0);
    }
  }
}

// A sum that is an output and feeds a product is written once, also from inside the loop.
TEST(Forms, OutputUsedAndStoredByOneKernel) {
  Result r = enumerate(add_linear(), Options{});
  int fused = 0;
  for (const ir::MuGraph& g : r.graphs)
    if (g.kernels.size() == 1 && g.kernels[0].block()->outputs.size() == 2) ++fused;
  EXPECT_EQ(fused, 2);  // split or not
  EXPECT_GE(find_unfused(r.graphs), 0);
}

}  // namespace
}  // namespace tenon::search::test
