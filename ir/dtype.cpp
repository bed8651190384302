#include "ir/dtype.h"

#include <bit>
#include <cmath>

#include "ir/error.h"

namespace tenon::ir {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
};
constexpr Row kRows[] = {
    {DType::kElem, "T"}, {DType::kF32, "fp32"}, {DType::kBF16, "bf16"}, {DType::kF16, "fp16"}};

// `mantissa` shifted right by `shift` bits (1 to 31), rounded to nearest, ties to even.
std::uint32_t shift_round(std::uint32_t mantissa, int shift) {
  const std::uint32_t kept = mantissa >> shift;
  const std::uint32_t dropped = mantissa & ((1u << shift) - 1);
  const std::uint32_t half = 1u << (shift - 1);
  return kept + (dropped > half || (dropped == half && (kept & 1u)) ? 1u : 0u);
}

std::uint16_t bf16_bits(std::uint32_t bits) {
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  if (is_nan) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);  // quiet, sign kept
  // bf16 is the upper half of fp32, subnormals too; a carry out of the mantissa steps
  // the exponent, up to infinity.
  return static_cast<std::uint16_t>(shift_round(bits, 16));
}

std::uint16_t fp16_bits(std::uint32_t bits) {
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: quiet, with what fits of the payload
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  }
  if (magnitude == 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  if (exponent > 15) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (exponent < -25) return static_cast<std::uint16_t>(sign);  // below half the smallest subnormal
  std::uint32_t rounded = 0;
  if (exponent >= -14) {
    // Rebias by 127 - 15 = 112; a carry steps the exponent, up to infinity (0x7c00).
    rounded = shift_round(magnitude - (112u << 23), 13);
  } else {
    // Subnormal: units of 2^-24. The significand holds 24 bits with weight 2^(exponent-23).
    const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    rounded = shift_round(significand, -exponent - 1);
  }
  return static_cast<std::uint16_t>(sign | rounded);
}

float fp16_value(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  }
  const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  return sign != 0 ? -magnitude : magnitude;
}

}  // namespace

std::string_view name(DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row.name;
  }
  TENON_CHECK(false, "a dtype outside the enum");
  return {};
}

std::optional<DType> dtype_from_name(std::string_view text) {
  for (const Row& row : kRows) {
    if (row.name == text) return row.dtype;
  }
  return std::nullopt;
}

std::size_t size_of(DType dtype) {
  TENON_CHECK(dtype != DType::kElem, "the size of T is known only once it is bound");
  return dtype == DType::kF32 ? 4 : 2;
}

float round_to(DType dtype, float x) {
  TENON_CHECK(dtype != DType::kElem, "T must be bound before rounding to it");
  return dtype == DType::kF32 ? x : from_bits16(dtype, to_bits16(dtype, x));
}

std::uint16_t to_bits16(DType dtype, float x) {
  TENON_CHECK(dtype == DType::kBF16 || dtype == DType::kF16, "not a 16-bit type");
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return dtype == DType::kBF16 ? bf16_bits(bits) : fp16_bits(bits);
}

float from_bits16(DType dtype, std::uint16_t bits) {
  TENON_CHECK(dtype == DType::kBF16 || dtype == DType::kF16, "not a 16-bit type");
  if (dtype == DType::kBF16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
  return fp16_value(bits);
}

double unit_roundoff(DType dtype) {
  TENON_CHECK(dtype != DType::kElem, "T must be bound before its unit is known");
  switch (dtype) {
    case DType::kBF16:
      return 0x1p-9;
    case DType::kF16:
      return 0x1p-12;
    default:
      return 0x1p-18;
  }
}

}  // namespace tenon::ir
