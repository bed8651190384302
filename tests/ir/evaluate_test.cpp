// The evaluator against loops written out by hand, over several domains and partitions.
#include "ir/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/domain.h"
#include "ir/error.h"
#include "rmsnorm.h"

namespace tenon::ir {
namespace {

using namespace testing;

struct Inputs {
  std::vector<Values<double>> values;
  std::int64_t m, k, n;
};

Inputs random_inputs(std::int64_t m, std::int64_t k, std::int64_t n) {
  std::mt19937 engine(7);
  std::normal_distribution<double> normal;
  Inputs in{{}, m, k, n};
  for (const auto& [axes, extents] : {std::pair{full({kM, kK}), std::vector<std::int64_t>{m, k}},
                                      {full({kK}), std::vector<std::int64_t>{k}},
                                      {full({kK, kN}), std::vector<std::int64_t>{k, n}}}) {
    Values<double> v{axes, extents, {}};
    for (std::int64_t i = 0; i < detail::product(extents); ++i) v.data.push_back(normal(engine));
    in.values.push_back(std::move(v));
  }
  return in;
}

// y[i][j] = Σ_l x[i][l]·g[l]·w[l][j] / sqrt(Σ x²/k + eps), written out.
double expected(const Inputs& in, std::int64_t i, std::int64_t j, double eps) {
  const auto at = [](std::int64_t x) { return static_cast<std::size_t>(x); };
  double squares = 0, product = 0;
  for (std::int64_t l = 0; l < in.k; ++l) {
    double x = in.values[0].data[at(i * in.k + l)];
    squares += x * x;
    product += x * in.values[1].data[at(l)] * in.values[2].data[at(l * in.n + j)];
  }
  return product / std::sqrt(squares / static_cast<double>(in.k) + eps);
}

void expect_close(const Values<double>& y, const Inputs& in, double eps) {
  ASSERT_EQ(y.extents, (std::vector<std::int64_t>{in.m, in.n}));
  for (std::int64_t i = 0; i < in.m; ++i)
    for (std::int64_t j = 0; j < in.n; ++j)
      EXPECT_NEAR(y.data[static_cast<std::size_t>(i * in.n + j)], expected(in, i, j, eps), 1e-12);
}

TEST(Evaluate, ProgramEqualsHandWrittenLoops) {
  Inputs in = random_inputs(3, 7, 5);
  DoubleDomain domain({{"eps", 0.25}});
  expect_close(evaluate(rmsnorm_linear(), {3, 7, 5}, domain, in.values)[0], in, 0.25);
}

// Ragged: 3 rows in 2 parts, 7 columns in 3 shares of 2 steps (the last share holds one element).
TEST(Evaluate, MuGraphEqualsHandWrittenLoopsForEveryPartition) {
  Inputs in = random_inputs(3, 7, 5);
  for (bool split : {false, true})
    for (std::int64_t gm : {1, 2, 3, 5})
      for (std::int64_t gk : {1, 2, 3, 9})
        for (std::int64_t steps : {1, 2, 4, 11}) {
          DoubleDomain domain({{"eps", 1e-6}});
          Partition partition{{gm, gk, 2}, {1, steps, 1}};
          MuGraph u = one_pass(split);
          validate(u);
          expect_close(evaluate(u, {3, 7, 5}, partition, domain, in.values)[0], in, 1e-6);
        }
}

TEST(Evaluate, CastsRoundOnlyInRoundedDomains) {
  Program p = rmsnorm_linear();
  Inputs in = random_inputs(2, 3, 2);
  std::vector<Values<float>> rounded;
  for (const auto& v : in.values) {
    Values<float> f{v.axes, v.extents, {}};
    for (double x : v.data) f.data.push_back(round_to(DType::kBF16, static_cast<float>(x)));
    rounded.push_back(std::move(f));
  }
  RoundedDomain domain({{"eps", 1e-6}}, DType::kBF16);
  Values<float> y_values = evaluate(p, {2, 3, 2}, domain, rounded)[0];
  for (float y : y_values.data) EXPECT_EQ(y, round_to(DType::kBF16, y));
}

TEST(Evaluate, FieldRootsAreMultiplicativeAndUndefinedOffSquares) {
  // 7 ≡ 3 (mod 4); squares are 1, 2, 4. The root that is itself a square: √2 = 4 (4·4 = 16 ≡ 2).
  FieldDomain domain(7, {});
  EXPECT_EQ(domain.apply(OpKind::kSqrt, 2u), 4u);
  EXPECT_EQ(domain.apply(OpKind::kSqrt, 4u), 2u);
  EXPECT_EQ(domain.apply(OpKind::kRsqrt, 2u), 2u);  // 1/4 ≡ 2
  EXPECT_THROW(domain.apply(OpKind::kSqrt, 3u), Undefined);
  EXPECT_THROW(domain.apply(OpKind::kDiv, 1u, 0u), Undefined);
}

TEST(Evaluate, ShiftReadsTheNeighboursShare) {
  // Two blocks of rows; with a shift of 1 block 0 reads rows 2, 0 (share 2 of 3 rows, wrapping).
  MuGraph u = one_pass(false);
  auto& block = std::get<BlockGraph>(u.kernels[0].body);
  block.inputs[0].maps[0].shift = 1;
  Inputs in = random_inputs(3, 4, 1);
  DoubleDomain domain({{"eps", 1e-6}});
  Values<double> y = evaluate(u, {3, 4, 1}, {{2, 1, 1}, {1, 2, 1}}, domain, in.values)[0];
  for (std::int64_t i = 0; i < 3; ++i)
    EXPECT_NEAR(y.data[static_cast<std::size_t>(i)], expected(in, (i + 2) % 3, 0, 1e-6), 1e-12);
}

TEST(Evaluate, ExtentsThatOverflowAreNamed) {
  EXPECT_THROW(element_count(full({kM, kK}), {std::int64_t{1} << 40, std::int64_t{1} << 40, 1}),
               UserError);
}

}  // namespace
}  // namespace tenon::ir
