// A block's tile of products in float with fused multiply-adds: for fp32 elements, and for
// products whose operands must not be rounded. A warp's lanes are 4 (rows) × 8 (columns).
#pragma once

#include "device/portable/operand_tile.cuh"
#include "device/portable/reduce.cuh"

namespace tenon::device::portable {

template <class K>
struct FmaTile {
  using T = float;
  static constexpr int kM = K::kTileM / K::kWarpsM;
  static constexpr int kN = K::kTileN / K::kWarpsN;
  static_assert(kM % 4 == 0 && kN % 32 == 0 && K::kTileK % 4 == 0, "whole runs for every lane");

  static constexpr int kRun = 4;
  static constexpr int kRowsHeld = kM / 4;
  static constexpr int kRunsHeld = kN / 32;
  static constexpr int kQuads = kRowsHeld * kRunsHeld;

  float d[K::kProducts][kQuads][4] = {};

  static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
  static __device__ __forceinline__ int row(int r) {
    return threadIdx.x / 32 / K::kWarpsN * kM + lane() / 8 + 4 * r;
  }
  static __device__ __forceinline__ int column(int c) {
    return threadIdx.x / 32 % K::kWarpsN * kN + lane() % 8 * 4 + 32 * c;
  }
  __device__ __forceinline__ float value(int p, int r, int c, int j) const {
    return d[p][r * kRunsHeld + c][j];
  }

  template <class Tiles>
  __device__ __forceinline__ void multiply(const float* stage) {
#pragma unroll 2
    for (int kk = 0; kk < K::kTileK; kk += 4) {
      static_for<K::kProducts>([&](auto p) {
        constexpr int kA = K::product_a(decltype(p)::value);
        constexpr int kB = K::product_b(decltype(p)::value);
        float a[kRowsHeld][4];
        const float* tile = stage + Tiles::template a_offset<kA>();
#pragma unroll
        for (int r = 0; r < kRowsHeld; ++r)
          load4(a[r], tile + row(r) * Tiles::template A<kA>::kStride + kk);
#pragma unroll
        for (int c = 0; c < kRunsHeld; ++c) {
          float b[4][4];  // [k][column]
          load_b<Tiles, kB>(b, stage, kk, column(c));
#pragma unroll
          for (int r = 0; r < kRowsHeld; ++r) {
            float(&out)[4] = d[decltype(p)::value][r * kRunsHeld + c];
#pragma unroll
            for (int k = 0; k < 4; ++k)
#pragma unroll
              for (int j = 0; j < 4; ++j) out[j] = fmaf(a[r][k], b[k][j], out[j]);
          }
        }
      });
    }
  }

 private:
  static __device__ __forceinline__ void load4(float (&x)[4], const float* p) {
    const float4 q = *reinterpret_cast<const float4*>(p);
    x[0] = q.x;
    x[1] = q.y;
    x[2] = q.z;
    x[3] = q.w;
  }

  template <class Tiles, int i>
  static __device__ __forceinline__ void load_b(float (&b)[4][4], const float* stage, int kk,
                                                int n) {
    constexpr int kStride = Tiles::template B<i>::kStride;
    const float* tile = stage + Tiles::template b_offset<i>();
    if constexpr (K::template OperandB<i>::kTransposed) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float q[4];
        load4(q, tile + (n + j) * kStride + kk);
#pragma unroll
        for (int k = 0; k < 4; ++k) b[k][j] = q[k];
      }
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) load4(b[k], tile + (kk + k) * kStride + n);
    }
  }
};

}  // namespace tenon::device::portable
