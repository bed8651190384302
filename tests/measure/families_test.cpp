#include "measure/families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ir/program.h"

namespace tenon::measure {
namespace {

ir::Workload workload(std::int64_t m, std::int64_t k, std::int64_t n, ir::DType dtype) {
  return ir::make_workload(ir::catalog_program("rmsnorm_linear"), {{"m", m}, {"k", k}, {"n", n}},
                           dtype);
}

Tensor x_of(Family family, std::int64_t m, std::int64_t k, ir::DType dtype = ir::DType::kF32,
            std::uint64_t seed = 1) {
  ir::Workload w = workload(m, k, 8, dtype);
  return make_activations(w, w.extents, family, seed)[0];
}

double mean(const Tensor& t) {
  double s = 0;
  for (float x : t.data) s += static_cast<double>(x);
  return s / static_cast<double>(t.data.size());
}
double deviation(const Tensor& t) {
  double m = mean(t), s = 0;
  for (float x : t.data) s += (static_cast<double>(x) - m) * (static_cast<double>(x) - m);
  return std::sqrt(s / static_cast<double>(t.data.size()));
}

TEST(Families, HaveTheMomentsTheyPromise) {
  EXPECT_NEAR(mean(x_of(Family::kNormal, 64, 512)), 0, 0.03);
  EXPECT_NEAR(deviation(x_of(Family::kNormal, 64, 512)), 1, 0.03);
  EXPECT_NEAR(mean(x_of(Family::kMean100, 64, 512)), 100, 0.1);
  EXPECT_NEAR(deviation(x_of(Family::kMean100, 64, 512)), 1, 0.03);
  EXPECT_NEAR(mean(x_of(Family::kMean1000, 64, 512)), 1000, 0.1);
  EXPECT_NEAR(deviation(x_of(Family::kTiny, 64, 512)), 1e-6, 1e-7);
}

TEST(Families, OutliersFillWholeColumns) {
  Tensor x = x_of(Family::kOutlierChannels, 50, 256);
  int columns = 0;
  for (int j = 0; j < 256; ++j) {
    double s = 0;
    for (int i = 0; i < 50; ++i)
      s += std::abs(static_cast<double>(x.data[static_cast<std::size_t>(i * 256 + j)]));
    columns += s / 50 > 100;
  }
  EXPECT_EQ(columns, 4);
}

TEST(Families, ZeroAndNaNRowsAreWhereTheyShould) {
  Tensor zero = x_of(Family::kZeroRow, 7, 20);
  for (int i = 0; i < 7; ++i) {
    bool all = std::all_of(zero.data.begin() + i * 20, zero.data.begin() + (i + 1) * 20,
                           [](float v) { return v == 0; });
    EXPECT_EQ(all, i % 3 == 0) << i;
  }
  Tensor nan = x_of(Family::kNanRow, 7, 20);
  int nans = 0, infs = 0;
  for (std::size_t i = 0; i < nan.data.size(); ++i) {
    nans += std::isnan(nan.data[i]);
    infs += std::isinf(nan.data[i]);
    if (std::isnan(nan.data[i])) {
      EXPECT_EQ(i / 20, 3u);
    }
  }
  EXPECT_EQ(nans, 1);
  EXPECT_EQ(infs, 1);
}

TEST(Families, AreRepresentableAndRepeatable) {
  for (Family f : families())
    for (ir::DType dtype : {ir::DType::kBF16, ir::DType::kF16}) {
      Tensor x = x_of(f, 5, 33, dtype);
      for (float v : x.data)
        if (std::isfinite(v)) {
          ASSERT_EQ(v, ir::round_to(dtype, v)) << name(f);
        }
      Tensor again = x_of(f, 5, 33, dtype), other = x_of(f, 5, 33, dtype, 2);
      bool same = true, differs = false;
      for (std::size_t i = 0; i < x.data.size(); ++i) {
        same = same && (x.data[i] == again.data[i] || std::isnan(x.data[i]));
        differs = differs || x.data[i] != other.data[i];
      }
      EXPECT_TRUE(same && differs) << name(f);
    }
}

TEST(Families, HostileParametersSpanALargeRange) {
  ir::Workload w = workload(2, 256, 64, ir::DType::kBF16);
  std::vector<Tensor> p = make_parameters(w, true, 1);
  EXPECT_TRUE(p[0].data.empty());
  double low = 1e30, high = 0;
  for (float v : p[1].data) {
    low = std::min(low, std::abs(static_cast<double>(v)));
    high = std::max(high, std::abs(static_cast<double>(v)));
  }
  EXPECT_GT(high / low, 1e4);
}

TEST(OneHot, HitsBothSidesOfEveryBoundary) {
  std::vector<std::int64_t> p = one_hot_positions(577, {64, 200}, 512);
  auto has = [&](std::int64_t at) { return std::binary_search(p.begin(), p.end(), at); };
  EXPECT_TRUE(has(0) && has(576) && has(575));
  for (std::int64_t b : {64, 128, 192, 256, 320, 384, 448, 512, 576, 200, 400})
    EXPECT_TRUE(has(b) && has(b - 1)) << b;
  EXPECT_TRUE(std::is_sorted(p.begin(), p.end()));
}

TEST(OneHot, TakesAllOfAShortAxisAndAtMostTheLimitOfALongOne) {
  EXPECT_EQ(one_hot_positions(1, {64}, 512), std::vector<std::int64_t>{0});
  EXPECT_EQ(one_hot_positions(100, {64}, 512).size(), 100u);
  std::vector<std::int64_t> p = one_hot_positions(16384, {64}, 200);
  EXPECT_LE(p.size(), 200u);
  EXPECT_EQ(p.back(), 16383);
}

TEST(OneHot, RowsHoldOneOne) {
  ir::Workload w = workload(3, 10, 4, ir::DType::kBF16);
  Tensor x = make_one_hot(w, w.extents, 0, {4, 9})[0];
  std::vector<float> want(30, 0);
  want[4] = want[19] = want[29] = 1;
  EXPECT_EQ(x.data, want);
}

}  // namespace
}  // namespace tenon::measure
