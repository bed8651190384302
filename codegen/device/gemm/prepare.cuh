// The weights as the product wants them, made once when they are loaded: W'[n, k] = fold(W[n, k]).
//
// Row-major: [n][k_stride], k_stride a multiple of 64, zero past k; read through a tensor map.
// Packed: tile after tile in the order a block reads them, [row / kTileN][k / 64][kTileN][64], rows
// padded with zeros to whole cluster tiles, k to a multiple of 64; inside a tile the 16-byte words
// of a row are at (word ^ row % 8), which is the tensor core's 128-byte swizzle, so that a flat
// copy of a tile is all a block needs.
//
//   struct Fold { struct Args; static __device__ float apply(const Args&, float w, int n, int k);
//   };
#pragma once

#include "device/gemm/element.cuh"

namespace tenon::device::gemm {

template <class T>
struct WeightSource {
  const T* w;
  long long stride_n, stride_k;  // elements: [n, k] has (k, 1), [k, n] has (1, n)
  int n, k;
};

template <class T, class Fold>
__device__ __forceinline__ float folded_weight(const WeightSource<T>& source,
                                               const typename Fold::Args& arguments, int n, int k) {
  if (n >= source.n || k >= source.k) return 0;
  float low, high;
  Element<T>::unpack(source.w[n * source.stride_n + k * source.stride_k].bits, low, high);
  return Fold::apply(arguments, low, n, k);
}

// `rows`: n, or for packed weights n padded. kTileN is 0 for row-major. Any grid of any size.
template <class T, class Fold, int kTileN>
__device__ __forceinline__ void prepare_weights(T* out, const WeightSource<T>& source,
                                                const typename Fold::Args& arguments, int rows) {
  const int k_words = (source.k + 63) / 64 * 8;
  const long long words = static_cast<long long>(rows) * k_words;
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < words;
       i += threads) {
    int row, first;
    if constexpr (kTileN == 0) {
      row = static_cast<int>(i / k_words);
      first = static_cast<int>(i % k_words) * 8;
    } else {
      const int word = static_cast<int>(i % 8);
      const int tile_row = static_cast<int>(i / 8 % kTileN);
      const long long tile = i / (8 * kTileN);
      row = static_cast<int>(tile / (k_words / 8)) * kTileN + tile_row;
      first = static_cast<int>(tile % (k_words / 8)) * 64 + (word ^ (tile_row % 8)) * 8;
    }
    unsigned v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      v[j] = Element<T>::pack(folded_weight<T, Fold>(source, arguments, row, first + 2 * j),
                              folded_weight<T, Fold>(source, arguments, row, first + 2 * j + 1));
    }
    reinterpret_cast<uint4*>(out)[i] = make_uint4(v[0], v[1], v[2], v[3]);
  }
}

}  // namespace tenon::device::gemm
