// Rounding to bf16 and fp16: bit patterns worked out by hand, and every 16-bit value with
// its neighbours' midpoints.
#include "ir/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "ir/error.h"
#include "ir/op.h"

namespace tenon::ir {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr DType kTypes[] = {DType::kBF16, DType::kF16};

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(DType, NamesRoundTrip) {
  EXPECT_EQ(name(DType::kElem), "T");
  for (DType dtype : {DType::kElem, DType::kF32, DType::kBF16, DType::kF16}) {
    EXPECT_EQ(dtype_from_name(name(dtype)), dtype);
  }
  EXPECT_EQ(dtype_from_name("float"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
}

TEST(DType, SizesAndUnits) {
  EXPECT_EQ(size_of(DType::kF32), 4u);
  EXPECT_EQ(size_of(DType::kBF16), 2u);
  EXPECT_EQ(size_of(DType::kF16), 2u);
  EXPECT_THROW(size_of(DType::kElem), InternalError);
  EXPECT_EQ(unit_roundoff(DType::kBF16), 1.0 / 512);
  EXPECT_EQ(unit_roundoff(DType::kF16), 1.0 / 4096);
  EXPECT_EQ(unit_roundoff(DType::kF32), 1.0 / 262144);
}

TEST(DType, Bf16HandWorked) {
  auto bits = [](float x) { return to_bits16(DType::kBF16, x); };
  EXPECT_EQ(bits(0.0f), 0x0000);
  EXPECT_EQ(bits(-0.0f), 0x8000);
  EXPECT_EQ(bits(1.0f), 0x3f80);
  EXPECT_EQ(bits(-2.0f), 0xc000);
  EXPECT_EQ(bits(3.140625f), 0x4049);
  // 1 + 2^-8 is halfway between 1 and 1 + 2^-7: to the even one. 1 + 3·2^-8 goes up.
  EXPECT_EQ(bits(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(bits(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81);
  EXPECT_EQ(bits(1.0f + 3 * 0x1p-8f), 0x3f82);
  // The largest bf16 is 0x7f7f; half a step above it rounds to infinity.
  EXPECT_EQ(bits(from_bits(0x7f7f0000)), 0x7f7f);
  EXPECT_EQ(bits(from_bits(0x7f7f7fff)), 0x7f7f);
  EXPECT_EQ(bits(from_bits(0x7f7f8000)), 0x7f80);
  EXPECT_EQ(bits(-from_bits(0x7f7fffff)), 0xff80);
  EXPECT_EQ(bits(kInf), 0x7f80);
  EXPECT_EQ(bits(-kInf), 0xff80);
  // Subnormals: the smallest is 2^-133; half of it ties to zero, a little more does not.
  EXPECT_EQ(bits(0x1p-133f), 0x0001);
  EXPECT_EQ(bits(0x1p-134f), 0x0000);
  EXPECT_EQ(bits(0x1p-134f + 0x1p-149f), 0x0001);
  EXPECT_EQ(bits(3 * 0x1p-134f), 0x0002);
  // The largest subnormal rounds up into the smallest normal, 2^-126.
  EXPECT_EQ(bits(from_bits(0x007fffff)), 0x0080);
}

TEST(DType, Fp16HandWorked) {
  auto bits = [](float x) { return to_bits16(DType::kF16, x); };
  EXPECT_EQ(bits(0.0f), 0x0000);
  EXPECT_EQ(bits(-0.0f), 0x8000);
  EXPECT_EQ(bits(1.0f), 0x3c00);
  EXPECT_EQ(bits(-2.0f), 0xc000);
  EXPECT_EQ(bits(1.0f / 3), 0x3555);
  EXPECT_EQ(bits(65504.0f), 0x7bff);
  // Halfway to 65536 ties to the even mantissa, which is infinity; below it stays.
  EXPECT_EQ(bits(65519.996f), 0x7bff);
  EXPECT_EQ(bits(65520.0f), 0x7c00);
  EXPECT_EQ(bits(-65520.0f), 0xfc00);
  EXPECT_EQ(bits(1e30f), 0x7c00);
  EXPECT_EQ(bits(kInf), 0x7c00);
  // 1 + 2^-11 ties to 1; 1 + 3·2^-11 ties to 1 + 2^-9.
  EXPECT_EQ(bits(1.0f + 0x1p-11f), 0x3c00);
  EXPECT_EQ(bits(1.0f + 0x1p-11f + 0x1p-23f), 0x3c01);
  EXPECT_EQ(bits(1.0f + 3 * 0x1p-11f), 0x3c02);
  // Subnormals are multiples of 2^-24.
  EXPECT_EQ(bits(0x1p-14f), 0x0400);
  EXPECT_EQ(bits(0x1p-15f), 0x0200);
  EXPECT_EQ(bits(0x1p-24f), 0x0001);
  EXPECT_EQ(bits(0x1p-25f), 0x0000);
  EXPECT_EQ(bits(-0x1p-25f), 0x8000);
  EXPECT_EQ(bits(0x1p-25f + 0x1p-40f), 0x0001);
  EXPECT_EQ(bits(3 * 0x1p-25f), 0x0002);
  EXPECT_EQ(bits(5 * 0x1p-25f), 0x0002);
  EXPECT_EQ(bits(1023.5f * 0x1p-24f), 0x0400);  // ties into the smallest normal
  EXPECT_EQ(bits(0x1p-149f), 0x0000);
}

TEST(DType, NanStaysNanAndIsQuiet) {
  // The second is a signalling NaN whose payload lies below what 16 bits keep.
  for (std::uint32_t pattern : {0x7fc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu}) {
    for (DType dtype : kTypes) {
      const std::uint16_t bits = to_bits16(dtype, from_bits(pattern));
      EXPECT_TRUE(std::isnan(from_bits16(dtype, bits))) << pattern;
      EXPECT_EQ(bits >> 15, pattern >> 31);
      EXPECT_NE(bits & (dtype == DType::kBF16 ? 0x40 : 0x200), 0);
    }
    EXPECT_TRUE(std::isnan(round_to(DType::kF32, from_bits(pattern))));
  }
}

// The value of finite 16-bit patterns from the definition of the formats.
double defined_value(DType dtype, int magnitude) {
  const int mantissa_bits = dtype == DType::kBF16 ? 7 : 10;
  const int bias = dtype == DType::kBF16 ? 127 : 15;
  const int exponent = magnitude >> mantissa_bits;
  const int mantissa = magnitude & ((1 << mantissa_bits) - 1);
  if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

TEST(DType, EveryPatternIsExactAndMidpointsTieToEven) {
  for (DType dtype : kTypes) {
    const int infinity = dtype == DType::kBF16 ? 0x7f80 : 0x7c00;
    for (int magnitude = 0; magnitude < infinity; ++magnitude) {
      const double value = defined_value(dtype, magnitude);
      for (int sign : {0, 0x8000}) {
        const auto bits = static_cast<std::uint16_t>(magnitude | sign);
        const double signed_value = sign ? -value : value;
        ASSERT_EQ(static_cast<double>(from_bits16(dtype, bits)), signed_value) << bits;
        ASSERT_EQ(to_bits16(dtype, static_cast<float>(signed_value)), bits);
      }
      // For the largest one the next "value" is where the next exponent would begin.
      const double next = magnitude + 1 < infinity
                              ? defined_value(dtype, magnitude + 1)
                              : std::ldexp(1.0, dtype == DType::kBF16 ? 128 : 16);
      const auto middle = static_cast<float>((value + next) / 2);
      ASSERT_EQ(static_cast<double>(middle), (value + next) / 2);
      const int even = magnitude % 2 == 0 ? magnitude : magnitude + 1;
      ASSERT_EQ(to_bits16(dtype, middle), even) << magnitude;
      ASSERT_EQ(to_bits16(dtype, std::nextafterf(middle, 0.0f)), magnitude);
      ASSERT_EQ(to_bits16(dtype, std::nextafterf(middle, kInf)), magnitude + 1);
      ASSERT_EQ(to_bits16(dtype, -middle), even | 0x8000);
    }
  }
}

TEST(DType, RoundToIsIdempotentAndExactInFp32) {
  for (float x : {0.1f, -1234.567f, 1e-7f, 3e38f, 0x1p-149f}) {
    EXPECT_EQ(round_to(DType::kF32, x), x);
    for (DType dtype : kTypes) {
      const float once = round_to(dtype, x);
      EXPECT_EQ(round_to(dtype, once), once);
    }
  }
  EXPECT_THROW(round_to(DType::kElem, 1.0f), InternalError);
}

TEST(Operators, TableIsConsistent) {
  EXPECT_EQ(info(OpKind::kMatmul).name, "matmul");
  EXPECT_EQ(info(OpKind::kMatmul).arity, 2);
  EXPECT_EQ(info(OpKind::kRsqrt).op_class, OpClass::kPointwise);
  EXPECT_TRUE(info(OpKind::kAdd).commutative);
  EXPECT_FALSE(info(OpKind::kSub).commutative);
  for (auto op = 0; op < static_cast<int>(OpKind::kAccumulated); ++op) {
    const OpInfo& row = info(static_cast<OpKind>(op));
    EXPECT_EQ(row.kind, static_cast<OpKind>(op));
    EXPECT_EQ(op_from_name(row.name), row.kind);
  }
  EXPECT_EQ(op_from_name("accumulated"), std::nullopt);
  EXPECT_THROW(info(OpKind::kAccumulated), InternalError);
}

}  // namespace
}  // namespace tenon::ir
