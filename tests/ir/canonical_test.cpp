// Structural identity: what must not matter, and what must.
#include <gtest/gtest.h>

#include "ir/domain.h"
#include "ir/mugraph.h"
#include "rmsnorm.h"

namespace tenon::ir {
namespace {

using namespace testing;

TEST(Canonical, IsIdempotentAndValid) {
  for (bool split : {false, true}) {
    MuGraph c = canonical(one_pass(split));
    EXPECT_NO_THROW(validate(c));
    EXPECT_EQ(canonical(c), c);
  }
}

TEST(Canonical, NamesAndCommutedOperandsDoNotMatter) {
  MuGraph a = one_pass(false);
  MuGraph b = a;
  b.kernels[0].name = "other";
  b.tensors[4].name = "folded";
  Graph p;
  ValueId w = p.input("w", full({kK, kN}));
  ValueId g = p.input("g", full({kK}));
  b.prepare.graph = p;
  b.prepare.outputs[0].value =
      b.prepare.graph.cast(b.prepare.graph.binary(OpKind::kMul, g, w), DType::kElem);
  EXPECT_EQ(identity(a), identity(b));
}

TEST(Canonical, DeadNodesDoNotMatter) {
  MuGraph a = one_pass(false);
  MuGraph b = a;
  auto& block = std::get<BlockGraph>(b.kernels[0].body);
  block.graph.unary(OpKind::kSquare, 1);
  EXPECT_EQ(identity(a), identity(b));
}

TEST(Canonical, MapsAndSplitsMatter) {
  MuGraph a = one_pass(false);
  EXPECT_NE(identity(a), identity(one_pass(true)));
  MuGraph b = a;
  std::get<BlockGraph>(b.kernels[0].body).inputs[0].maps[0].shift = 1;
  EXPECT_NE(identity(a), identity(b));
}

TEST(Canonical, KeepsTheMeaning) {
  MuGraph u = one_pass(true);
  MuGraph c = canonical(u);
  std::vector<Values<std::uint32_t>> inputs = {{full({kM, kK}), {2, 3}, {1, 5, 9, 2, 2, 7}},
                                               {full({kK}), {3}, {3, 1, 4}},
                                               {full({kK, kN}), {3, 2}, {2, 7, 1, 8, 2, 8}}};
  auto run = [&](const MuGraph& graph) -> std::vector<std::uint32_t> {
    for (std::uint32_t eps = 1; eps < 200; ++eps) {
      FieldDomain d(2147483647u, {{"eps", eps}});
      try {
        return evaluate(graph, {2, 3, 2}, {{2, 2, 2}, {1, 2, 1}}, d, inputs)[0].data;
      } catch (const Undefined&) {
      }
    }
    return {};
  };
  auto expected = run(u);
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(run(c), expected);
}

}  // namespace
}  // namespace tenon::ir
