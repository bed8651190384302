// The numeric contract: what must pass, and wrong outputs that a loose tolerance lets through.
#include "verifier/numeric.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace tenon::verifier {
namespace {

using ir::DType;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr double kNan64 = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf64 = std::numeric_limits<double>::infinity();

TEST(Compare, ByHand) {
  // Row (3, 4): norm 5, typical element 5/√2. Errors (0.003, 0.004) are 0.005/5 = 1e-3 of it.
  const NumericReport r = compare({3.003F, 4.004F}, {3, 4}, 1, 2, 1.1e-3);
  EXPECT_TRUE(r.pass) << r.reason;
  EXPECT_NEAR(r.worst_row, 1e-3, 1e-7);
  EXPECT_NEAR(r.worst_element, 1e-3, 1e-7);
  EXPECT_FALSE(compare({3.003F, 4.004F}, {3, 4}, 1, 2, 0.9e-3).pass);
  EXPECT_NEAR(relative_row_error({3.003F, 4.004F}, {3, 4}, 1, 2), 1e-3, 1e-7);
}

TEST(Compare, FindsTheFirstViolation) {
  const NumericReport r = compare({1, 2, 3, 4, 5, 7}, {1, 2, 3, 4, 5, 6}, 2, 3, 1e-3);
  EXPECT_FALSE(r.pass);
  EXPECT_EQ(r.row, 1);
  EXPECT_EQ(r.column, 2);
  EXPECT_NE(r.reason.find("row 1, column 2"), std::string::npos) << r.reason;
}

TEST(Compare, NanAndInfNeverPassForNumbers) {
  for (float bad : {kNan, kInf, -kInf}) {
    EXPECT_FALSE(compare({1, bad}, {1, 2}, 1, 2, 1e30).pass);
    EXPECT_EQ(relative_row_error({1, bad}, {1, 2}, 1, 2), kInf64);
  }
}

TEST(Compare, NonFiniteRowsAreComparedByClass) {
  EXPECT_TRUE(compare({kNan, kNan, 1, 2}, {kNan64, kNan64, 1, 2}, 2, 2, 1e-3).pass);
  EXPECT_FALSE(compare({kNan, 0, 1, 2}, {kNan64, kNan64, 1, 2}, 2, 2, 1e-3).pass);
  EXPECT_TRUE(compare({kInf, -kInf}, {kInf64, -kInf64}, 1, 2, 1e-3).pass);
  EXPECT_FALSE(compare({kInf, kInf}, {kInf64, -kInf64}, 1, 2, 1e-3).pass);
  EXPECT_FALSE(compare({kNan, -kInf}, {kInf64, -kInf64}, 1, 2, 1e-3).pass);
  EXPECT_FALSE(compare({3.4e38F, -kInf}, {kInf64, -kInf64}, 1, 2, 1e-3).pass);
  // A NaN that leaves its row is not forgiven.
  EXPECT_FALSE(compare({kNan, kNan, kNan, 2}, {kNan64, kNan64, 1, 2}, 2, 2, 1e-3).pass);
  // Numbers beside a NaN are still compared.
  EXPECT_TRUE(compare({kNan, 2}, {kNan64, 2}, 1, 2, 1e-3).pass);
  EXPECT_FALSE(compare({kNan, 3}, {kNan64, 2}, 1, 2, 1e-3).pass);
}

TEST(Compare, ZeroRowsAreExactlyZero) {
  EXPECT_TRUE(compare({0, -0.0F}, {0, 0}, 1, 2, 1e-3).pass);
  EXPECT_FALSE(compare({0, 1e-45F}, {0, 0}, 1, 2, 1e-3).pass);
  EXPECT_FALSE(compare({0, kNan}, {0, 0}, 1, 2, 1e-3).pass);
}

TEST(Compare, BoundThatIsNoBoundAdmitsNothing) {
  for (double bound : {kNan64, kInf64, -1.0}) EXPECT_FALSE(compare({1}, {1}, 1, 1, bound).pass);
  EXPECT_TRUE(compare({1}, {1}, 1, 1, 0).pass);
}

TEST(Compare, SizesMustFit) {
  EXPECT_FALSE(compare({1, 2}, {1, 2}, 1, 3, 1e-3).pass);
  EXPECT_FALSE(compare({1}, {1, 2}, 1, 2, 1e-3).pass);
  EXPECT_TRUE(compare({}, {}, 0, 5, 1e-3).pass);
}

TEST(Compare, ExtremeMagnitudesDoNotOverflow) {
  EXPECT_TRUE(compare({1e38F, -2e38F}, {1e38, -2e38}, 1, 2, 1e-6).pass);
  EXPECT_TRUE(compare({1e-38F, -2e-38F}, {1e-38, -2e-38}, 1, 2, 1e-6).pass);
  EXPECT_FALSE(compare({1e-38F, 0}, {1e-38, -2e-38}, 1, 2, 1e-3).pass);
  EXPECT_FALSE(compare({1, 1}, {1e200, 1e200}, 1, 2, 1e-3).pass);
}

TEST(RowBound, IsOneAndAHalfTimesTheReferencePlusTheUnit) {
  EXPECT_DOUBLE_EQ(row_bound(1e-3, DType::kBF16), 1.5e-3 + 0x1p-9);
  EXPECT_DOUBLE_EQ(row_bound(2e-4, DType::kF16), 3e-4 + 0x1p-12);
  EXPECT_DOUBLE_EQ(row_bound(0, DType::kF32), 0x1p-18);
}

// RMSNorm + linear in float64 and with every step of a kernel rounded as `Rounding` says.
struct Rounding {
  std::function<float(float)> operand;  // of both product operands
  std::function<float(float)> output;
  int missing = 0;  // columns of x, the first ones, that Σx² forgets
};
struct Problem {
  std::int64_t m, k, n;
  std::vector<float> x, w;
  double eps = 1e-6;

