// A warp's private stream of W': units of 16 rows × kUnitColumns columns, in the order in
// which the warp uses them, requested kStages units ahead. No other warp is involved, so
// there is nothing to synchronize but the warp itself.
//
//   fill(slot)                 requests the next unit into a slot (nothing once all are)
//   wait(slot, parity)         until the slot's unit has arrived
//   fragments(slot, group, a)  the A fragments of a group of 32 columns of the unit
#pragma once

#include "device/ptx/cache_hint.cuh"
#include "device/ptx/cp_async.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/small_m/config.cuh"
#include "device/small_m/params.cuh"

namespace tenon::device::small_m {

// The tiles of one cluster and the columns of one warp.
struct Share {
  int first_tile, tiles;
  int k0;        // the warp's first column; its unit u starts kUnitStride · u further on
  int k_end;     // where the block's columns of W' end: a multiple of the unit, or the last block's
  int k_padded;  // where W' ends
};

// A warp's column `local` (0 .. kColumns - 1) in K.
template <class C>
__device__ __forceinline__ constexpr int column_of(int local) {
  return local / C::kUnitColumns * Layout<C>::kUnitStride + local % C::kUnitColumns;
}

// How many of the warp's units begin before the block's columns end.
template <class C>
__device__ __forceinline__ int unit_count(const Share& s) {
  if constexpr (C::kExactK) return Layout<C>::kUnits;
  const int stride = Layout<C>::kUnitStride;
  return max(0, min(Layout<C>::kUnits, (s.k_end - s.k0 + stride - 1) / stride));
}

// Columns of unit `unit` that exist.
template <class C>
__device__ __forceinline__ int unit_columns(const Share& s, int unit) {
  if constexpr (C::kExactK) return C::kUnitColumns;
  return min(C::kUnitColumns, s.k_end - s.k0 - unit * Layout<C>::kUnitStride);
}

__device__ __forceinline__ uint4 load_16_shared(unsigned address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address));
  return v;
}

// Walks the units of a share: which tile and which unit of it comes next.
template <class C>
struct UnitCursor {
  int tile, unit, units, tiles_left;

  __device__ __forceinline__ explicit UnitCursor(const Share& s)
      : tile(s.first_tile),
        unit(0),
        units(unit_count<C>(s)),
        tiles_left(units == 0 ? 0 : s.tiles) {}
  __device__ __forceinline__ bool more() const { return tiles_left > 0; }
  __device__ __forceinline__ void advance() {
    if (++unit == units) {
      unit = 0;
      ++tile;
      --tiles_left;
    }
  }
};

// Where a warp's next unit of packed weights lies: a pointer that steps along its columns of a
// tile and from there to the next tile's.
template <class C>
struct PackedCursor : UnitCursor<C> {
  static constexpr long long kStep =
      Layout<C>::kUnitStride / kGroupColumns * static_cast<long long>(kGroupBytes);
  const char* source;
  long long rewind;  // from past the last unit of a tile to the first of the next

  __device__ __forceinline__ PackedCursor(const Params& p, const Share& s) : UnitCursor<C>(s) {
    const long long tile_bytes = s.k_padded / kGroupColumns * static_cast<long long>(kGroupBytes);
    source = static_cast<const char*>(p.w) + s.first_tile * tile_bytes +
             s.k0 / kGroupColumns * kGroupBytes;
    rewind = tile_bytes - this->units * kStep;
  }
  __device__ __forceinline__ void advance() {
    source += kStep;
    UnitCursor<C>::advance();
    if (this->unit == 0) source += rewind;
  }
};

template <class C, Weights kWeights = C::kWeights>
struct WeightStream;

// Bulk copies: one lane asks for a whole unit.
template <class C>
struct WeightStream<C, Weights::kPackedBulk> {
  using L = Layout<C>;
  Share share;
  PackedCursor<C> next;
  static constexpr CacheHint kHint = C::kEvictFirst ? CacheHint::kEvictFirst : CacheHint::kNone;
  unsigned ring, barriers;
  unsigned long long policy;
  int lane;

