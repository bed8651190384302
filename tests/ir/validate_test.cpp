// What a malformed µGraph is refused for.
#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/mugraph.h"
#include "rmsnorm.h"

namespace tenon::ir {
namespace {

using namespace testing;

BlockGraph& block_of(MuGraph& u) { return std::get<BlockGraph>(u.kernels[0].body); }

void expect_refused(const MuGraph& u, const std::string& part_of_message) {
  try {
    validate(u);
    FAIL() << "accepted; expected: " << part_of_message;
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find(part_of_message), std::string::npos) << e.what();
  }
}

TEST(Validate, AcceptsTheOnePassForms) {
  EXPECT_NO_THROW(validate(one_pass(false)));
  EXPECT_NO_THROW(validate(one_pass(true)));
}

TEST(Validate, OutputMayNotDependOnHowTheLoopIsCut) {
  MuGraph u = one_pass(false);
  BlockGraph& b = block_of(u);
  ValueId partial = b.graph.matmul(0, 1, kK);  // the product of one step only
  b.outputs[0].value = partial;
  expect_refused(u, "depends on how k is cut");
}

TEST(Validate, OutputMayNotDependOnOneSplitShare) {
  MuGraph u = one_pass(true);
  BlockGraph& b = block_of(u);
  b.outputs[0].value = b.graph.matmul(0, 1, kK);
  expect_refused(u, "depends on how k is cut");
}

TEST(Validate, MapsMustFitGridAndLoop) {
  MuGraph u = one_pass(false);
  block_of(u).loop.clear();
  expect_refused(u, "k is not in the loop");
  u = one_pass(false);
  block_of(u).grid.erase(block_of(u).grid.begin());
  expect_refused(u, "m is not in the grid");
}

TEST(Validate, TensorsAreWrittenOnceBeforeTheyAreRead) {
  MuGraph u = one_pass(false);
  u.prepare.outputs.clear();
  expect_refused(u, "before it is written");
  u = one_pass(false);
  u.kernels.push_back(u.kernels[0]);
  expect_refused(u, "written twice");
  u = one_pass(false);
  u.kernels.clear();
  expect_refused(u, "no kernel");
}

TEST(Validate, AccumulatingALoopInvariantValueIsRefused) {
  MuGraph u = one_pass(false);
  BlockGraph& b = block_of(u);
  // The whole row in every step: the sum would be counted once a step.
  b.inputs[0].maps[1].part = kFull;
  b.graph = Graph();
  for (const BlockInput& in : b.inputs)
    b.graph.input("t", tiled_axes(u.tensors[static_cast<std::size_t>(in.tensor)], in));
  b.accumulators.clear();
  b.accumulators.push_back(make_sum_accumulator(b.graph, b.graph.unary(OpKind::kSquare, 0), kK));
  ValueId s = b.graph.accumulated(0, 0, result_axes(b.accumulators[0], 0));
  b.outputs[0].value = b.graph.broadcast(s, {{kM, kGrid}, {kN, kGrid}});
  expect_refused(u, "does not vary with k");
}

TEST(Graph, FactoriesRefuseWhatIsMalformed) {
  Graph g;
  ValueId x = g.input("x", full({kM, kK}));
  ValueId v = g.input("v", full({kN}));
  ValueId tile = g.input("t", {{kM, kGrid}});
  EXPECT_THROW(g.binary(OpKind::kMul, x, v), UserError);     // neither contains the other
  EXPECT_THROW(g.binary(OpKind::kMul, x, tile), UserError);  // m whole against m tiled
  EXPECT_THROW(g.sum(x, kN), UserError);
  EXPECT_THROW(g.matmul(x, v, kK), UserError);
  EXPECT_THROW(g.broadcast(x, full({kM, kN})), UserError);
  EXPECT_THROW(g.unary(OpKind::kAdd, x), UserError);
  EXPECT_EQ(g.axes(g.matmul(x, g.broadcast(v, full({kK, kN})), kK)), full({kM, kN}));
}

TEST(Stages, FollowFromLoads) {
  MuGraph u = one_pass(false);
  std::vector<Stage> stage = stages(block_of(u));
  EXPECT_EQ(stage[0], Stage::kBody);
  EXPECT_EQ(stage.back(), Stage::kEpilogue);
}

TEST(ThreadGraphs, EpilogueChainOnMatrixElementsIsOneGraph) {
  MuGraph u = one_pass(false);
  auto groups = thread_graphs(block_of(u));
  // square; the chain on row values (mul, add, rsqrt); the chain on elements (mul, cast).
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].size(), 1u);
  EXPECT_EQ(groups[1].size(), 3u);
  EXPECT_EQ(groups[2].size(), 2u);
}

}  // namespace
}  // namespace tenon::ir