  Problem(std::int64_t m_, std::int64_t k_, std::int64_t n_, DType dtype) : m(m_), k(k_), n(n_) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < m * k; ++i) x.push_back(ir::round_to(dtype, normal(random)));
    for (std::int64_t i = 0; i < k * n; ++i) w.push_back(ir::round_to(dtype, normal(random)));
  }
  std::vector<double> exact() const {
    std::vector<double> y(static_cast<std::size_t>(m * n), 0.0);
    for (std::int64_t i = 0; i < m; ++i) {
      double s = 0;
      for (std::int64_t l = 0; l < k; ++l) s += double(x[i * k + l]) * x[i * k + l];
      const double r = 1 / std::sqrt(s / k + eps);
      for (std::int64_t l = 0; l < k; ++l)
        for (std::int64_t j = 0; j < n; ++j) y[i * n + j] += x[i * k + l] * r * w[l * n + j];
    }
    return y;
  }
  std::vector<float> rounded(const Rounding& how) const {
    std::vector<float> y(static_cast<std::size_t>(m * n), 0.0F);
    for (std::int64_t i = 0; i < m; ++i) {
      float s = 0;
      for (std::int64_t l = how.missing; l < k; ++l) s += x[i * k + l] * x[i * k + l];
      const float r = 1 / std::sqrt(s / static_cast<float>(k) + static_cast<float>(eps));
      for (std::int64_t l = 0; l < k; ++l) {
        const float a = how.operand(x[i * k + l] * r);
        for (std::int64_t j = 0; j < n; ++j) y[i * n + j] += a * how.operand(w[l * n + j]);
      }
      for (std::int64_t j = 0; j < n; ++j) y[i * n + j] = how.output(y[i * n + j]);
    }
    return y;
  }
};

std::function<float(float)> to(DType dtype) {
  return [dtype](float v) { return ir::round_to(dtype, v); };
}
// TF32 keeps 10 bits of the significand.
float tf32(float v) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  return std::bit_cast<float>((bits + 0xFFFU + (bits >> 13 & 1U)) & 0xFFFFE000U);
}

NumericReport judge(const Problem& p, DType dtype, const Rounding& kernel) {
  const std::vector<double> y64 = p.exact();
  const double e = relative_row_error(p.rounded({to(dtype), to(dtype)}), y64, p.m, p.n);
  return compare(p.rounded(kernel), y64, p.m, p.n, row_bound(e, dtype));
}

TEST(WrongKernels, Tf32OperandsAreNotFp32) {
  const Problem p(3, 500, 60, DType::kF32);
  EXPECT_TRUE(judge(p, DType::kF32, {to(DType::kF32), to(DType::kF32)}).pass);
  EXPECT_FALSE(judge(p, DType::kF32, {tf32, to(DType::kF32)}).pass);
}

TEST(WrongKernels, Bf16OperandsAreNotFp16) {
  const Problem p(3, 500, 60, DType::kF16);
  EXPECT_TRUE(judge(p, DType::kF16, {to(DType::kF16), to(DType::kF16)}).pass);
  EXPECT_FALSE(judge(p, DType::kF16, {to(DType::kBF16), to(DType::kF16)}).pass);
}

TEST(WrongKernels, MissingColumnsOfTheStatistic) {
  // 32 of 4096 columns: 0.4% of every element, uniformly, which correlation would not see.
  const Problem half(2, 4096, 24, DType::kF16);
  EXPECT_FALSE(judge(half, DType::kF16, {to(DType::kF16), to(DType::kF16), 32}).pass);
  // bf16 rounds by as much, so normal inputs cannot tell; the outlier family can.
  Problem outliers(2, 4096, 24, DType::kBF16);
  for (std::int64_t i = 0; i < outliers.m; ++i)
    outliers.x[i * outliers.k + 5] =
        ir::round_to(DType::kBF16, 1000 * outliers.x[i * outliers.k + 5]);
  EXPECT_TRUE(judge(outliers, DType::kBF16, {to(DType::kBF16), to(DType::kBF16)}).pass);
  EXPECT_FALSE(judge(outliers, DType::kBF16, {to(DType::kBF16), to(DType::kBF16), 32}).pass);
}

TEST(WrongKernels, OneZeroedElementAmongMany) {
  constexpr std::int64_t kRows = 10, kColumns = 15000;
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::vector<double> y64;
  std::vector<float> y;
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    y64.push_back(normal(random));
    y.push_back(ir::round_to(DType::kBF16, static_cast<float>(y64.back())));
  }
  const double bound = row_bound(relative_row_error(y, y64, kRows, kColumns), DType::kBF16);
  EXPECT_TRUE(compare(y, y64, kRows, kColumns, bound).pass);
  std::size_t victim = 7 * kColumns + 1234;
  while (std::fabs(y64[victim]) < 0.5) ++victim;
  y[victim] = 0;
  const NumericReport r = compare(y, y64, kRows, kColumns, bound);
  EXPECT_FALSE(r.pass);
  EXPECT_EQ(r.row, 7);
  EXPECT_EQ(r.column, static_cast<std::int64_t>(victim) - 7 * kColumns);
  // The row as a whole would have let it through.
  EXPECT_LT(relative_row_error(y, y64, kRows, kColumns), 8 * bound);
}

}  // namespace
}  // namespace tenon::verifier
