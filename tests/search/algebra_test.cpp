// Expressions up to equality, and the laws that make them.
#include <gtest/gtest.h>

#include "search/rewrite.h"
#include "search/space.h"
#include "tests/search/programs.h"

namespace tenon::search::test {
namespace {

using ir::OpKind;

struct Saturated {
  ir::Program program;
  std::vector<Sample> samples;
  ExpressionTable table;
  explicit Saturated(ir::Program p)
      : program(std::move(p)), samples(make_samples(program, 5)), table(program, samples) {}
};

TEST(Samples, ExtentsArePairwiseDistinctAndDiffer) {
  std::vector<Sample> s = make_samples(rmsnorm_linear(), 0);
  ASSERT_EQ(s.size(), 2u);
  for (const Sample& sample : s) {
    std::set<std::int64_t> distinct(sample.extents.begin(), sample.extents.end());
    EXPECT_EQ(distinct.size(), sample.extents.size());
    for (std::int64_t e : sample.extents) EXPECT_GE(e, 2);
    EXPECT_EQ(sample.domain.prime() % 4, 3u);
  }
  EXPECT_NE(s[0].domain.prime(), s[1].domain.prime());
  for (std::size_t d = 0; d < s[0].extents.size(); ++d) EXPECT_NE(s[0].extents[d], s[1].extents[d]);
}

TEST(Expressions, SpellingsOfOneValueAreOneClass) {
  Saturated s(scaled_linear());
  ClassId x = 0, g = 1, w = 2;
  ClassId left = s.table.make({OpKind::kMatmul, s.table.make({OpKind::kMul, x, g, 0, 0}), w, 1, 0});
  ClassId right =
      s.table.make({OpKind::kMatmul, x, s.table.make({OpKind::kMul, g, w, 0, 0}), 1, 0});
  EXPECT_NE(left, kNoClass);
  EXPECT_EQ(left, right);
  EXPECT_EQ(left, s.table.outputs()[0]);
}

TEST(Expressions, DifferentValuesAreNot) {
  Saturated s(scaled_linear());
  ClassId x = 0, g = 1, w = 2;
  ClassId plain = s.table.make({OpKind::kMatmul, x, w, 1, 0});
  EXPECT_NE(plain, s.table.outputs()[0]);
  EXPECT_NE(s.table.make({OpKind::kAdd, x, g, 0, 0}), s.table.make({OpKind::kMul, x, g, 0, 0}));
}

TEST(Expressions, NormalSpellingIsTheOnlyOne) {
  Saturated s(scaled_linear());
  ClassId x = 0, g = 1, w = 2;
  EXPECT_EQ(s.table.make({OpKind::kMul, x, x, 0, 0}), kNoClass);         // square(x)
  EXPECT_EQ(s.table.make({OpKind::kMatmul, x, g, 1, 0}), kNoClass);      // sum(mul(x, g))
  EXPECT_EQ(s.table.make({OpKind::kMul, x, w, 0, 0}), kNoClass);         // neither has all axes
  EXPECT_EQ(s.table.make({OpKind::kSum, g, kNoClass, 0, 0}), kNoClass);  // g has no m
}

TEST(Expressions, ExtentsDoNotPassForNumbers) {
  Saturated s(rmsnorm_linear());
  std::set<ClassId> seen;
  for (const ir::Constant& c :
       {ir::Constant{{1, 1}, {{1, -1}}, {}}, ir::Constant{{1, 3}, {}, {}},
        ir::Constant{{1, 4}, {}, {}}, ir::Constant{{1, 1}, {{0, -1}}, {}},
        ir::Constant{{1, 1}, {{2, -1}}, {}}, ir::Constant{{1, 1}, {}, {{"eps", 1}}}})
    EXPECT_TRUE(seen.insert(s.table.constant(c)).second);
}

// The forms of rmsnorm_linear as expressions: the product of scaled rows, of rows with a scaled
// matrix, and the scaled product.
TEST(Laws, ReachTheFormsOfRmsnormLinear) {
  Saturated s(rmsnorm_linear());
  Saturation done = saturate(s.table, 400);
  EXPECT_FALSE(done.cut_off);
  const Expression& y = s.table[s.table.outputs()[0]];
  int products = 0;
  int scaled = 0;
  for (const Operation& way : y.ways) {
    products += way.op == OpKind::kMatmul;
    scaled += way.op == OpKind::kMul;
  }
  EXPECT_EQ(products, 2);  // (x·r·g)·w and (x·r)·(g·w)
  EXPECT_EQ(scaled, 1);    // r·(x·g·w)
  std::vector<bool> in = reachable(s.table);
  ClassId gw = s.table.find({OpKind::kMul, 1, 2, 0, 0});
  ASSERT_NE(gw, kNoClass);
  EXPECT_TRUE(in[static_cast<std::size_t>(gw)]);
  EXPECT_TRUE(s.table[gw].parameter_only);
}

// A scale of columns after the product is a scale of the weights: (Σ x·w)·s = Σ x·(w·s).
TEST(Laws, ScaleAfterAProductMayGoBeforeIt) {
  Saturated s(ir::parse_program(R"(program product_scaled
dims m, k, n
input x: T[m, k] activation
input w: T[k, n] parameter
input s: T[n] parameter
%y = matmul(x, w, k)
%ys = mul(%y, s)
output y: T = %ys
)"));
  saturate(s.table, 400);
  ClassId ws = s.table.find({OpKind::kMul, 1, 2, 0, 0});
  ASSERT_NE(ws, kNoClass);
  EXPECT_TRUE(reachable(s.table)[static_cast<std::size_t>(ws)]);
}

// Addends come apart, and what parameters alone make is seen: (x + b)·w = x·w + b·w.
TEST(Laws, SumsDistributeOverProducts) {
  Saturated s(ir::parse_program(R"(program shifted_product
dims m, k, n
input x: T[m, k] activation
input b: T[k] parameter
input w: T[k, n] parameter
%xb = add(x, b)
%y = matmul(%xb, w, k)
output y: T = %y
)"));
  saturate(s.table, 400);
  std::vector<bool> in = reachable(s.table);
  ClassId bw = s.table.find({OpKind::kMul, 1, 2, 0, 0});
  ASSERT_NE(bw, kNoClass);
  ClassId sum = s.table.find({OpKind::kSum, bw, kNoClass, 1, 0});
  ASSERT_NE(sum, kNoClass);
  EXPECT_TRUE(in[static_cast<std::size_t>(sum)]);
  EXPECT_TRUE(s.table[sum].parameter_only);
}

// LayerNorm's correction follows from the same laws: s = Σ g·w and t = Σ b·w appear.
TEST(Laws, ReachLayernormsParameterSums) {
  Saturated s(ir::parse_program(R"(program layernorm_linear
dims m, k, n
attribute eps = 1e-5
input x: T[m, k] activation
input g: T[k] parameter
input b: T[k] parameter
input w: T[k, n] parameter
%s = sum(x, k)
%inv = const(1/k)
%mu = mul(%s, %inv)
%xc = sub(x, %mu)
%sq = square(%xc)
%ss = sum(%sq, k)
%v = mul(%ss, %inv)
%eps = const(eps)
%ve = add(%v, %eps)
%r = rsqrt(%ve)
%xn = mul(%xc, %r)
%xg = mul(%xn, g)
%xb = add(%xg, b)
%y = matmul(%xb, w, k)
output y: T = %y
)"));
  saturate(s.table, 400);
  std::vector<bool> in = reachable(s.table);
  for (ClassId scale : {1, 2}) {
    ClassId product = s.table.find({OpKind::kMul, scale, 3, 0, 0});
    ASSERT_NE(product, kNoClass);
    ClassId sum = s.table.find({OpKind::kSum, product, kNoClass, 1, 0});
    ASSERT_NE(sum, kNoClass);
    EXPECT_TRUE(in[static_cast<std::size_t>(sum)]);
  }
}

// The laws are algebra: they name operators, never a program or its tensors.
TEST(Laws, NameNoProgram) {
  for (const Law& law : laws())
    for (const char* word : {"rms", "norm", "gamma", "γ"})
      EXPECT_EQ((law.name + law.statement).find(word), std::string::npos) << law.name;
}

}  // namespace
}  // namespace tenon::search::test
