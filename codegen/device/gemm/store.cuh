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
// Fragments hold 4 bytes of 8 rows per register, which would write half sectors. kStaged: each warp
// turns 16 rows x 64 columns around in 2 KB of shared memory of its own and stores whole rows of
// 128 bytes. 16-byte words are at (word ^ row % 8) of their row: no bank conflicts either way.
// kShuffled: the four lanes that share a row give each other words until each has 16 bytes of it.
// That takes half of shared memory's time and none of its space, but stores only 64 bytes of a row
// at once.
template <class P, class Epilogue>
struct TileStore {
  using T = typename P::T;
  const Operands<T>& operands;
  const typename Epilogue::Args& arguments;
  int first_row, first_column;  // the warp's, in Y
  int end_row;                  // of the tile's rows, in Y
  unsigned staging;
  int lane;

  __device__ __forceinline__ int row_index(int block, int half) const {
    return first_row + 64 * block + 8 * half + lane / 4;
  }

  // Rows past the tile's end are computed with its last row's parameters and not stored.
  __device__ __forceinline__ RowPairs<P, Epilogue> rows(
      const float (&sums)[P::kBlocks][2][P::kSumSlots]) const {
    RowPairs<P, Epilogue> result;
#pragma unroll
    for (int b = 0; b < P::kBlocks; ++b) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        result.row[b][h] = Epilogue::row(arguments, min(row_index(b, h), end_row - 1), sums[b][h]);
      }
    }
    return result;
  }

  // The word with columns 8 j + 2 (lane % 4) and the next of one row. Past the end, parameters of
  // the last columns serve; with wide stores those are whole groups of 8.
  __device__ __forceinline__ unsigned word(const float* acc, const typename Epilogue::Row& row,
                                           int block, int half, int j) const {
    const int m = min(row_index(block, half), end_row - 1);
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
      if constexpr (P::kStores == Stores::kShuffled) {
#pragma unroll
        for (int j = 0; j < kCount; j += 4) {
          shuffled(acc[b], rows.row[b], b, kFirst + j, kCount - j);
        }
      } else if constexpr (P::kStores == Stores::kStaged) {
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
  static __device__ __forceinline__ void store_16(T* y, const uint4& v) {
    if constexpr (P::kHintY == CacheHint::kEvictFirst) {
      asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(y), "r"(v.x),
                   "r"(v.y), "r"(v.z), "r"(v.w), "l"(policy_evict_first())
                   : "memory");
    } else {
      asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(y), "r"(v.x), "r"(v.y),
                   "r"(v.z), "r"(v.w)
                   : "memory");
    }
  }

  // Two lanes of a row exchange words: the one without `bit` sends b, the other a.
  __device__ __forceinline__ void exchange(unsigned& a, unsigned& b, int bit) const {
    const bool upper = lane & bit;
    const unsigned received = __shfl_xor_sync(0xffffffffu, upper ? a : b, bit);
    if (upper) {
      a = received;
    } else {
      b = received;
    }
  }

  // Up to four groups of 8 columns, `left` of them, from column 8 `first`: a 4 x 4 transposition of
  // words, after which lane q of a row has group q of it.
  __device__ __forceinline__ void shuffled(const float* acc, const typename Epilogue::Row (&row)[2],
                                           int block, int first, int left) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      unsigned v[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) v[j] = j < left ? word(acc, row[h], block, h, first + j) : 0;
      exchange(v[0], v[1], 1);
      exchange(v[2], v[3], 1);
      exchange(v[0], v[2], 2);
      exchange(v[1], v[3], 2);
      const int m = row_index(block, h), n = first_column + 8 * (first + lane % 4);
      if (lane % 4 < left && m < end_row && n < operands.n) {
        store_16(operands.y + m * operands.y_stride + n, make_uint4(v[0], v[1], v[2], v[3]));
      }
    }
  }

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
#pragma unroll
    for (int i = 0; i < (kWords + 1) / 2; ++i) {
      const int unit = i * 32 + lane;
      const int r = unit / kWords, w = unit % kWords;
      if (unit < 16 * kWords && m0 + r < end_row && n0 + 8 * w < operands.n) {
        const uint4 v = load_shared_16(staging + r * 128 + ((w ^ (r & 7)) << 4));
        store_16(operands.y + (m0 + r) * operands.y_stride + n0 + 8 * w, v);
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
        if (m < end_row && n < operands.n) y[0] = static_cast<unsigned short>(both);
        if (m < end_row && n + 1 < operands.n) y[1] = static_cast<unsigned short>(both >> 16);
      }
    }
  }
};

}  // namespace tenon::device::gemm
