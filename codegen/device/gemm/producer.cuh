// The producer warp: one thread fills the ring of stages with tiles of X and W.
#pragma once

#include "device/gemm/tile_order.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/pdl.cuh"
#include "device/ptx/shared.cuh"
#include "device/ptx/tma.cuh"

namespace tenon::device::gemm {

// This block's place in its cluster.
template <class P>
struct ClusterPlace {
  int rank, m, n, k;

  explicit __device__ __forceinline__ ClusterPlace(int cluster_rank)
      : rank(cluster_rank),
        m(cluster_rank / (P::kClusterN * P::kSplitK)),
        n(cluster_rank / P::kSplitK % P::kClusterN),
        k(cluster_rank % P::kSplitK) {}

  static __device__ __forceinline__ int rank_of(int m, int n, int k) {
    return (m * P::kClusterN + n) * P::kSplitK + k;
  }
  // Blocks that read the same rows of X, and of W.
  __device__ __forceinline__ unsigned short mask_x() const {
    unsigned mask = 0;
#pragma unroll
    for (int i = 0; i < P::kClusterN; ++i) mask |= 1u << rank_of(m, i, k);
    return static_cast<unsigned short>(mask);
  }
  __device__ __forceinline__ unsigned short mask_w() const {
    unsigned mask = 0;
#pragma unroll
    for (int i = 0; i < P::kClusterM; ++i) mask |= 1u << rank_of(i, n, k);
    return static_cast<unsigned short>(mask);
  }
};

template <class P>
__device__ __forceinline__ ClusterPlace<P> cluster_place() {
  return ClusterPlace<P>(P::kClusterSize > 1 ? static_cast<int>(cluster_rank()) : 0);
}

// The k steps of this block: all of them, or its part of a split.
struct KRange {
  int begin, end;
  __device__ __forceinline__ int steps() const { return end - begin; }
};

template <class P>
__device__ __forceinline__ KRange k_range(int k, int part) {
  const int steps = ceil_div(k, kTileK);
  return {steps * part / P::kSplitK, steps * (part + 1) / P::kSplitK};
}

template <class P>
struct Producer {
  const TensorMap* x_map;
  const TensorMap* w_map;
  const typename P::T* packed_w;
  TileOrder<P> order;
  ClusterPlace<P> place;
  KRange range;
  int k_steps;    // of the whole product, for packed weights
  unsigned base;  // shared memory
  unsigned long long policy_x, policy_w;

  __device__ __forceinline__ unsigned full(int stage) const { return base + P::kFull + 8 * stage; }
  __device__ __forceinline__ void expect(int stage) const {
    mbarrier_arrive_expect(full(stage), order.tile_rows * kRowBytes + P::kTileBytesW);
  }

  __device__ __forceinline__ void load_x(int stage, TileCoordinates tile, int step) const {
    const int rows = order.tile_rows / P::kClusterN;
    const int row = order.first_row(tile.m, place.m) + place.n * rows;
    const unsigned to = base + stage * P::kStageBytes + place.n * rows * kRowBytes;
    tma_load_2d<P::kHintX, (P::kClusterN > 1)>(to, x_map, step * kTileK, row, full(stage),
                                               place.mask_x(), policy_x);
  }

  __device__ __forceinline__ void load_w(int stage, TileCoordinates tile, int step) const {
    constexpr int kRows = P::kTileN / P::kClusterM;
    const int tile_n = tile.n * P::kClusterN + place.n;
    const unsigned to =
        base + stage * P::kStageBytes + P::kTileBytesX + place.m * kRows * kRowBytes;
    if constexpr (P::kPackedWeights) {
      const long long row =
          (static_cast<long long>(tile_n) * k_steps + step) * P::kTileN + place.m * kRows;
      bulk_load<P::kHintW, (P::kClusterM > 1)>(to, packed_w + row * kTileK, kRows * kRowBytes,
                                               full(stage), place.mask_w(), policy_w);
    } else {
      tma_load_2d<P::kHintW, (P::kClusterM > 1)>(to, w_map, step * kTileK,
                                                 tile_n * P::kTileN + place.m * kRows, full(stage),
                                                 place.mask_w(), policy_w);
    }
  }

  __device__ __forceinline__ int k_step(const Slice& slice, int iteration) const {
    return range.begin + slice.step(iteration, range.steps());
  }

  // Everything, by one thread. `prologue` may fill stages of its own before the tiles' (it then
  // says so here by `has_prologue`, and no weights are fetched ahead of it).
  template <class Prologue>
  __device__ __forceinline__ void run(bool has_prologue, const Prologue& prologue) {
    Ring<P::kStages> ring;
    int issued = 0;
    int early = 0;  // stages whose W is under way already
    if constexpr (P::kDependentLaunch) {
      if (!has_prologue) early = fetch_first_weights();
      dependency_wait();
    }
    prologue(ring);
    for (int i = 0; order.has(i); ++i) {
      const TileCoordinates tile = order.at(i);
      const Slice slice = slice_of<P>(order, tile, 0, place.k, range.steps());
      for (int iteration = 0; iteration < range.steps(); ++iteration) {
        const int step = k_step(slice, iteration);
        if (early > 0) {
          --early;
        } else {
          mbarrier_wait(base + P::kEmpty + 8 * ring.stage, ring.phase ^ 1);
          expect(ring.stage);
          load_w(ring.stage, tile, step);
        }
        load_x(ring.stage, tile, step);
        ring.next();
        if constexpr (P::kStatistics == Statistics::kGlobalRows) {
          store_shared_counter(base + P::kProgress, ++issued);
        }
      }
    }
    if constexpr (P::kDependentLaunch && P::kLateTrigger) launch_dependents();
    if constexpr (P::kClusterSize > P::kSplitK) {
      // Other blocks still arrive at our barriers: stay until they have.
      for (int i = 0; i < P::kStages; ++i) {
        mbarrier_wait(base + P::kEmpty + 8 * ring.stage, ring.phase ^ 1);
        ring.next();
      }
    }
  }

  // Weights do not depend on the launch before: fill the ring with them.
  __device__ __forceinline__ int fetch_first_weights() {
    int stage = 0;
    for (int i = 0; order.has(i) && stage < P::kStages; ++i) {
      const TileCoordinates tile = order.at(i);
      const Slice slice = slice_of<P>(order, tile, 0, place.k, range.steps());
      for (int iteration = 0; iteration < range.steps() && stage < P::kStages; ++iteration) {
        expect(stage);
        load_w(stage, tile, k_step(slice, iteration));
        ++stage;
      }
    }
    return stage;
  }
};

}  // namespace tenon::device::gemm
