// exp, tanh, erf and x·Φ(x) in fp32, branch-free so that loops over them vectorize. A part of
// kernels_impl.h, under its rules. Polynomials are Chebyshev fits (mpmath's chebyfit, 40
// digits); a few units in the last place over all of fp32, NaN for NaN.
#pragma once

#include <cstdint>

namespace tenon::runtime::host {
namespace {

inline float as_float(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline std::uint32_t as_bits(float x) { return __builtin_bit_cast(std::uint32_t, x); }

// exp(a + b) for |b| <= 0.12 (b: what was lost in rounding a). Cody and Waite 1980.
inline float exp_of(float a, float b) {
  a = a > 89.0f ? 89.0f : a;
  a = a < -104.0f ? -104.0f : a;
  // Adding 1.5·2^23 rounds to the nearest integer.
  const float n = (a * 1.44269504f + 12582912.0f) - 12582912.0f;
  const float r = ((a - n * 0.693359375f) + n * 2.12194440e-4f) + b;
  float q = 0.0001993278761f;
  q = q * r + 0.001397129626f;
  q = q * r + 0.008333257474f;
  q = q * r + 0.04166598349f;
  q = q * r + 0.1666666676f;
  q = q * r + 0.5000000084f;
  const float p = (q * r * r + r) + 1.0f;
  // 2^n in two factors: neither overflows, and a subnormal result is rounded once. A NaN's n is
  // replaced, since its conversion to an integer is not defined.
  const float finite = n == n ? n : 0.0f;
  const std::int32_t i = static_cast<std::int32_t>(finite), half = i >> 1;
  const float low = as_float(static_cast<std::uint32_t>(half + 127) << 23);
  const float high = as_float(static_cast<std::uint32_t>(i - half + 127) << 23);
  return p * low * high;
}

// exp(-z²·scale) with the square's rounding error carried along; scale is 1 or 1/2.
inline float gauss(float z, float scale) {
  z = z > 15.0f ? 15.0f : z;
  const float top = as_float(as_bits(z) & 0xfffff000u);  // its square is exact
  return exp_of(-scale * top * top, -scale * (z - top) * (z + top));
}

// exp(z²)·erfc(z) for 0 <= z <= 10.3, as t·P(t) with t = 1/(1 + z/2).
inline float scaled_erfc(float z) {
  const float t = 1.0f / (1.0f + 0.5f * z);
  float q = 0.03348503954f;
  q = q * t - 0.1781564192f;
  q = q * t + 0.3497658843f;
  q = q * t - 0.2450944269f;
  q = q * t - 0.06143911873f;
  q = q * t + 0.05841970419f;
  q = q * t + 0.04598498994f;
  q = q * t + 0.1878357396f;
  q = q * t + 0.2448280281f;
  q = q * t + 0.2822832077f;
  q = q * t + 0.2820873736f;
  return q * t;
}

inline float magnitude(float x) { return as_float(as_bits(x) & 0x7fffffffu); }
inline float with_sign(float m, float x) {
  return as_float(as_bits(m) | (as_bits(x) & 0x80000000u));
}

inline float tanh_of(float x) {
  const float m = magnitude(x), s = m * m;
  float q = -0.006045165097f;
  q = q * s + 0.02096132911f;
  q = q * s - 0.05384326318f;
  q = q * s + 0.1333271885f;
  q = q * s - 0.3333332843f;
  const float small = m + m * s * q;
  const float large = 1.0f - 2.0f / (exp_of(2.0f * m, 0) + 1.0f);
  return with_sign(m < 0.625f ? small : large, x);
}

inline float erf_of(float x) {
  const float m = magnitude(x), s = m * m;
  float q = -9.667044571e-6f;
  q = q * s + 0.0001126595903f;
  q = q * s - 0.0008484080406f;
  q = q * s + 0.005221031808f;
  q = q * s - 0.02686543073f;
  q = q * s + 0.112837825f;
  q = q * s - 0.3761263847f;
  q = q * s + 1.128379167f;
  const float large = 1.0f - gauss(m, 1.0f) * scaled_erfc(m);
  return with_sign(m < 1.0f ? m * q : large, x);
}

// x·Φ(x); for negative x the tail itself, not 1 minus what is nearly 1.
inline float gelu_of(float x) {
  const float m = magnitude(x);
  const float tail = 0.5f * gauss(m, 0.5f) * scaled_erfc(m * 0.707106781f);
  return x * (x < 0.0f ? tail : 1.0f - tail);
}

}  // namespace
}  // namespace tenon::runtime::host
