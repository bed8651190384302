// A warp's columns of X, held in registers as B fragments for the whole kernel.
//
// k_end is where the block's columns end that exist in X.
//
// Lane (g, t) of a warp keeps, for every 8 rows of X and every 32 columns, the 8 neighbouring
// elements 8t .. 8t+7 of row g: the B fragments of two products of 16 columns, in the column
// order of packing.cuh. Rows past M and columns past k_end are zeros.
//
// Straight from global memory an instruction of the warp covers 64 bytes of each of 8 rows,
// which costs the path from L2 as much as twice the bytes. Staged, X passes through ring slots
// that the weights do not need yet, copied in pieces of up to 256 bytes a row. Rows that do not
// begin at multiples of 16 bytes are staged in the aligned words that hold them and shifted on
// their way to registers: a run of columns has one word more then, which waits where the warp will
// store its partial tiles.
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

  // Requests the columns from k0 on, up to k_end. Asynchronous: nothing waits until the first use.
  __device__ __forceinline__ void load(const Params& p, int k0, int k_end, int lane) {
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
        if (row < p.m && (C::kExactX || first < k_end)) {
          if (C::kXAligned && (whole_chunks(p) || first + 8 <= k_end)) {
            v = load_16_l2(source + offset * 2);
          } else {
            v = load_shifted(source + offset * 2, C::kExactX ? 8 : k_end - first,
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

  // Requests X into the last slots of the ring, one cp.async group a slot. `partials`: of this
  // warp.
  __device__ __forceinline__ static void request(const Params& p, int k0, int k_end, unsigned ring,
                                                 unsigned partials, int lane) {
    ring = opaque_address(ring);
    if constexpr (!C::kXAligned) partials = opaque_address(partials);
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
        const unsigned to = slot_word(ring, slot, row, chunk);
        const int at = k0 + column_of<C>(column);
        const bool mine = L::kXSlots * L::kXSlotColumns == C::kColumns || column < C::kColumns;
        if constexpr (C::kXAligned) {
          // All or nothing is one instruction; any other number of bytes is many.
          const int left = whole_chunks(p) ? (C::kExactX || at < k_end ? 8 : 0) : k_end - at;
          const int bytes =
              row < p.m && mine ? (whole_chunks(p) ? left * 2 : max(0, min(16, left * 2))) : 0;
          const char* from = static_cast<const char*>(p.x) + (row * p.x_stride + at) * 2;
          cp_async_16_zfill(to, bytes > 0 ? from : static_cast<const char*>(p.x), bytes);
        } else {
          request_word(p, k_end, to, row, at, mine);
        }
      }
      if constexpr (!C::kXAligned) {
        // The words behind each run of the slot, which hold the ends of its last chunks.
#pragma unroll
        for (int i = 0; i < (C::kRows * kSlotRuns + 31) / 32; ++i) {
          const int row = (i * 32 + lane) / kSlotRuns, run = (i * 32 + lane) % kSlotRuns;
          const int column = slot * L::kXSlotColumns + (run + 1) * L::kXRunColumns;
          if (row < C::kRows && column <= C::kColumns) {
            const int last = column - 8;
            request_word(p, k_end, behind(partials, slot * kSlotRuns + run, row), row,
                         k0 + column_of<C>(last) + 8, true);
          }
        }
      }
      cp_async_commit();
    }
    if constexpr (!C::kXAligned) store_end(p, k0, k_end, ring, partials, lane);
  }

  // Takes X's slot `kSlot` once it has arrived; it may be refilled after.
  template <int kSlot>
  __device__ __forceinline__ void take(const Params& p, int k0, int k_end, unsigned ring,
                                       unsigned partials, int lane) {
    // Groups committed since: X's later slots, and with cp.async weights the units filled since.
    constexpr int kUnitsSince = L::kBulk ? 0 : kFirst - C::kEarlyUnits + kSlot;
    cp_async_wait<L::kXSlots - 1 - kSlot + kUnitsSince>();
    __syncwarp();
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int tile = 0; tile < L::kRowTiles; ++tile) {
      const int row = tile * 8 + g;
      const unsigned offset = C::kXAligned ? 0 : row_offset(p, row);
#pragma unroll
      for (int i = 0; i < L::kXSlotColumns / kGroupColumns; ++i) {
        const int group = kSlot * (L::kXSlotColumns / kGroupColumns) + i;
        if (group < L::kGroups) {
          const int chunk = i * 4 + t;
          uint4 v = load_16_shared(slot_word(ring, kSlot, row, chunk));
          if constexpr (!C::kXAligned) {
            constexpr int kRunGroups = L::kXRunColumns / kGroupColumns;
            unsigned next = slot_word(ring, kSlot, row, chunk + 1);
            if (i % kRunGroups == kRunGroups - 1)
              next = t == 3 ? behind(partials, group / kRunGroups, row) : next;
            v = shift_words(v, load_16_shared(next), offset);
            const int first = k0 + column_of<C>(group * kGroupColumns);
            // The next row's elements, or none.
            if (!C::kExactX && first + kGroupColumns > k_end) keep_first(v, k_end - first - t * 8);
          }
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
  __device__ __forceinline__ void reduce(const Params& p, int k0, int k_end, int lane,
                                         float* sums) const {
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
            // Columns past k_end are zeros, which add nothing to a sum of squares.
            if (C::kExactX || Stats::kSquares || (whole_chunks(p) ? chunk : column) < k_end) {
              Stats::accumulate(s, Element<T>::low(x[i][tile][j]));
            }
            if (C::kExactX || Stats::kSquares || (whole_chunks(p) ? chunk : column + 1) < k_end) {
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
  static constexpr int kSlotRuns = L::kXSlotColumns / L::kXRunColumns;
  __device__ __forceinline__ static int swizzle(int row, int chunk) {
    return kChunks >= 8 ? chunk ^ (row & 1) * 4 : chunk;
  }
  __device__ __forceinline__ static unsigned slot_word(unsigned ring, int slot, int row,
                                                       int chunk) {
    return ring + (kFirst + slot) * L::kUnitBytes + row * kChunks * 16 + swizzle(row, chunk) * 16;
  }
  // Where the word behind a run of a row waits: a row of a partial tile has room for four.
  __device__ __forceinline__ static unsigned behind(unsigned partials, int run, int row) {
    return partials + run / 4 * C::kWarps * L::kPartialBytes + row * 64 + run % 4 * 16;
  }
  // How far row `row` begins behind a multiple of 16 bytes.
  __device__ __forceinline__ static unsigned row_offset(const Params& p, int row) {
    const unsigned at = static_cast<unsigned>(reinterpret_cast<unsigned long long>(p.x));
    return (at + static_cast<unsigned>(row) * static_cast<unsigned>(p.x_stride) * 2) & 15;
  }
  // Requests the aligned word that holds element `column` of a row at row_offset; zeros where it
  // holds no element of the row before k_end. The last word of X is left to store_end if it is not
  // whole.
  __device__ __forceinline__ static void request_word(const Params& p, int k_end, unsigned to,
                                                      int row, int column, bool mine) {
    const char* const x = static_cast<const char*>(p.x);
    const int offset = static_cast<int>(row_offset(p, row)), at = column * 2 - offset;
    const bool some = row < p.m && mine && at < k_end * 2;
    if (row == p.m - 1 && some && at + 16 > p.k * 2) return;
    const long long first =
        some ? row * p.x_stride * 2 + at : -static_cast<long long>(row_offset(p, 0));
    cp_async_16_zfill(to, x + first, some ? 16 : 0);
  }
  // The last word of X, element by element, for the warp whose columns reach it: what is behind X
  // is not read.
  __device__ __forceinline__ static void store_end(const Params& p, int k0, int k_end,
                                                   unsigned ring, unsigned partials, int lane) {
    const int row = p.m - 1, offset = static_cast<int>(row_offset(p, row));
    const int column = (p.k * 2 + offset) / 16 * 8, bytes = (p.k * 2 + offset) % 16;
    if (bytes == 0 || column * 2 - offset >= k_end * 2) return;
#pragma unroll 1
    for (int run = 0; run < L::kXRuns; ++run) {
      const int behind_first = column - k0 - column_of<C>(run * L::kXRunColumns);
      if (behind_first < 0 || behind_first > L::kXRunColumns) continue;
      const unsigned to = behind_first == L::kXRunColumns
                              ? behind(partials, run, row)
                              : slot_word(ring, run / kSlotRuns, row,
                                          (run % kSlotRuns * L::kXRunColumns + behind_first) / 8);
      const char* from = static_cast<const char*>(p.x) + (row * p.x_stride + column) * 2 - offset;
      if (lane < 8) {
        const unsigned short bits = lane * 2 < bytes ? load_2_l2(from + lane * 2) : 0;
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(to + lane * 2), "h"(bits) : "memory");
      }
    }
  }
};

}  // namespace tenon::device::small_m
