// Test data and references, computed on the device, independent of the kernels under test.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace gemm_bench {

template <class T>
__device__ inline double widen(T x);
template <>
__device__ inline double widen(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
template <>
__device__ inline double widen(__half x) {
  return __half2float(x);
}
template <class T>
__device__ inline T narrow(float x);
template <>
__device__ inline __nv_bfloat16 narrow(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half narrow(float x) {
  return __float2half_rn(x);
}

__device__ inline std::uint32_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  x ^= x >> 33;
  return static_cast<std::uint32_t>(x);
}

// About normal with the given standard deviation (four uniforms added).
template <class T>
__global__ void fill_normal(T* out, std::size_t count, float deviation, std::uint64_t seed) {
  for (std::size_t i = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x; i < count;
       i += std::size_t(gridDim.x) * blockDim.x) {
    const std::uint32_t a = mix(2 * i + seed * 0x9e3779b97f4a7c15ull);
    const std::uint32_t b = mix(2 * i + 1 + seed * 0x9e3779b97f4a7c15ull);
    const float sum = (a & 0xffff) + (a >> 16) + (b & 0xffff) + (b >> 16);
    out[i] = narrow<T>((sum / 65536.f - 2.f) * 1.7320508f * deviation);
  }
}

// W [n, k] into tile order: tiles of `tile_n` rows x 64 columns, all k steps of one row block after
// another; a row's 16-byte words at (word ^ row % 8). Zero outside. Grid covers the packed words.
template <class T>
__global__ void pack_weights(uint4* packed, const T* w, int n, int k, int tile_n,
                             std::size_t words) {
  const int k_steps = (k + 63) / 64;
  for (std::size_t i = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x; i < words;
       i += std::size_t(gridDim.x) * blockDim.x) {
    const int slot = i % 8, row = i / 8 % tile_n;
    const std::size_t tile = i / 8 / tile_n;
    const int step = tile % k_steps;
    const std::size_t source_row = tile / k_steps * tile_n + row;
    T values[8];
    for (int j = 0; j < 8; ++j) {
      const int column = step * 64 + (slot ^ (row % 8)) * 8 + j;
      values[j] = source_row < n && column < k ? w[source_row * k + column] : narrow<T>(0);
    }
    packed[i] = *reinterpret_cast<uint4*>(values);
  }
}

// Per row, in double: sum x, sum x^2. One block a row.
template <class T>
__global__ void row_moments(const T* x, int k, double* out) {
  double s = 0, q = 0;
  for (int i = threadIdx.x; i < k; i += blockDim.x) {
    const double v = widen(x[std::size_t(blockIdx.x) * k + i]);
    s += v, q += v * v;
  }
  __shared__ double shared[2][256];
  shared[0][threadIdx.x] = s, shared[1][threadIdx.x] = q;
  __syncthreads();
  for (int d = blockDim.x / 2; d > 0; d /= 2) {
    if (threadIdx.x < d) {
      shared[0][threadIdx.x] += shared[0][threadIdx.x + d];
      shared[1][threadIdx.x] += shared[1][threadIdx.x + d];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) out[2 * blockIdx.x] = shared[0][0], out[2 * blockIdx.x + 1] = shared[1][0];
}

// The external array a schedule with stats=ext reads: [m, count].
__global__ void external_sums(const double* moments, int m, int count, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m) return;
  if (count == 1)
    out[i] = moments[2 * i + 1];
  else
    out[2 * i] = moments[2 * i], out[2 * i + 1] = moments[2 * i + 1];
}

// The bare product in double, for small problems: out[m, n].
template <class T>
__global__ void product64(const T* x, const T* w, int m, int n, int k, double* out) {
  const std::size_t i = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x;
  if (i >= std::size_t(m) * n) return;
  const T* a = x + i / n * k;
  const T* b = w + i % n * k;
  double s = 0;
  for (int j = 0; j < k; ++j) s += widen(a[j]) * widen(b[j]);
  out[i] = s;
}

enum class Form { kBare, kRms, kLayer };

// One block a row of Y against the product `p` (float or double) and the row's moments.
// out[3 row] = |y - ref|^2, [1] = |ref|^2, [2] = largest |y - ref| / max(|ref|, |ref|_2 / sqrt n),
// infinite when an element is NaN.
template <class T, class Product>
__global__ void compare(const T* y, const Product* p, const double* moments, int n, int k,
                        Form form, double epsilon, const float* column_sums, const float* bias,
                        double* out) {
  const int row = blockIdx.x;
  const double mean = moments[2 * row] / k, square = moments[2 * row + 1] / k;
  const double scale = form == Form::kBare  ? 1
                       : form == Form::kRms ? rsqrt(square + epsilon)
                                            : rsqrt(square - mean * mean + epsilon);
  auto reference = [&](int c) {
    const double v = p[std::size_t(row) * n + c];
    return form == Form::kLayer ? (v - mean * column_sums[c]) * scale + bias[c] : v * scale;
  };
  __shared__ double shared[256];
  auto reduce = [&](double v, bool largest) {
    shared[threadIdx.x] = v;
    __syncthreads();
    for (int d = blockDim.x / 2; d > 0; d /= 2) {
      if (threadIdx.x < d) {
        const double o = shared[threadIdx.x + d];
        shared[threadIdx.x] = largest ? fmax(shared[threadIdx.x], o) : shared[threadIdx.x] + o;
      }
      __syncthreads();
    }
    const double total = shared[0];
    __syncthreads();
    return total;
  };
  double e = 0, r = 0;
  for (int c = threadIdx.x; c < n; c += blockDim.x) {
    const double ref = reference(c), got = widen(y[std::size_t(row) * n + c]);
    e += (got - ref) * (got - ref);
    r += ref * ref;
  }
  e = reduce(e, false), r = reduce(r, false);
  double worst = 0;
  for (int c = threadIdx.x; c < n; c += blockDim.x) {
    const double ref = reference(c), got = widen(y[std::size_t(row) * n + c]);
    const double d = fabs(got - ref) / fmax(fabs(ref), sqrt(r / n));
    worst = fmax(worst, d <= 1e30 ? d : 1e300);  // NaN counts as infinite
  }
  worst = reduce(worst, true);
  if (threadIdx.x == 0) {
    out[3 * row] = e <= 1e300 ? e : 1e300;
    out[3 * row + 1] = r;
    out[3 * row + 2] = worst;
  }
}

// Counts words that differ.
__global__ void count_different(const std::uint32_t* a, const std::uint32_t* b, std::size_t words,
                                unsigned* count) {
  unsigned mine = 0;
  for (std::size_t i = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x; i < words;
       i += std::size_t(gridDim.x) * blockDim.x) {
    mine += a[i] != b[i];
  }
  if (mine) atomicAdd(count, mine);
}

}  // namespace gemm_bench
