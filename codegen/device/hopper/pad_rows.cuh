// Rows of X where the copy engines can read them: a copy whose rows begin every `to_stride`
// elements, a multiple of 8, with zeros after the last column.
#pragma once

#include "device/hopper/shifted_load.cuh"
#include "device/ptx/pdl.cuh"

namespace tenon::device::hopper {

// Any grid. `x` may lie at any multiple of 2 bytes.
template <bool kDependent>
__device__ __forceinline__ void pad_rows(const unsigned short* x, unsigned short* out, int m, int k,
                                         long long from_stride, int to_stride) {
  if constexpr (kDependent) {
    launch_dependents();
    dependency_wait();
  }
  const char* begin = reinterpret_cast<const char*>(x);
  const char* end = begin + ((m - 1) * from_stride + k) * 2;
  const int words = to_stride / 8;
  const long long all = static_cast<long long>(m) * words;
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < all;
       i += threads) {
    const int row = static_cast<int>(i / words), column = static_cast<int>(i % words) * 8;
    reinterpret_cast<uint4*>(out)[i] =
        load_shifted(begin + (row * from_stride + column) * 2, k - column, begin, end);
  }
}

}  // namespace tenon::device::hopper
