// From accumulators to Y: the epilogue's function, rounding, and wide stores.
#pragma once

#include "device/gemm/plan.cuh"
#include "device/ptx/cache_hint.cuh"
#include "device/ptx/shared.cuh"
#include "device/ptx/stmatrix.cuh"

namespace tenon::device::gemm {

template <class P, class Epilogue>
struct RowPairs {
  typename Epilogue::Row row[P::kBlocks][2];
};

// Stores a warp's part of a tile: 16 rows of each 64-row block.
//
// Fragments hold 4 bytes of 8 rows per register, which would write half sectors. So each warp
// turns 16 rows x 64 columns around in 2 KB of shared memory of its own and stores whole rows of
// 128 bytes. 16-byte words are at (word ^ row % 8) of their row: no bank conflicts either way.
template <class P, class Epilogue>
struct TileStore {
  using T = typename P::T;
  const Operands<T>& operands;
  const typename Epilogue::Args& arguments;
  int first_row, first_column;  // the warp's, in Y
  unsigned staging;
  int lane;

  __device__ __forceinline__ int row_index(int block, int half) const {
    return first_row + 64 * block + 8 * half + lane / 4;
  }

  // Rows past the end are computed with the last row's parameters and not stored.
  __device__ __forceinline__ RowPairs<P, Epilogue> rows(
      const float (&sums)[P::kBlocks][2][P::kSumSlots]) const {
    RowPairs<P, Epilogue> result;
#pragma unroll
    for (int b = 0; b < P::kBlocks; ++b) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        result.row[b][h] =
            Epilogue::row(arguments, min(row_index(b, h), operands.m - 1), sums[b][h]);
      }
    }
    return result;
  }

  // The word with columns 8 j + 2 (lane % 4) and the next of one row. Past the end, parameters of
  // the last columns serve; with wide stores those are whole groups of 8.
  __device__ __forceinline__ unsigned word(const float* acc, const typename Epilogue::Row& row,
                                           int block, int half, int j) const {
    const int m = min(row_index(block, half), operands.m - 1);
    const int group = first_column + 8 * j, pair = 2 * (lane % 4);
    int n0, n1;
    if constexpr (P::kWideStores) {
      n0 = min(group, operands.n - 8) + pair;
      n1 = n0 + 1;
    } else {
      n0 = min(group + pair, operands.n - 1);
      n1 = min(group + pair + 1, operands.n - 1);
    }
    return Element<T>::pack(Epilogue::apply(arguments, row, acc[4 * j + 2 * half], m, n0),
                            Epilogue::apply(arguments, row, acc[4 * j + 2 * half + 1], m, n1));
  }

  // Columns 8 kFirst … 8 (kFirst + kCount) - 1 of the tile.
  template <int kFirst, int kCount>
  __device__ __forceinline__ void columns(const float (&acc)[P::kBlocks][P::kAccumulators],
                                          const RowPairs<P, Epilogue>& rows) const {
#pragma unroll
    for (int b = 0; b < P::kBlocks; ++b) {
      if constexpr (P::kWideStores) {
#pragma unroll
        for (int c = 0; c < kCount / 8; ++c) wide<8>(acc[b], rows.row[b], b, kFirst + 8 * c);
        if constexpr (kCount % 8 != 0) {
          wide<kCount % 8>(acc[b], rows.row[b], b, kFirst + kCount / 8 * 8);
        }
      } else {
        narrow<kFirst, kCount>(acc[b], rows.row[b], b);
      }
    }
  }

 private:
  // kWords 16-byte words of each row, from column 8 `first`.
  template <int kWords>
  __device__ __forceinline__ void wide(const float* acc, const typename Epilogue::Row (&row)[2],
                                       int block, int first) const {
    const int matrix_row = lane % 16, matrix_word = lane / 16;
    const unsigned to = staging + matrix_row * 128;
#pragma unroll
    for (int j = 0; j + 1 < kWords; j += 2) {
      stmatrix_x4(to + (((j + matrix_word) ^ (matrix_row & 7)) << 4),
                  word(acc, row[0], block, 0, first + j), word(acc, row[1], block, 1, first + j),
                  word(acc, row[0], block, 0, first + j + 1),
                  word(acc, row[1], block, 1, first + j + 1));
    }
    if constexpr (kWords % 2 != 0) {
      stmatrix_x2(to + (((kWords - 1) ^ (matrix_row & 7)) << 4),
                  word(acc, row[0], block, 0, first + kWords - 1),
                  word(acc, row[1], block, 1, first + kWords - 1));
    }
    __syncwarp();
    const int n0 = first_column + 8 * first;
    const int m0 = first_row + 64 * block;
    unsigned long long policy = 0;
    if constexpr (P::kHintY == CacheHint::kEvictFirst) policy = policy_evict_first();
#pragma unroll
    for (int i = 0; i < (kWords + 1) / 2; ++i) {
      const int unit = i * 32 + lane;
      const int r = unit / kWords, w = unit % kWords;
      if (unit < 16 * kWords && m0 + r < operands.m && n0 + 8 * w < operands.n) {
        const uint4 v = load_shared_16(staging + r * 128 + ((w ^ (r & 7)) << 4));
        T* y = operands.y + (m0 + r) * operands.y_stride + n0 + 8 * w;
        if constexpr (P::kHintY == CacheHint::kEvictFirst) {
          asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(y),
                       "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "l"(policy)
                       : "memory");
        } else {
          asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(y), "r"(v.x), "r"(v.y),
                       "r"(v.z), "r"(v.w)
                       : "memory");
        }
      }
    }
    __syncwarp();
  }

  // Element stores, for any N and any alignment.
  template <int kFirst, int kCount>
  __device__ __forceinline__ void narrow(const float* acc, const typename Epilogue::Row (&row)[2],
                                         int block) const {
#pragma unroll
    for (int j = kFirst; j < kFirst + kCount; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int m = row_index(block, h);
        const int n = first_column + 8 * j + 2 * (lane % 4);
        const unsigned both = word(acc, row[h], block, h, j);
        unsigned short* y =
            reinterpret_cast<unsigned short*>(operands.y + m * operands.y_stride + n);
        if (m < operands.m && n < operands.n) y[0] = static_cast<unsigned short>(both);
        if (m < operands.m && n + 1 < operands.n) y[1] = static_cast<unsigned short>(both >> 16);
      }
    }
  }
};

}  // namespace tenon::device::gemm