  __device__ __forceinline__ WeightStream(const Params& p, const Share& s, unsigned ring_,
                                          unsigned barriers_, int lane_)
      : share(s),
        next(p, s),
        ring(ring_),
        barriers(barriers_),
        policy(cache_policy<kHint>()),
        lane(lane_) {
    if (lane == 0) {
#pragma unroll
      for (int i = 0; i < C::kStages; ++i) mbarrier_init(barriers + 8 * i, 1);
      mbarrier_init_fence();
    }
    __syncwarp();
  }

  __device__ __forceinline__ void fill(int slot) {
    if (!next.more()) return;
    const unsigned bytes = unit_columns<C>(share, next.unit) / kGroupColumns * kGroupBytes;
    if (lane == 0) {
      const unsigned barrier = barriers + 8 * slot;
      mbarrier_arrive_expect(barrier, bytes);
      bulk_load<kHint, false>(ring + slot * L::kUnitBytes, next.source, bytes, barrier, 0, policy);
    }
    next.advance();
  }
  __device__ __forceinline__ void wait(int slot, unsigned parity) {
    mbarrier_wait(barriers + 8 * slot, parity);
  }
  __device__ __forceinline__ void fragments(int slot, int group, unsigned (&a)[2][4]) const {
    const unsigned at = ring + slot * L::kUnitBytes + group * kGroupBytes + lane * 16;
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      const uint4 v = load_16_shared(at + step * 512);
      a[step][0] = v.x, a[step][1] = v.y, a[step][2] = v.z, a[step][3] = v.w;
    }
  }
};

// cp.async of packed weights: every lane copies what it will read itself.
template <class C>
struct WeightStream<C, Weights::kPackedAsync> {
  using L = Layout<C>;
  Share share;
  PackedCursor<C> next;
  unsigned ring;
  unsigned long long policy;

  __device__ __forceinline__ WeightStream(const Params& p, const Share& s, unsigned ring_, unsigned,
                                          int lane)
      : share(s), next(p, s), ring(ring_ + lane * 16), policy(0) {
    next.source += lane * 16;
    if constexpr (C::kEvictFirst) policy = policy_evict_first();
  }

  __device__ __forceinline__ void fill(int slot) {
    if (next.more()) {
      const int columns = unit_columns<C>(share, next.unit);
      const unsigned to = opaque_address(ring + slot * L::kUnitBytes);
#pragma unroll
      for (int i = 0; i < 2 * L::kUnitGroups; ++i) {
        if (C::kExactK || i / 2 * kGroupColumns < columns) {
          if constexpr (C::kEvictFirst) {
            cp_async_16(to + i * 512, next.source + i * 512, policy);
          } else {
            cp_async_16(to + i * 512, next.source + i * 512);
          }
        }
      }
      next.advance();
    }
    cp_async_commit();  // an empty group keeps the count of groups in step with that of units
  }
  __device__ __forceinline__ void wait(int, unsigned) {
    cp_async_wait<C::kStages - 1>();
    __syncwarp();
  }
  __device__ __forceinline__ void fragments(int slot, int group, unsigned (&a)[2][4]) const {
    const unsigned at = ring + slot * L::kUnitBytes + group * kGroupBytes;
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      const uint4 v = load_16_shared(at + step * 512);
      a[step][0] = v.x, a[step][1] = v.y, a[step][2] = v.z, a[step][3] = v.w;
    }
  }
};

// Straight into registers: a slot is a unit of the tile, refilled with the next tile's.
template <class C>
struct WeightStream<C, Weights::kPackedRegisters> {
  using L = Layout<C>;
  Share share;
  PackedCursor<C> next;
  unsigned long long policy;
  uint4 w[L::kUnits][L::kUnitGroups][2];

  __device__ __forceinline__ WeightStream(const Params& p, const Share& s, unsigned, unsigned,
                                          int lane)
      : share(s), next(p, s), policy(0) {
    next.source += lane * 16;
    if constexpr (C::kEvictFirst) policy = policy_evict_first();
  }

