// The vectorized inner loops of the host engine, built once per instruction set and
// chosen at run time. Everything else in runtime/host is portable C++.
#pragma once

#include <cstdint>

#include "ir/dtype.h"
#include "ir/op.h"

namespace tenon::runtime::host {

// c[m, n] += a[m, k] · b[k, n] over fp32, whatever a and b are stored in.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  ir::DType a_type = ir::DType::kF32;
  std::int64_t a_row = 0, a_column = 1;  // strides in elements
  const void* b = nullptr;
  ir::DType b_type = ir::DType::kF32;
  std::int64_t b_row = 0, b_column = 1;
  float* c = nullptr;
  std::int64_t c_row = 0;    // columns of c are adjacent
  float* scratch = nullptr;  // at least product_scratch(m) floats
};

// Elements in one strip of a pointwise chain: a few strips fit into the first-level cache.
inline constexpr std::int64_t kStrip = 256;
// Depth of one block of a product: a packed panel of b stays in the first-level cache.
inline constexpr std::int64_t kDepth = 256;

// Floats of scratch that a product of `m` rows needs, for every instruction set.
constexpr std::int64_t product_scratch(std::int64_t m) {
  constexpr std::int64_t widest_panel = 128;
  return m * (kDepth + 16) + widest_panel * kDepth + 16 * widest_panel + 64;
}

// Functions over strips of n <= kStrip floats; `to` may be an operand.
struct Kernels {
  const char* name;  // "avx512", "avx2", "baseline"
  // n elements `stride` apart of a stored type, as floats.
  void (*load)(float* to, const void* from, ir::DType type, std::int64_t stride, std::int64_t n);
  // Rounds to nearest even while storing.
  void (*store)(void* to, ir::DType type, std::int64_t stride, const float* from, std::int64_t n);
  // The value of `type` nearest to each element.
  void (*round)(float* to, const float* from, ir::DType type, std::int64_t n);
  // False for an operator that these kernels do not know (nothing is written).
  bool (*unary)(ir::OpKind op, float* to, const float* a, std::int64_t n);
  // An operand that is one scalar is marked so.
  bool (*binary)(ir::OpKind op, float* to, const float* a, bool a_scalar, const float* b,
                 bool b_scalar, std::int64_t n);
  float (*sum)(const float* from, std::int64_t n);
  void (*accumulate)(float* to, std::int64_t stride, const float* from, std::int64_t n);
  void (*product)(const Product& p);
};

// The best set that this processor runs.
const Kernels& kernels();

// Every set that this processor runs, best first, at most `capacity`; returns how many.
int available_kernels(const Kernels** out, int capacity);

}  // namespace tenon::runtime::host
