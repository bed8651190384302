// What is read out of block graphs, against facts worked out by hand.
#include "ir/kernel_facts.h"

#include <gtest/gtest.h>

#include "fixtures.h"

namespace tenon::ir {
namespace {

using codegen::testing::fixture;
using codegen::testing::rmsnorm_graph;

constexpr int kM = 0, kK = 1, kN = 2;

KernelFacts facts_of(const std::string& name, std::size_t kernel) {
  codegen::testing::Fixture f = fixture(name);
  return analyze(f.graph, *f.graph.kernels[kernel].block());
}

std::string reason_of(const std::string& kernels) {
  MuGraph graph = rmsnorm_graph(kernels);
  validate(graph);
  try {
    analyze(graph, *graph.kernels[0].block());
  } catch (const NotLowerable& e) {
    return e.what();
  }
  return "";
}

TEST(KernelFacts, LoopAndFullAxisAreTheSameDataflow) {
  KernelFacts looped = facts_of("rmsnorm_one_pass", 0);
  KernelFacts whole = facts_of("no_loop", 0);
  for (const KernelFacts* f : {&looped, &whole}) {
    EXPECT_EQ(f->kernel_class, KernelClass::kContraction);
    EXPECT_EQ(f->row, kM);
    EXPECT_EQ(f->column, kN);
    EXPECT_EQ(f->reduced, kK);
    ASSERT_EQ(f->products.size(), 1u);
    ASSERT_EQ(f->passes.size(), 1u);
    EXPECT_TRUE(f->passes[0].with_product);
    EXPECT_EQ(f->passes[0].count, 1);
    EXPECT_TRUE(f->a_operands[0].identity);
    EXPECT_TRUE(f->b_operands[0].identity);
    EXPECT_FALSE(f->flow.split);
  }
}

TEST(KernelFacts, AnOperandThatUsesASumComesAfterIt) {
  KernelFacts f = facts_of("rmsnorm_prologue", 0);
  ASSERT_EQ(f.passes.size(), 1u);
  EXPECT_FALSE(f.passes[0].with_product);
  EXPECT_EQ(f.passes[0].phase, 1);
  EXPECT_FALSE(f.a_operands[0].identity);
  EXPECT_EQ(f.flow.inputs[static_cast<std::size_t>(f.a_operands[0].source)].name, "x");
}

TEST(KernelFacts, VarianceAboutTheMeanIsASecondPhase) {
  KernelFacts rows = facts_of("layernorm_norm_kernel", 0);
  EXPECT_EQ(rows.kernel_class, KernelClass::kRows);
  EXPECT_EQ(rows.row, kM);
  ASSERT_EQ(rows.passes.size(), 2u);
  EXPECT_EQ(rows.passes[0].phase, 1);
  EXPECT_EQ(rows.passes[1].phase, 2);
  KernelFacts fused = facts_of("layernorm_two_phases", 0);
  ASSERT_EQ(fused.passes.size(), 2u);
  EXPECT_EQ(fused.passes[1].phase, 2);
  EXPECT_FALSE(fused.passes[1].with_product);
}

TEST(KernelFacts, SumsOfOnePhaseShareAPass) {
  KernelFacts f = facts_of("layernorm_folded", 0);
  ASSERT_EQ(f.passes.size(), 1u);
  EXPECT_EQ(f.passes[0].count, 2);
  EXPECT_TRUE(f.passes[0].with_product);
}

TEST(KernelFacts, ProductsShareAnOperand) {
  KernelFacts f = facts_of("gated", 0);
  ASSERT_EQ(f.products.size(), 2u);
  EXPECT_EQ(f.a_operands.size(), 1u);
  EXPECT_EQ(f.b_operands.size(), 2u);
  EXPECT_NE(f.products[0].b, f.products[1].b);
}

// It goes with the product where the operand streams the same source; the other tensor is read
// beside it.
TEST(KernelFacts, ASumOfTwoTensorsIsGatheredFromTheOperandOfItsSource) {
  KernelFacts f = facts_of("transposed", 0);
  ASSERT_EQ(f.passes.size(), 1u);
  EXPECT_TRUE(f.passes[0].with_product);
  EXPECT_EQ(f.passes[0].source, f.a_operands[0].source);
}

// Products of different columns: each is a part with its own columns, inputs and outputs.
TEST(KernelFacts, ProductsOfDifferentColumnsAreParts) {
  MuGraph graph = parse_mugraph(R"(mugraph two_columns
dims m, k, n, p
input x: T[m, k] activation
input w: T[k, n] parameter
input v: T[k, p] parameter
output y: T[m, n]
output z: T[m, p]
kernel main {
  grid m, n, p
  loop k
  load x [m: grid, k: loop]
  load w [k: loop, n: grid]
  load v [k: loop, p: grid]
  %0 = square(x)
  %1 = accumulate sum(%0, k)
  %2 = accumulate matmul(x, w, k)
  %3 = accumulate matmul(x, v, k)
  %4 = mul(%2, %1)
  %5 = mul(%3, %1)
  %6 = cast(%4, T)
  %7 = cast(%5, T)
  store y = %6
  store z = %7
}
)");
  validate(graph);
  KernelFacts f = analyze(graph, *graph.kernels[0].block());
  ASSERT_EQ(f.parts.size(), 2u);
  EXPECT_EQ(f.products.size(), 2u);
  EXPECT_EQ(f.flow.outputs.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const KernelFacts& part = f.parts[i];
    EXPECT_EQ(part.row, 0);
    EXPECT_EQ(part.reduced, 1);
    EXPECT_EQ(part.column, static_cast<int>(2 + i));
    ASSERT_EQ(part.flow.outputs.size(), 1u);
    EXPECT_EQ(part.flow.outputs[0].tensor.name, i == 0 ? "y" : "z");
    ASSERT_EQ(part.flow.inputs.size(), 2u);
    EXPECT_EQ(part.flow.inputs[1].name, i == 0 ? "w" : "v");
    EXPECT_EQ(part.sums.size(), 1u);
    EXPECT_TRUE(part.passes[0].with_product);
  }
}

// An elementwise output along the reduced dim is written beside the product; what it needs of the
// row must be known before the loop.
TEST(KernelFacts, AnOutputAlongTheReducedDimIsASideOutput) {
  MuGraph graph = parse_mugraph(R"(mugraph add_linear
dims m, k, n
input x: T[m, k] activation
input e: T[m, k] activation
input w: T[k, n] parameter
output s: T[m, k]
output y: T[m, n]
kernel main {
  grid m, n
  loop k
  load x [m: grid, k: loop]
  load e [m: grid, k: loop]
  load w [k: loop, n: grid]
  %0 = add(x, e)
  %1 = cast(%0, T)
  %2 = accumulate matmul(%1, w, k)
  %3 = cast(%2, T)
  store s = %1
  store y = %3
}
)");
  validate(graph);
  KernelFacts f = analyze(graph, *graph.kernels[0].block());
  EXPECT_EQ(f.row, 0);
  EXPECT_EQ(f.column, 2);
  EXPECT_TRUE(f.is_side_output(0));
  EXPECT_FALSE(f.is_side_output(1));
}

TEST(KernelFacts, ARowsKernelMayWriteAnotherInnerDim) {
  KernelFacts f = facts_of("product_first", 1);
  EXPECT_EQ(f.kernel_class, KernelClass::kRows);
  EXPECT_EQ(f.row, kM);
  ASSERT_EQ(f.passes.size(), 1u);
  EXPECT_EQ(f.passes[0].dim, kK);
}

TEST(KernelFacts, SplitIsNoted) { EXPECT_TRUE(facts_of("rmsnorm_split_k", 0).flow.split); }

TEST(KernelFacts, AProductWithoutColumnsIsASum) {
  // Σ_k x·g has one axis only.
  MuGraph graph = rmsnorm_graph(
      "kernel dot {\n  grid m\n  load x [m: grid, k: full]\n  load g [k: full]\n"
      "  %0 = matmul(x, g, k)\n  store d: fp32[m] = %0\n}\n"
      "kernel main {\n  grid m, n\n  loop k\n  load x [m: grid, k: loop]\n"
      "  load w [k: loop, n: grid]\n  load d [m: grid]\n"
      "  %0 = accumulate matmul(x, w, k)\n  %1 = mul(%0, d)\n  %2 = cast(%1, T)\n"
      "  store y = %2\n}\n");
  validate(graph);
  KernelFacts f = analyze(graph, *graph.kernels[0].block());
  EXPECT_EQ(f.kernel_class, KernelClass::kRows);
  ASSERT_EQ(f.sums.size(), 1u);
  EXPECT_EQ(f.flow.graph.node(f.sums[0].operand).op, OpKind::kMul);
}

TEST(KernelFacts, ReasonsForWhatHasNoLowering) {
  EXPECT_EQ(reason_of("kernel main {\n  grid m, n\n  load x [m: grid, k: full]\n"
                      "  load w [k: full, n: grid]\n  %0 = matmul(x, w, k)\n  %1 = sum(w, k)\n"
                      "  %2 = broadcast(%1, [m: grid, n: grid])\n"
                      "  %3 = mul(%0, %2)\n  %4 = cast(%3, T)\n  store y = %4\n}\n"),
            "a sum along the columns of a kernel with a product");
  EXPECT_EQ(reason_of("kernel main {\n  grid m\n  load x [m: grid, k: full]\n"
                      "  load w [k: full, n: full]\n  %0 = matmul(x, w, k)\n  %1 = sum(%0, n)\n"
                      "  %2 = mul(%0, %1)\n  %3 = cast(%2, T)\n  store y = %3\n}\n"),
            "a sum over a product's result in one kernel");
}

TEST(KernelFacts, CustomAccumulatorsAreRefused) {
  codegen::testing::Fixture f = fixture("rmsnorm_one_pass");
  BlockGraph block = *f.graph.kernels[0].block();
  block.accumulators[0].kind = "custom";
  EXPECT_THROW(
      {
        try {
          flatten(f.graph, block);
        } catch (const NotLowerable& e) {
          EXPECT_STREQ(e.what(), "an accumulator that is neither a sum nor a product");
          throw;
        }
      },
      NotLowerable);
}

TEST(KernelFacts, CastsThatChangeNothingAreSeenThrough) {
  codegen::testing::Fixture f = fixture("rmsnorm_one_pass");
  Dataflow flow;
  flow.inputs = {f.graph.tensors[0]};
  ValueId x = flow.graph.input("x", f.graph.tensors[0].axes);
  ValueId wide = flow.graph.cast(x, DType::kF32);
  ValueId back = flow.graph.cast(wide, DType::kElem);
  ValueId square = flow.graph.unary(OpKind::kSquare, wide);
  ValueId rounded = flow.graph.cast(square, DType::kElem);
  EXPECT_EQ(strip(flow, back, DType::kBF16), x);
  EXPECT_EQ(strip(flow, rounded, DType::kBF16), rounded);
  EXPECT_EQ(strip(flow, rounded, DType::kF32), square);
}

}  // namespace
}  // namespace tenon::ir
