// Every instruction set's inner loops against scalar arithmetic written here.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/host/kernels.h"

namespace tenon::runtime::host {
namespace {

std::vector<const Kernels*> sets() {
  std::array<const Kernels*, 4> all{};
  int count = available_kernels(all.data(), static_cast<int>(all.size()));
  return {all.begin(), all.begin() + count};
}

std::vector<float> awkward() {
  std::vector<float> v = {0.0f,
                          -0.0f,
                          1.0f,
                          -1.0f,
                          65504.0f,
                          65519.0f,
                          65520.0f,
                          1e30f,
                          -1e30f,
                          3.4e38f,
                          1e-7f,
                          5.9e-8f,
                          2.9e-8f,
                          6.1e-5f,
                          1e-40f,
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(),
                          1.00390625f,
                          1.01171875f,
                          2049.0f,
                          2051.0f};
  std::mt19937 random(3);
  while (v.size() < 256) {
    std::uint32_t bits = static_cast<std::uint32_t>(random());
    float f;
    std::memcpy(&f, &bits, 4);
    v.push_back(f);
  }
  return v;
}

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

TEST(HostKernels, ABaselineSetIsAlwaysThere) {
  ASSERT_FALSE(sets().empty());
  EXPECT_STREQ(sets().back()->name, "baseline");
  EXPECT_EQ(&kernels(), sets().front());
}

TEST(HostKernels, RoundLikeTheIr) {
  const std::vector<float> in = awkward();
  for (const Kernels* k : sets())
    for (ir::DType type : {ir::DType::kBF16, ir::DType::kF16, ir::DType::kF32}) {
      std::vector<float> out(in.size());
      k->round(out.data(), in.data(), type, static_cast<std::int64_t>(in.size()));
      for (std::size_t i = 0; i < in.size(); ++i)
        EXPECT_TRUE(same(out[i], ir::round_to(type, in[i])))
            << k->name << " " << ir::name(type) << " " << in[i] << " -> " << out[i];
    }
}

TEST(HostKernels, StoreAndLoadEveryStride) {
  const std::vector<float> in = awkward();
  for (const Kernels* k : sets())
    for (ir::DType type : {ir::DType::kBF16, ir::DType::kF16, ir::DType::kF32})
      for (std::int64_t stride : {1, 3})
        for (std::int64_t n : {1, 15, 16, 17, 61}) {
          std::vector<std::byte> memory(static_cast<std::size_t>(n * stride) * 4 + 8, std::byte{0});
          std::vector<float> out(static_cast<std::size_t>(n));
          k->store(memory.data(), type, stride, in.data(), n);
          k->load(out.data(), memory.data(), type, stride, n);
          for (std::size_t i = 0; i < out.size(); ++i)
            EXPECT_TRUE(same(out[i], ir::round_to(type, in[i])))
                << k->name << " " << ir::name(type) << " stride " << stride;
        }
}

// All 65,536 half-precision bit patterns load as the value they stand for.
TEST(HostKernels, LoadEveryHalf) {
  for (const Kernels* k : sets())
    for (ir::DType type : {ir::DType::kBF16, ir::DType::kF16})
      for (std::uint32_t first = 0; first < 65536; first += 256) {
        std::array<std::uint16_t, 256> bits;
        std::array<float, 256> out;
        for (std::uint32_t i = 0; i < 256; ++i) bits[i] = static_cast<std::uint16_t>(first + i);
        k->load(out.data(), bits.data(), type, 1, 256);
        for (std::uint32_t i = 0; i < 256; ++i)
          ASSERT_TRUE(same(out[i], ir::from_bits16(type, bits[i]))) << k->name << " " << bits[i];
      }
}

TEST(HostKernels, PointwiseWithScalarsOnEitherSide) {
  std::vector<float> a(100), b(100), out(100);
  for (std::size_t i = 0; i < 100; ++i) {
    a[i] = 0.5f + static_cast<float>(i);
    b[i] = 3.0f - 0.25f * static_cast<float>(i);
  }
  for (const Kernels* k : sets())
    for (bool sa : {false, true})
      for (bool sb : {false, true}) {
        auto x = [&](std::size_t i) { return a[sa ? 0 : i]; };
        auto y = [&](std::size_t i) { return b[sb ? 0 : i]; };
        ASSERT_TRUE(k->binary(ir::OpKind::kAdd, out.data(), a.data(), sa, b.data(), sb, 100));
        for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(out[i], x(i) + y(i));
        ASSERT_TRUE(k->binary(ir::OpKind::kSub, out.data(), a.data(), sa, b.data(), sb, 100));
        for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(out[i], x(i) - y(i));
        ASSERT_TRUE(k->binary(ir::OpKind::kMul, out.data(), a.data(), sa, b.data(), sb, 100));
        for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(out[i], x(i) * y(i));
        ASSERT_TRUE(k->binary(ir::OpKind::kDiv, out.data(), a.data(), sa, b.data(), sb, 100));
        for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(out[i], x(i) / y(i));
      }
  for (const Kernels* k : sets()) {
    ASSERT_TRUE(k->unary(ir::OpKind::kSquare, out.data(), a.data(), 100));
    for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(out[i], a[i] * a[i]);
    ASSERT_TRUE(k->unary(ir::OpKind::kRsqrt, out.data(), a.data(), 100));
    for (std::size_t i = 0; i < 100; ++i) EXPECT_FLOAT_EQ(out[i], 1 / std::sqrt(a[i]));
    EXPECT_FALSE(k->unary(ir::OpKind::kSum, out.data(), a.data(), 100));
    EXPECT_NEAR(k->sum(a.data(), 100), 5000, 1e-2);  // Σ (i + 1/2), i < 100
  }
}

// Functions against float64: a few units in the last place wherever the result is a normal number,
// NaN for NaN, their limits at infinity.
TEST(HostKernels, FunctionsOverAllOfFp32) {
  struct Case {
    ir::OpKind op;
    double (*exact)(double);
    double ulps;
  };
  const Case cases[] = {
      {ir::OpKind::kExp, [](double x) { return std::exp(x); }, 4},
      {ir::OpKind::kTanh, [](double x) { return std::tanh(x); }, 4},
      {ir::OpKind::kErf, [](double x) { return std::erf(x); }, 4},
      {ir::OpKind::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 6},
      {ir::OpKind::kSilu, [](double x) { return x / (1 + std::exp(-x)); }, 6},
      {ir::OpKind::kGelu, [](double x) { return x * 0.5 * std::erfc(-x * M_SQRT1_2); }, 12},
      {ir::OpKind::kGeluTanh,
       [](double x) {
         return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
       },
       0},
  };
  std::vector<float> in;
  for (int i = -30000; i <= 30000; ++i) in.push_back(static_cast<float>(i) * 1.00013e-3f);
  for (float x = 1e-38f; x < 3e38f; x *= 1.37f) {
    in.push_back(x);
    in.push_back(-x);
  }
  for (float x : {0.0f, -0.0f, 87.9f, 88.6f, 88.8f, -87.2f, -95.0f, -103.9f, -104.5f})
    in.push_back(x);
  for (const Kernels* k : sets())
    for (const Case& c : cases) {
      std::vector<float> out(in.size());
      for (std::size_t i = 0; i < in.size(); i += 256)
        ASSERT_TRUE(k->unary(c.op, out.data() + i, in.data() + i,
                             static_cast<std::int64_t>(std::min<std::size_t>(256, in.size() - i))));
      for (std::size_t i = 0; i < in.size(); ++i) {
        const double want = c.exact(in[i]);
        if (static_cast<float>(want) == static_cast<float>(INFINITY)) {
          EXPECT_TRUE(std::isinf(out[i])) << in[i];
          continue;
        }
        // exp(−2u) multiplies the rounding of u, which is as large as x³/14.
        const double ulps = c.op == ir::OpKind::kGeluTanh
                                ? 8 + 0.3 * std::pow(std::min(std::fabs(in[i]), 14.f), 3)
                                : c.ulps;
        const double size = std::max(std::fabs(want), 1.2e-38);
        // 1/(1 + exp(−x)) is 0 where exp(−x) overflows: its value is subnormal there.
        const bool quotient = c.op == ir::OpKind::kSigmoid || c.op == ir::OpKind::kSilu ||
                              c.op == ir::OpKind::kGeluTanh;
        const double floor = quotient ? 1.2e-38 * std::max(1.0f, std::fabs(in[i])) : 3e-45;
        ASSERT_LE(std::fabs(out[i] - want), ulps * 0x1p-24 * size + floor)
            << k->name << " " << ir::info(c.op).name << " " << in[i] << " -> " << out[i];
      }
      const float nan = std::numeric_limits<float>::quiet_NaN(),
                  inf = std::numeric_limits<float>::infinity();
      float ends[3] = {nan, inf, -inf}, got[3];
      ASSERT_TRUE(k->unary(c.op, got, ends, 3));
      EXPECT_TRUE(std::isnan(got[0])) << ir::info(c.op).name;
      EXPECT_EQ(got[1], static_cast<float>(c.exact(inf))) << ir::info(c.op).name;
      const auto low = static_cast<float>(c.exact(-inf));
      EXPECT_TRUE(std::isnan(low) ? std::isnan(got[2]) : got[2] == low) << ir::info(c.op).name;
    }
}

// Every height of register block, ragged depth and columns, every storage, transposed weights.
TEST(HostKernels, ProductsOfEveryShape) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  for (const Kernels* kernels : sets())
    for (ir::DType type : {ir::DType::kBF16, ir::DType::kF16, ir::DType::kF32})
      for (std::int64_t m : {1, 2, 3, 5, 7, 11, 12, 13, 16, 25, 40})
        for (auto [k, n] : {std::array<std::int64_t, 2>{1, 1}, std::array<std::int64_t, 2>{37, 33},
                            std::array<std::int64_t, 2>{300, 150}})
          for (bool transposed : {false, true}) {
            auto make = [&](std::int64_t count) {
              std::vector<float> v(static_cast<std::size_t>(count));
              for (float& x : v) x = ir::round_to(type, normal(random));
              return v;
            };
            auto pack = [&](const std::vector<float>& v) {
              std::vector<std::byte> bytes(v.size() * ir::size_of(type));
              for (std::size_t i = 0; i < v.size(); i += 256)
                kernels->store(bytes.data() + i * ir::size_of(type), type, 1, v.data() + i,
                               static_cast<std::int64_t>(std::min<std::size_t>(256, v.size() - i)));
              return bytes;
            };
            std::vector<float> a = make(m * k), b = make(k * n);
            std::vector<std::byte> pa = pack(a), pb = pack(b);
            std::vector<float> c(static_cast<std::size_t>(m * (n + 3)), 1),
                scratch(static_cast<std::size_t>(product_scratch(m)));
            Product p;
            p.m = m;
            p.n = n;
            p.k = k;
            p.a = pa.data();
            p.a_type = p.b_type = type;
            p.a_row = k;
            p.b = pb.data();
            p.b_row = transposed ? 1 : n;
            p.b_column = transposed ? k : 1;
            p.c = c.data();
            p.c_row = n + 3;
            p.scratch = scratch.data();
            kernels->product(p);
            for (std::int64_t i = 0; i < m; ++i) {
              for (std::int64_t j = 0; j < n; ++j) {
                double sum = 1, size = 1;
                for (std::int64_t q = 0; q < k; ++q) {
                  double term = static_cast<double>(a[static_cast<std::size_t>(i * k + q)]) *
                                b[static_cast<std::size_t>(transposed ? j * k + q : q * n + j)];
                  sum += term;
                  size += std::abs(term);
                }
                ASSERT_NEAR(c[static_cast<std::size_t>(i * (n + 3) + j)], sum, 2e-6 * size)
                    << kernels->name << " m=" << m << " k=" << k << " n=" << n;
              }
              for (std::int64_t j = n; j < n + 3; ++j)
                ASSERT_EQ(c[static_cast<std::size_t>(i * (n + 3) + j)], 1) << "beyond the row";
            }
          }
}

}  // namespace
}  // namespace tenon::runtime::host
