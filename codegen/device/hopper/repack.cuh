// Weights in the order in which a kernel streams them, made once when they are loaded.
#pragma once

#include "device/small_m/packing.cuh"

namespace tenon::device::hopper {

// Where element (n, k) of the repacked weights lies. `k_padded` is a multiple of 64.
struct PackedLayout {  // small_m/packing.cuh
  static constexpr int kRowMultiple = small_m::kTileRows;
  static __device__ __forceinline__ long long index(int n, int k, int k_padded) {
    return small_m::packed_index(n, k, k_padded);
  }
};
struct RowLayout {  // [n][k_padded]
  static constexpr int kRowMultiple = 1;
  static __device__ __forceinline__ long long index(int n, int k, int k_padded) {
    return static_cast<long long>(n) * k_padded + k;
  }
};

// out[index(n, k)] = w[n · stride_n + k · stride_k], zero past N and K. Any grid of 256 threads.
template <class Layout>
__device__ __forceinline__ void repack(const unsigned short* w, unsigned short* out, int n, int k,
                                       long long stride_n, long long stride_k) {
  const int k_padded = (k + 63) / 64 * 64;
  const int rows = (n + Layout::kRowMultiple - 1) / Layout::kRowMultiple * Layout::kRowMultiple;
  // Through a tile in shared memory, so that both sides move whole sectors whichever of them
  // runs along n.
  constexpr int kTile = 32;
  __shared__ unsigned short tile[kTile][kTile + 2];
  const int tiles_k = k_padded / kTile, tiles_n = (rows + kTile - 1) / kTile;
  const int lane = threadIdx.x % kTile, first = threadIdx.x / kTile;
  for (long long t = blockIdx.x; t < static_cast<long long>(tiles_k) * tiles_n; t += gridDim.x) {
    const int n0 = static_cast<int>(t / tiles_k) * kTile,
              k0 = static_cast<int>(t % tiles_k) * kTile;
    for (int i = first; i < kTile; i += blockDim.x / kTile) {
      const int row = n0 + (stride_n == 1 ? lane : i), column = k0 + (stride_n == 1 ? i : lane);
      const bool exists = row < n && column < k;
      tile[row - n0][column - k0] =
          exists ? w[row * stride_n + column * stride_k] : static_cast<unsigned short>(0);
    }
    __syncthreads();
    for (int i = first; i < kTile; i += blockDim.x / kTile)
      if (n0 + i < rows) out[Layout::index(n0 + i, k0 + lane, k_padded)] = tile[i][lane];
    __syncthreads();
  }
}

}  // namespace tenon::device::hopper
