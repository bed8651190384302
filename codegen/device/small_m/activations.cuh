// A warp's columns of X, held in registers as B fragments for the whole kernel.
//
// Lane (g, t) of a warp keeps, for every 8 rows of X and every 32 columns, the 8 neighbouring
// elements 8t .. 8t+7 of row g: the B fragments of two products of 16 columns, in the column
// order of packing.cuh. Rows past M and columns past K are zeros, and their memory is not read.
//
// Straight from global memory an instruction of the warp covers 64 bytes of each of 8 rows,
// which costs the path from L2 as much as twice the bytes. Staged, X passes through ring slots
// that the weights do not need yet, copied in pieces of up to 256 bytes a row.
#pragma once

#include "device/hopper/shifted_load.cuh"
#include "device/ptx/cache_hint.cuh"
#include "device/ptx/cp_async.cuh"
#include "device/ptx/fence.cuh"
#include "device/small_m/config.cuh"
#include "device/small_m/element.cuh"
#include "device/small_m/params.cuh"
#include "device/small_m/weight_stream.cuh"

namespace tenon::device::small_m {

template <class C, class T>
struct Activations {
  using L = Layout<C>;
  unsigned x[L::kGroups][L::kRowTiles][4];

  // Does every chunk of 8 columns lie in K whole or not at all? A constant of the generated kernel,
  // where K is one.
  __device__ __forceinline__ static bool whole_chunks(const Params& p) {
    return C::kExactX || p.k % 8 == 0;
  }

  // Requests the columns from k0 on. Asynchronous: nothing waits until the first use.
  __device__ __forceinline__ void load(const Params& p, int k0, int lane) {
    const int g = lane / 4, column = k0 + lane % 4 * 8;  // of the first group
    const char* end = static_cast<const char*>(p.x) + ((p.m - 1) * p.x_stride + p.k) * 2;
#pragma unroll
    for (int tile = 0; tile < L::kRowTiles; ++tile) {
      const int row = tile * 8 + g;
      const char* source = static_cast<const char*>(p.x) + (row * p.x_stride + column) * 2;
#pragma unroll
      for (int i = 0; i < L::kGroups; ++i) {
        const int offset = column_of<C>(i * kGroupColumns), first = column + offset;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (row < p.m && (C::kExactX || first < p.k)) {
          if (C::kXAligned && (whole_chunks(p) || first + 8 <= p.k)) {
            v = load_16_l2(source + offset * 2);
          } else {
            v = load_shifted(source + offset * 2, C::kExactX ? 8 : p.k - first,
                             static_cast<const char*>(p.x), end);
          }
        }
        x[i][tile][0] = v.x;
        x[i][tile][1] = v.y;
        x[i][tile][2] = v.z;
        x[i][tile][3] = v.w;
      }
    }
  }

  // Requests X into the last slots of the ring, one cp.async group a slot.
  __device__ __forceinline__ static void request(const Params& p, int k0, unsigned ring, int lane) {
    ring = opaque_address(ring);
    constexpr int kSpan = kChunks % 16 == 0  ? 16
                          : kChunks % 8 == 0 ? 8
                                             : 4;  // chunks a row and instruction
#pragma unroll
    for (int slot = 0; slot < L::kXSlots; ++slot) {
#pragma unroll
      for (int i = 0; i < C::kRows * kChunks / 32; ++i) {
        const int row = i / (kChunks / kSpan) * (32 / kSpan) + lane / kSpan;
        const int chunk = i % (kChunks / kSpan) * kSpan + lane % kSpan;
        const int column = slot * L::kXSlotColumns + chunk * 8;
        const unsigned to =
            ring + (kFirst + slot) * L::kUnitBytes + row * kChunks * 16 + swizzle(row, chunk) * 16;
        const int at = k0 + column_of<C>(column);
        const bool mine = L::kXSlots * L::kXSlotColumns == C::kColumns || column < C::kColumns;
        // All or nothing is one instruction; any other number of bytes is many.
        const int left = whole_chunks(p) ? (C::kExactX || at < p.k ? 8 : 0) : p.k - at;
        const int bytes =
            row < p.m && mine ? (whole_chunks(p) ? left * 2 : max(0, min(16, left * 2))) : 0;
        const char* from = static_cast<const char*>(p.x) + (row * p.x_stride + at) * 2;
        cp_async_16_zfill(to, bytes > 0 ? from : static_cast<const char*>(p.x), bytes);
      }
      cp_async_commit();
    }
  }

  // Takes X's slot `kSlot` once it has arrived; it may be refilled after.
  template <int kSlot>
  __device__ __forceinline__ void take(unsigned ring, int lane) {
    // Groups committed since: X's later slots, and with cp.async weights the units filled since.
    constexpr int kUnitsSince = L::kBulk ? 0 : kFirst - C::kEarlyUnits + kSlot;
    cp_async_wait<L::kXSlots - 1 - kSlot + kUnitsSince>();
    __syncwarp();
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int tile = 0; tile < L::kRowTiles; ++tile) {
      const int row = tile * 8 + g;
#pragma unroll
      for (int i = 0; i < L::kXSlotColumns / kGroupColumns; ++i) {
        const int group = kSlot * (L::kXSlotColumns / kGroupColumns) + i;
        if (group < L::kGroups) {
          const uint4 v = load_16_shared(ring + (kFirst + kSlot) * L::kUnitBytes +
                                         row * kChunks * 16 + swizzle(row, i * 4 + t) * 16);
          x[group][tile][0] = v.x, x[group][tile][1] = v.y, x[group][tile][2] = v.z,
          x[group][tile][3] = v.w;
        }
      }
    }
    __syncwarp();
    if constexpr (L::kBulk) fence_proxy_async_shared();
  }

  // Sums of this warp's columns, for its rows, into sums[stat][row] of shared memory.
  template <class Stats>
  __device__ __forceinline__ void reduce(const Params& p, int k0, int lane, float* sums) const {
    constexpr int kCount = Stats::kCount;
    if constexpr (kCount > 0) {
      const int g = lane / 4, t = lane % 4;
#pragma unroll
      for (int tile = 0; tile < L::kRowTiles; ++tile) {
        float s[kCount] = {};
#pragma unroll
        for (int i = 0; i < L::kGroups; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const int chunk = k0 + column_of<C>(i * kGroupColumns) + t * 8, column = chunk + j * 2;
            if (C::kExactX || (whole_chunks(p) ? chunk : column) < p.k) {
              Stats::accumulate(s, Element<T>::low(x[i][tile][j]));
            }
            if (C::kExactX || (whole_chunks(p) ? chunk : column + 1) < p.k) {
              Stats::accumulate(s, Element<T>::high(x[i][tile][j]));
            }
          }
        }
#pragma unroll
        for (int c = 0; c < kCount; ++c) {
          s[c] += __shfl_xor_sync(0xffffffffu, s[c], 1);
          s[c] += __shfl_xor_sync(0xffffffffu, s[c], 2);
          if (t == 0) sums[c * C::kRows + tile * 8 + g] = s[c];
        }
      }
    }
  }

 private:
  static constexpr int kFirst = C::kStages - L::kXSlots;
  static constexpr int kChunks = L::kXSlotColumns / 8;  // of 16 bytes in a row of a slot
  __device__ __forceinline__ static int swizzle(int row, int chunk) {
    return kChunks >= 8 ? chunk ^ (row & 1) * 4 : chunk;
  }
};

}  // namespace tenon::device::small_m
