// A block's tile of products on the tensor cores: mma.sync m16n8k16 on 16-bit elements.
// Warps share out the tile as kWarpsM × kWarpsN; fragments as ptx/mma.cuh draws them.
//
// A tile of products, here and in fma_tile.cuh, shows its results as runs: a thread has
// kRowsHeld rows of kRunsHeld runs of kRun neighbouring columns.
#pragma once

#include "device/portable/element.cuh"
#include "device/portable/operand_tile.cuh"
#include "device/portable/reduce.cuh"
#include "device/ptx/ldmatrix.cuh"
#include "device/ptx/mma.cuh"

namespace tenon::device::portable {

template <class T>
struct TensorCore;
template <>
struct TensorCore<Bf16> {
  static __device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
    mma_m16n8k16_bf16(d, a, b0, b1);
  }
};
template <>
struct TensorCore<Fp16> {
  static __device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
    mma_m16n8k16_fp16(d, a, b0, b1);
  }
};

template <class K>
struct MmaTile {
  using T = typename K::Element;
  static constexpr int kM = K::kTileM / K::kWarpsM;
  static constexpr int kN = K::kTileN / K::kWarpsN;
  static constexpr int kRowTiles = kM / 16;
  static constexpr int kColumnTiles = kN / 8;
  static_assert(kM % 16 == 0 && kN % 16 == 0 && K::kTileK % 16 == 0, "whole fragments");

  static constexpr int kRun = 2;
  static constexpr int kRowsHeld = 2 * kRowTiles;
  static constexpr int kRunsHeld = kColumnTiles;
  static constexpr int kQuads = kRowTiles * kColumnTiles;

  float d[K::kProducts][kQuads][4] = {};

  static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
  static __device__ __forceinline__ int first_row() { return threadIdx.x / 32 / K::kWarpsN * kM; }
  static __device__ __forceinline__ int first_column() {
    return threadIdx.x / 32 % K::kWarpsN * kN;
  }
  static __device__ __forceinline__ int row(int r) {
    return first_row() + r / 2 * 16 + r % 2 * 8 + lane() / 4;
  }
  static __device__ __forceinline__ int column(int c) {
    return first_column() + c * 8 + lane() % 4 * 2;
  }
  __device__ __forceinline__ float value(int p, int r, int c, int j) const {
    return d[p][r / 2 * kColumnTiles + c][r % 2 * 2 + j];
  }

  // Adds the products of the tiles that Tiles places in the stage.
  template <class Tiles>
  __device__ __forceinline__ void multiply(const T* stage) {
#pragma unroll
    for (int kk = 0; kk < K::kTileK; kk += 16) {
      unsigned a[K::kOperandsA][kRowTiles][4];
      static_for<K::kOperandsA>([&](auto i) {
        constexpr int kStride = Tiles::template A<decltype(i)::value>::kStride;
        const T* tile = stage + Tiles::template a_offset<decltype(i)::value>();
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
          const int r = first_row() + t * 16 + lane() % 16;
          ldmatrix_x4(a[decltype(i)::value][t],
                      shared_address(tile + r * kStride + kk + lane() / 16 * 8));
        }
      });
#pragma unroll
      for (int c = 0; c < kColumnTiles; c += 2) {
        static_for<K::kOperandsB>([&](auto i) {
          unsigned b[4];
          load_b<Tiles, decltype(i)::value>(b, stage, kk, first_column() + c * 8);
          static_for<K::kProducts>([&](auto p) {
            if constexpr (K::product_b(decltype(p)::value) == decltype(i)::value) {
              constexpr int kA = K::product_a(decltype(p)::value);
#pragma unroll
              for (int t = 0; t < kRowTiles; ++t) {
                auto& tile = d[decltype(p)::value];
                TensorCore<T>::mma(tile[t * kColumnTiles + c], a[kA][t], b[0], b[1]);
                TensorCore<T>::mma(tile[t * kColumnTiles + c + 1], a[kA][t], b[2], b[3]);
              }
            }
          });
        });
      }
    }
  }

 private:
  // Fragments of 16 (k) × 16 (columns) of operand B: b[0], b[1] the first eight columns.
  template <class Tiles, int i>
  static __device__ __forceinline__ void load_b(unsigned (&b)[4], const T* stage, int kk, int n) {
    constexpr int kStride = Tiles::template B<i>::kStride;
    const T* tile = stage + Tiles::template b_offset<i>();
    const int l = lane();
    if constexpr (K::template OperandB<i>::kTransposed) {  // stored [columns][k]
      ldmatrix_x4(b,
                  shared_address(tile + (n + l % 8 + l / 16 * 8) * kStride + kk + l / 8 % 2 * 8));
    } else {  // stored [k][columns]
      ldmatrix_x4_trans(b, shared_address(tile + (kk + l % 16) * kStride + n + l / 16 * 8));
    }
  }
};

}  // namespace tenon::device::portable
