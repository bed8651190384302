// The streaming warps: one pass over their columns of W' for every tile of their cluster.
//
// Order at the start: a few units of W', then X, then the rest of the ring. X behind the
// whole ring would arrive microseconds late; W' behind X would leave memory idle.
#pragma once

#include "device/ptx/cluster.cuh"
#include "device/ptx/pdl.cuh"
#include "device/small_m/activations.cuh"
#include "device/small_m/config.cuh"
#include "device/small_m/weight_stream.cuh"

namespace tenon::device::small_m {

// Everything that the block has initialized before is visible to it (and its cluster) after. The
// two roles of warps wait here at different places of the code, so this is barrier.sync and not the
// form that takes all threads for aligned.
template <class C>
__device__ __forceinline__ void block_ready() {
  if constexpr (C::kCluster > 1) {
    cluster_wait();
  } else {
    asm volatile("barrier.sync 1, %0;" ::"n"(Layout<C>::kThreads) : "memory");
  }
}

// Partial tiles lie in shared memory as floats [row of X][16 rows of W'], with bits 3 and 4 of
// the index exchanged so that both the fragments' stores here and the epilogue's 8-byte loads
// touch every bank once.
__device__ __forceinline__ int partial_index(int m, int n) {
  return (m * kTileRows + n) ^ ((m >> 2 & 1) << 4 | (m >> 1 & 1) << 3);
}

template <class C>
__device__ __forceinline__ void store_partial(float* to, const float (&d)[Layout<C>::kRowTiles][4],
                                              int lane) {
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int at = partial_index(2 * t + i % 2, g + i / 2 * 8);
#pragma unroll
    for (int tile = 0; tile < Layout<C>::kRowTiles; ++tile)
      to[tile * 8 * kTileRows + at] = d[tile][i];
  }
}

// A buffer of partial tiles is full once every streaming warp has arrived on named barrier
// 2 + buffer, where the epilogue warps wait: cheaper to wake from than an mbarrier.
template <class C>
__device__ __forceinline__ void partial_arrive(int buffer) {
  asm volatile("bar.arrive %0, %1;" ::"r"(2 + buffer), "n"(Layout<C>::kThreads) : "memory");
}
template <class C>
__device__ __forceinline__ void partial_wait(int buffer) {
  asm volatile("bar.sync %0, %1;" ::"r"(2 + buffer), "n"(Layout<C>::kThreads) : "memory");
}

// Moves staged X into registers slot by slot and gives each slot to the weights.
template <class C, int kSlot, class X>
__device__ __forceinline__ void take_staged(X& activations, WeightStream<C>& weights,
                                            const Params& p, int k0, int k_end, unsigned ring,
                                            unsigned partials, int lane) {
  if constexpr (kSlot < Layout<C>::kXSlots) {
    activations.template take<kSlot>(p, k0, k_end, ring, partials, lane);
    weights.fill(C::kStages - Layout<C>::kXSlots + kSlot);
    take_staged<C, kSlot + 1>(activations, weights, p, k0, k_end, ring, partials, lane);
  }
}

// Adds the products of one unit; `columns` of it exist, all of them if kWhole.
template <class C, class T, bool kWhole>
__device__ __forceinline__ void multiply_unit(const WeightStream<C>& weights,
                                              const Activations<C, T>& activations, int slot,
                                              int unit, int columns,
                                              float (&d)[C::kChains][Layout<C>::kRowTiles][4]) {
  using L = Layout<C>;
#pragma unroll
  for (int group = 0; group < L::kUnitGroups; ++group) {
    if (!kWhole && group * kGroupColumns >= columns) break;
    unsigned a[2][4];
    weights.fragments(slot, group, a);
    const auto& x = activations.x[unit * L::kUnitGroups + group];
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int row_tile = 0; row_tile < L::kRowTiles; ++row_tile) {
        Element<T>::mma(d[step % C::kChains][row_tile], a[step], x[row_tile][2 * step],
                        x[row_tile][2 * step + 1]);
      }
    }
  }
}

template <class C, class T, class Stats>
__device__ __forceinline__ void stream_warp(const Params& p, const Share& share, char* shared,
                                            unsigned shared_at, int warp, int lane) {
  using L = Layout<C>;
  const unsigned barriers = shared_at + L::kBarriersAt;
  const unsigned ring = shared_at + L::kRingAt + warp * C::kStages * L::kUnitBytes;
  const int k_end = min(share.k_end, p.k);  // of the columns of X
  WeightStream<C> weights(p, share, ring, barriers + 8 * warp * C::kStages, lane);
#pragma unroll
  for (int i = 0; i < C::kEarlyUnits; ++i) weights.fill(i);
  if constexpr (C::kDependent) dependency_wait();
  Activations<C, T> activations;
  if constexpr (C::kXStaged) {
    const unsigned partials = shared_at + L::kPartialsAt + warp * L::kPartialBytes;
    activations.request(p, share.k0, k_end, ring, partials, lane);
#pragma unroll
    for (int i = C::kEarlyUnits; i < C::kStages - L::kXSlots; ++i) weights.fill(i);
    take_staged<C, 0>(activations, weights, p, share.k0, k_end, ring, partials, lane);
  } else {
    activations.load(p, share.k0, k_end, lane);
#pragma unroll
    for (int i = C::kEarlyUnits; i < C::kStages; ++i) weights.fill(i);
  }
  block_ready<C>();
  float* sums = reinterpret_cast<float*>(shared + L::kSumsAt + warp * L::kSumBytes);
  if constexpr (Stats::kCount > 0 && C::kStatsFirst) {
    activations.template reduce<Stats>(p, share.k0, k_end, lane, sums);
  }

  const int units = weights.next.units;
  int slot = 0;
  unsigned parity = 0;
  int buffer = 0;
  unsigned empty_parity = 0;
  for (int tile = 0; tile < share.tiles; ++tile) {
    float d[C::kChains][L::kRowTiles][4] = {};
#pragma unroll
    for (int unit = 0; unit < L::kUnits; ++unit) {
      if (!C::kExactK && unit >= units) break;
      const int at = L::kRing ? slot : unit;
      weights.wait(at, parity);
      const int columns = unit_columns<C>(share, unit);
      if (columns == C::kUnitColumns) {
        multiply_unit<C, T, true>(weights, activations, at, unit, columns, d);
      } else {
        multiply_unit<C, T, false>(weights, activations, at, unit, columns, d);
      }
      __syncwarp();  // every lane has read the slot
      weights.fill(at);
      if (++slot == C::kStages) slot = 0, parity ^= 1;
    }
    if constexpr (C::kChains == 2) {
#pragma unroll
      for (int row_tile = 0; row_tile < L::kRowTiles; ++row_tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) d[0][row_tile][i] += d[1][row_tile][i];
      }
    }
    if constexpr (Stats::kCount > 0 && !C::kStatsFirst) {
      if (tile == 0) activations.template reduce<Stats>(p, share.k0, k_end, lane, sums);
    }
    if (tile >= C::kPartials)
      mbarrier_wait(barriers + 8 * (L::kEmptyBarrier + buffer), empty_parity);
    store_partial<C>(reinterpret_cast<float*>(shared + L::kPartialsAt +
                                              (buffer * C::kWarps + warp) * L::kPartialBytes),
                     d[0], lane);
    partial_arrive<C>(buffer);
    if (++buffer == C::kPartials) {
      buffer = 0;
      if (tile >= C::kPartials) empty_parity ^= 1;
    }
  }
}

}  // namespace tenon::device::small_m
