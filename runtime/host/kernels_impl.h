// Body of the kernels_<instruction set>.cpp files; each is compiled with its own flags. All
// is in an unnamed namespace and uses nothing of the standard library, so that no inline
// function compiled for one processor can be linked into code for another.
#pragma once

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "runtime/host/functions_impl.h"
#include "runtime/host/kernels.h"

namespace tenon::runtime::host {
namespace {

using ir::DType;
using ir::OpKind;

constexpr int kLanes = TENON_LANES;   // floats of a vector
constexpr int kRowsMax = TENON_ROWS;  // rows of a register block: rows × 2 vectors of sums
constexpr int kPanel = 2 * kLanes;    // columns of a packed panel

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef float VecAt __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef std::uint32_t VecU __attribute__((vector_size(kLanes * 4)));
typedef std::uint16_t HalfAt __attribute__((vector_size(kLanes * 2), aligned(2), may_alias));

struct BF16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};

// Scalar conversions without branches, so that loops over them vectorize.
inline float to_float(float x) { return x; }
inline float to_float(BF16 x) { return as_float(static_cast<std::uint32_t>(x.bits) << 16); }
inline float to_float(F16 x) {
  std::uint32_t magnitude = (x.bits & 0x7fffu) << 13;
  std::uint32_t sign = (x.bits & 0x8000u) << 16;
  // Scaling by 2^112 moves the exponent bias and normalizes subnormals exactly.
  std::uint32_t finite = as_bits(as_float(magnitude) * as_float(0x77800000u));
  std::uint32_t special = magnitude | 0x7f800000u;
  return as_float(sign | (magnitude >= 0x0f800000u ? special : finite));
}
inline BF16 to_bf16(float x) {
  std::uint32_t b = as_bits(x);
  std::uint32_t rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
  std::uint32_t quiet = (b >> 16) | 0x40u;
  return {static_cast<std::uint16_t>((b & 0x7fffffffu) > 0x7f800000u ? quiet : rounded)};
}
inline F16 to_f16(float x) {
  std::uint32_t b = as_bits(x);
  std::uint32_t sign = (b >> 16) & 0x8000u;
  std::uint32_t a = b & 0x7fffffffu;
  // Below 2^-14 the addition of 0.5 leaves the subnormal's bits, rounded, at the bottom.
  std::uint32_t subnormal = as_bits(as_float(a) + 0.5f) - 0x3f000000u;
  std::uint32_t normal = (a + 0xc8000fffu + ((a >> 13) & 1u)) >> 13;
  std::uint32_t special = a > 0x7f800000u ? 0x7e00u : 0x7c00u;
  std::uint32_t magnitude = a < 0x38800000u ? subnormal : normal;
  magnitude = a >= 0x47800000u ? special : magnitude;
  return {static_cast<std::uint16_t>(sign | magnitude)};
}

// One vector of a stored type as floats.
inline Vec load_vec(const float* p) { return *reinterpret_cast<const VecAt*>(p); }
inline Vec load_vec(const BF16* p) {
  HalfAt h = *reinterpret_cast<const HalfAt*>(p);
  VecU wide = __builtin_convertvector(h, VecU) << 16;
  return __builtin_bit_cast(Vec, wide);
}
inline Vec load_vec(const F16* p) {
#if defined(__AVX512F__)
  return __builtin_bit_cast(
      Vec, _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
#elif defined(__F16C__)
  return __builtin_bit_cast(Vec,
                            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#else
  Vec v;
  for (int i = 0; i < kLanes; ++i) v[i] = to_float(p[i]);
  return v;
#endif
}
inline void store_vec(float* p, Vec v) { *reinterpret_cast<VecAt*>(p) = v; }

template <class T>
void load_strip(float* __restrict to, const T* __restrict from, std::int64_t stride,
                std::int64_t n) {
  if (stride == 1) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store_vec(to + i, load_vec(from + i));
    for (; i < n; ++i) to[i] = to_float(from[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = to_float(from[i * stride]);
  }
}

void load(float* to, const void* from, DType type, std::int64_t stride, std::int64_t n) {
  if (type == DType::kBF16)
    load_strip(to, static_cast<const BF16*>(from), stride, n);
  else if (type == DType::kF16)
    load_strip(to, static_cast<const F16*>(from), stride, n);
  else
    load_strip(to, static_cast<const float*>(from), stride, n);
}

void store(void* to, DType type, std::int64_t stride, const float* from, std::int64_t n) {
  if (type == DType::kBF16) {
    BF16* p = static_cast<BF16*>(to);
    if (stride == 1)
      for (std::int64_t i = 0; i < n; ++i) p[i] = to_bf16(from[i]);
    else
      for (std::int64_t i = 0; i < n; ++i) p[i * stride] = to_bf16(from[i]);
  } else if (type == DType::kF16) {
    F16* p = static_cast<F16*>(to);
    if (stride == 1)
      for (std::int64_t i = 0; i < n; ++i) p[i] = to_f16(from[i]);
    else
      for (std::int64_t i = 0; i < n; ++i) p[i * stride] = to_f16(from[i]);
  } else {
    float* p = static_cast<float*>(to);
    if (stride == 1)
      for (std::int64_t i = 0; i < n; ++i) p[i] = from[i];
    else
      for (std::int64_t i = 0; i < n; ++i) p[i * stride] = from[i];
  }
}

void round(float* to, const float* from, DType type, std::int64_t n) {
  if (type == DType::kBF16)
    for (std::int64_t i = 0; i < n; ++i) to[i] = to_float(to_bf16(from[i]));
  else if (type == DType::kF16)
    for (std::int64_t i = 0; i < n; ++i) to[i] = to_float(to_f16(from[i]));
  else if (to != from)
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
}

template <class F>
inline void map(float* to, const float* a, std::int64_t n, F f) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = f(a[i]);
}

bool unary(OpKind op, float* to, const float* a, std::int64_t n) {
  switch (op) {
    case OpKind::kSquare:
      map(to, a, n, [](float x) { return x * x; });
      return true;
    case OpKind::kSqrt:
      map(to, a, n, [](float x) { return __builtin_sqrtf(x); });
      return true;
    case OpKind::kRsqrt:
      map(to, a, n, [](float x) { return 1.0f / __builtin_sqrtf(x); });
      return true;
    case OpKind::kExp:
      map(to, a, n, [](float x) { return exp_of(x, 0); });
      return true;
    case OpKind::kTanh:
      map(to, a, n, tanh_of);
      return true;
    case OpKind::kErf:
      map(to, a, n, erf_of);
      return true;
    case OpKind::kSigmoid:
      map(to, a, n, [](float x) { return 1.0f / (1.0f + exp_of(-x, 0)); });
      return true;
    case OpKind::kSilu:
      map(to, a, n, [](float x) { return x / (1.0f + exp_of(-x, 0)); });
      return true;
    case OpKind::kGelu:
      map(to, a, n, gelu_of);
      return true;
    case OpKind::kGeluTanh:
      map(to, a, n, [](float x) {
        return x / (1.0f + exp_of(-1.59576912f * (x + 0.044715f * x * x * x), 0));
      });
      return true;
    default:
      return false;
  }
}

template <class F>
inline void map(float* to, const float* a, bool a_scalar, const float* b, bool b_scalar,
                std::int64_t n, F f) {
  const float a0 = a[0];
  const float b0 = b[0];
  if (a_scalar && b_scalar)
    for (std::int64_t i = 0; i < n; ++i) to[i] = f(a0, b0);
  else if (a_scalar)
    for (std::int64_t i = 0; i < n; ++i) to[i] = f(a0, b[i]);
  else if (b_scalar)
    for (std::int64_t i = 0; i < n; ++i) to[i] = f(a[i], b0);
  else
    for (std::int64_t i = 0; i < n; ++i) to[i] = f(a[i], b[i]);
}

bool binary(OpKind op, float* to, const float* a, bool a_scalar, const float* b, bool b_scalar,
            std::int64_t n) {
  switch (op) {
    case OpKind::kAdd:
      map(to, a, a_scalar, b, b_scalar, n, [](float x, float y) { return x + y; });
      return true;
    case OpKind::kSub:
      map(to, a, a_scalar, b, b_scalar, n, [](float x, float y) { return x - y; });
      return true;
    case OpKind::kMul:
      map(to, a, a_scalar, b, b_scalar, n, [](float x, float y) { return x * y; });
      return true;
    case OpKind::kDiv:
      map(to, a, a_scalar, b, b_scalar, n, [](float x, float y) { return x / y; });
      return true;
    default:
      return false;
  }
}

float sum(const float* from, std::int64_t n) {
  Vec s0 = {}, s1 = {};
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    s0 += load_vec(from + i);
    s1 += load_vec(from + i + kLanes);
  }
  s0 += s1;
  float total = 0;
  for (int lane = 0; lane < kLanes; ++lane) total += s0[lane];
  for (; i < n; ++i) total += from[i];
  return total;
}

void accumulate(float* __restrict to, std::int64_t stride, const float* __restrict from,
                std::int64_t n) {
  if (stride == 1)
    for (std::int64_t i = 0; i < n; ++i) to[i] += from[i];
  else
    for (std::int64_t i = 0; i < n; ++i) to[i * stride] += from[i];
}

// The register block: c[Rows, Vecs·lanes] += a[Rows, k] · b[k, Vecs·lanes].
template <int Rows, int Vecs, class B>
void block(std::int64_t k, const float* a, std::int64_t lda, const B* b, std::int64_t ldb, float* c,
           std::int64_t ldc) {
  Vec sums[Rows][Vecs] = {};
  for (std::int64_t p = 0; p < k; ++p) {
    Vec row[Vecs];
#pragma GCC unroll 16
    for (int j = 0; j < Vecs; ++j) row[j] = load_vec(b + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const float x = a[i * lda + p];
#pragma GCC unroll 16
      for (int j = 0; j < Vecs; ++j) sums[i][j] += x * row[j];
    }
    b += ldb;
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 16
    for (int j = 0; j < Vecs; ++j) {
      float* at = c + i * ldc + j * kLanes;
      store_vec(at, load_vec(at) + sums[i][j]);
    }
}

template <class B>
using Block = void (*)(std::int64_t, const float*, std::int64_t, const B*, std::int64_t, float*,
                       std::int64_t);

template <int Vecs, class B>
Block<B> block_of(int rows) {
  switch (rows) {
    case 1:
      return block<1, Vecs, B>;
    case 2:
      return block<2, Vecs, B>;
    case 3:
      return block<3, Vecs, B>;
    case 4:
      return block<4, Vecs, B>;
#if TENON_ROWS >= 6
    case 5:
      return block<5, Vecs, B>;
    case 6:
      return block<6, Vecs, B>;
#endif
#if TENON_ROWS >= 12
    case 7:
      return block<7, Vecs, B>;
    case 8:
      return block<8, Vecs, B>;
    case 9:
      return block<9, Vecs, B>;
    case 10:
      return block<10, Vecs, B>;
    case 11:
      return block<11, Vecs, B>;
    default:
      return block<12, Vecs, B>;
#else
    default:
      return block<kRowsMax, Vecs, B>;
#endif
  }
}

// Rows are cut into register blocks of nearly equal height.
struct RowCut {
  std::int64_t blocks;
  explicit RowCut(std::int64_t m) : blocks((m + kRowsMax - 1) / kRowsMax), m_(m) {}
  std::int64_t begin(std::int64_t i) const { return i * m_ / blocks; }
  int size(std::int64_t i) const { return static_cast<int>(begin(i + 1) - begin(i)); }

 private:
  std::int64_t m_;
};

// All rows times one panel of b with Vecs vectors of columns.
template <int Vecs, class B>
void rows_times_panel(std::int64_t m, std::int64_t k, const float* a, std::int64_t lda, const B* b,
                      std::int64_t ldb, float* c, std::int64_t ldc) {
  RowCut cut(m);
  for (std::int64_t i = 0; i < cut.blocks; ++i)
    block_of<Vecs, B>(cut.size(i))(k, a + cut.begin(i) * lda, lda, b, ldb, c + cut.begin(i) * ldc,
                                   ldc);
}

// The last columns, fewer than a panel: through zero-padded copies of b and c.
void rows_times_tail(std::int64_t m, std::int64_t k, const float* a, std::int64_t lda,
                     const float* panel, float* c, std::int64_t ldc, std::int64_t columns,
                     float* spare) {
  RowCut cut(m);
  for (std::int64_t i = 0; i < cut.blocks; ++i) {
    const int rows = cut.size(i);
    for (int e = 0; e < rows * kPanel; ++e) spare[e] = 0;
    block_of<2, float>(rows)(k, a + cut.begin(i) * lda, lda, panel, kPanel, spare, kPanel);
    for (int r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < columns; ++j)
        c[(cut.begin(i) + r) * ldc + j] += spare[r * kPanel + j];
  }
}

// Rows [k0, k0 + k) × columns [n0, n0 + n) of b as fp32 rows of kPanel columns, zero-padded.
template <class B>
void pack_panel(float* __restrict to, const B* from, std::int64_t row, std::int64_t column,
                std::int64_t k, std::int64_t n) {
  if (column == 1) {
    if (n == kPanel) {
      for (std::int64_t p = 0; p < k; ++p) {
        store_vec(to + p * kPanel, load_vec(from + p * row));
        store_vec(to + p * kPanel + kLanes, load_vec(from + p * row + kLanes));
      }
      return;
    }
    for (std::int64_t p = 0; p < k; ++p) {
      for (std::int64_t j = 0; j < n; ++j) to[p * kPanel + j] = to_float(from[p * row + j]);
      for (std::int64_t j = n; j < kPanel; ++j) to[p * kPanel + j] = 0;
    }
    return;
  }
  // Columns far apart: read along k, where b is usually contiguous.
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t p = 0; p < k; ++p) to[p * kPanel + j] = to_float(from[p * row + j * column]);
  for (std::int64_t j = n; j < kPanel; ++j)
    for (std::int64_t p = 0; p < k; ++p) to[p * kPanel + j] = 0;
}

// One block of depth k: a is fp32 with adjacent columns.
template <class B>
void depth_block(const Product& p, std::int64_t k, const float* a, std::int64_t lda, const B* b,
                 float* panel, float* spare) {
  // With few rows a panel is read once or twice: packing it would cost more than it saves.
  const bool direct = p.b_column == 1 && p.m <= 2 * kRowsMax;
  std::int64_t j = 0;
  if (direct) {
    if (p.m == 1)
      for (; j + 8 * kLanes <= p.n; j += 8 * kLanes)
        block<1, 8, B>(k, a, lda, b + j, p.b_row, p.c + j, p.c_row);
    if (p.m <= 3 && kLanes == 16)  // enough registers for 3 × 4 vectors
      for (; j + 4 * kLanes <= p.n; j += 4 * kLanes)
        rows_times_panel<4, B>(p.m, k, a, lda, b + j, p.b_row, p.c + j, p.c_row);
    for (; j + kPanel <= p.n; j += kPanel)
      rows_times_panel<2, B>(p.m, k, a, lda, b + j, p.b_row, p.c + j, p.c_row);
  } else {
    for (; j + kPanel <= p.n; j += kPanel) {
      pack_panel(panel, b + j * p.b_column, p.b_row, p.b_column, k, kPanel);
      rows_times_panel<2, float>(p.m, k, a, lda, panel, kPanel, p.c + j, p.c_row);
    }
  }
  if (j < p.n) {
    pack_panel(panel, b + j * p.b_column, p.b_row, p.b_column, k, p.n - j);
    rows_times_tail(p.m, k, a, lda, panel, p.c + j, p.c_row, p.n - j, spare);
  }
}

inline std::int64_t bytes_of(DType type) { return type == DType::kF32 ? 4 : 2; }

void product(const Product& p) {
  float* panel = p.scratch;
  float* spare = panel + kPanel * kDepth;
  float* copy = spare + kRowsMax * kPanel;
  for (std::int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
    const std::int64_t k = p.k - k0 < kDepth ? p.k - k0 : kDepth;
    const char* from = static_cast<const char*>(p.a) + k0 * p.a_column * bytes_of(p.a_type);
    const float* a = reinterpret_cast<const float*>(from);
    std::int64_t lda = p.a_row;
    if (p.a_type != DType::kF32 || p.a_column != 1) {
      lda = kDepth + 16;  // not a power of two: rows fall into different cache sets
      for (std::int64_t i = 0; i < p.m; ++i)
        load(copy + i * lda, from + i * p.a_row * bytes_of(p.a_type), p.a_type, p.a_column, k);
      a = copy;
    }
    if (p.b_type == DType::kBF16)
      depth_block(p, k, a, lda, static_cast<const BF16*>(p.b) + k0 * p.b_row, panel, spare);
    else if (p.b_type == DType::kF16)
      depth_block(p, k, a, lda, static_cast<const F16*>(p.b) + k0 * p.b_row, panel, spare);
    else
      depth_block(p, k, a, lda, static_cast<const float*>(p.b) + k0 * p.b_row, panel, spare);
  }
}

}  // namespace

const Kernels& TENON_KERNELS();
const Kernels& TENON_KERNELS() {
  static constexpr Kernels set{TENON_KERNELS_NAME, load,   store, round, unary, binary, sum,
                               accumulate,         product};
  return set;
}

}  // namespace tenon::runtime::host