  // `slot` must be a constant after unrolling. Fills past the last one a tile has do nothing.
  __device__ __forceinline__ void fill(int slot) {
    if (!next.more() || (!C::kExactK && slot >= next.units)) return;
    const int columns = unit_columns<C>(share, slot);
#pragma unroll
    for (int i = 0; i < 2 * L::kUnitGroups; ++i) {
      if (C::kExactK || i / 2 * kGroupColumns < columns) {
        w[slot][i / 2][i % 2] = C::kEvictFirst ? load_16_streaming(next.source + i * 512, policy)
                                               : load_16_streaming(next.source + i * 512);
      }
    }
    next.advance();
  }
  __device__ __forceinline__ void wait(int, unsigned) {}
  __device__ __forceinline__ void fragments(int slot, int group, unsigned (&a)[2][4]) const {
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      const uint4 v = w[slot][group][step];
      a[step][0] = v.x, a[step][1] = v.y, a[step][2] = v.z, a[step][3] = v.w;
    }
  }
};

// cp.async of W' as [N, K]: rows of a unit are kUnitColumns long. In shared memory the
// 16-byte chunks of odd rows are swapped in halves of 64 bytes, so that a quarter of a warp,
// which reads 64 bytes from each of two rows, touches every bank once.
template <class C>
struct WeightStream<C, Weights::kRowsAsync> {
  using L = Layout<C>;
  static constexpr int kChunks = C::kUnitColumns / 8;  // of 16 bytes in a row of a unit
  static constexpr int kSwap = kChunks >= 8 ? 4 : 0;
  // One instruction of the warp copies 16 chunks of each of two rows, or fewer of more rows.
  static constexpr int kSpan = kChunks % 16 == 0 ? 16 : kChunks % 8 == 0 ? 8 : 4;
  Share share;
  UnitCursor<C> next;
  const Params& p;  // read again at each use: constants are cheaper than registers
  unsigned ring;
  unsigned long long policy;
  int lane;

  __device__ __forceinline__ WeightStream(const Params& p, const Share& s, unsigned ring_, unsigned,
                                          int lane_)
      : share(s), next(s), p(p), ring(ring_), policy(0), lane(lane_) {
    if constexpr (C::kEvictFirst) policy = policy_evict_first();
  }

  __device__ __forceinline__ void fill(int slot) {
    if (next.more()) {
      const int valid = unit_columns<C>(share, next.unit);
      const unsigned to = opaque_address(ring + slot * L::kUnitBytes);
      const int column = share.k0 + next.unit * L::kUnitStride;
#pragma unroll 2  // all at once would cost registers, with nothing gained
      for (int i = 0; i < kTileRows * kSpan / 32; ++i) {
        const int row = i * (32 / kSpan) + lane / kSpan;
        // Rows past N repeat the last one; their results are not stored.
        const unsigned n = min(next.tile * kTileRows + row, p.n - 1);
        const unsigned long long elements =
            static_cast<unsigned long long>(n) * static_cast<unsigned>(p.w_stride) + column;
        const char* row_at = static_cast<const char*>(p.w) + elements * 2;
#pragma unroll
        for (int j = 0; j < kChunks / kSpan; ++j) {
          const int chunk = j * kSpan + lane % kSpan;
          const unsigned at = to + row * kChunks * 16 + (chunk ^ (row & 1) * kSwap) * 16;
          if (C::kExactK || chunk * 8 < valid) {
            if constexpr (C::kEvictFirst) {
              cp_async_16(at, row_at + chunk * 16, policy);
            } else {
              cp_async_16(at, row_at + chunk * 16);
            }
          }
        }
      }
      next.advance();
    }
    cp_async_commit();
  }
  __device__ __forceinline__ void wait(int, unsigned) {
    cp_async_wait<C::kStages - 1>();
    __syncwarp();
  }
  __device__ __forceinline__ void fragments(int slot, int group, unsigned (&a)[2][4]) const {
    const int g = lane / 4, t = lane % 4;
    const unsigned at =
        ring + slot * L::kUnitBytes + g * kChunks * 16 + ((group * 4 + t) ^ (g & 1) * kSwap) * 16;
    const uint4 upper = load_16_shared(at), lower = load_16_shared(at + 8 * kChunks * 16);
    a[0][0] = upper.x, a[0][1] = lower.x, a[0][2] = upper.y, a[0][3] = lower.y;
    a[1][0] = upper.z, a[1][1] = lower.z, a[1][2] = upper.w, a[1][3] = lower.w;
  }
};

}  // namespace tenon::device::small_m
