// Which tile a block computes when, and which tiles sum which slice of k.
//
// The grid is persistent: cluster c of C takes cluster tiles c, c + C, c + 2C, … of one linear
// order. A "wave" is the C tiles that start together.
#pragma once

#include "device/gemm/plan.cuh"

namespace tenon::device::gemm {

constexpr __device__ __forceinline__ int ceil_div(int a, int b) { return (a + b - 1) / b; }

struct TileCoordinates {
  int m, n;  // in cluster tiles
};

template <class P>
struct TileOrder {
  int tiles_m, tiles_n;  // cluster tiles
  int tile_rows;         // of X that a tile takes, up to kTileM (Operands)

  explicit __device__ __forceinline__ TileOrder(const Operands<typename P::T>& operands)
      : tiles_m(ceil_div(operands.m, P::kTileM * P::kClusterM)),
        tiles_n(ceil_div(operands.n, P::kTileN * P::kClusterN)),
        tile_rows(operands.tile_rows) {}

  // The first row of Y that block `place_m` of a cluster takes in cluster tile `m`.
  __device__ __forceinline__ int first_row(int m, int place_m) const {
    return (m * P::kClusterM + place_m) * tile_rows;
  }

  // Which cluster this is, and how many run.
  __device__ __forceinline__ int cluster() const { return blockIdx.x / P::kClusterSize; }
  __device__ __forceinline__ int clusters() const { return gridDim.x / P::kClusterSize; }

  __device__ __forceinline__ int index(int step) const { return cluster() + step * clusters(); }
  __device__ __forceinline__ bool has(int step) const { return index(step) < tiles_m * tiles_n; }
  __device__ __forceinline__ bool has_wave(int step) const {
    return step * clusters() < tiles_m * tiles_n;
  }

  __device__ __forceinline__ TileCoordinates at(int step) const {
    constexpr bool kM = P::kRaster == Raster::kAlongM;
    const int fast = kM ? tiles_m : tiles_n, slow = kM ? tiles_n : tiles_m;
    const int i = index(step);
    const int group = i / (P::kRasterGroup * slow);
    const int first = group * P::kRasterGroup;
    const int size = min(P::kRasterGroup, fast - first);
    const int rest = i - first * slow;
    const int f = first + rest % size, s = rest / size;
    return kM ? TileCoordinates{f, s} : TileCoordinates{s, f};
  }

  // Where row block `m` first appears in the order; it grows with m.
  __device__ __forceinline__ int first_index(int m) const {
    if constexpr (P::kRaster == Raster::kAlongM) {
      const int first = m / P::kRasterGroup * P::kRasterGroup;
      return first * tiles_n + (m - first);
    } else {
      return m * min(P::kRasterGroup, tiles_n);
    }
  }

  // How many cluster tiles of row block `m`, counted from n = 0, sum slices of k for it. They all
  // belong to the wave in which the row block first appears: a tile then waits only for tiles
  // that do not start after it, and no two blocks can wait for each other. With split k each part
  // has slices of its own steps (not fewer than kSlices / kSplitK).
  __device__ __forceinline__ int contributors(int m, int k_steps) const {
    constexpr bool kM = P::kRaster == Raster::kAlongM;
    const int group =
        kM ? min(P::kRasterGroup, tiles_m - m / P::kRasterGroup * P::kRasterGroup) : 1;
    const int available = kM ? tiles_n : min(P::kRasterGroup, tiles_n);
    const int index = first_index(m);
    const int wave_end = (index / clusters() + 1) * clusters();
    const int in_wave = (wave_end - 1 - index) / group + 1;
    const int limit = min(P::kSlices / P::kSplitK, k_steps) / P::kClusterN;
    return min(min(in_wave, available), max(limit, 1));
  }
};

// For the tile at cluster tile (m, n), `rank_n` within the cluster, `part` of k.
template <class P>
__device__ __forceinline__ Slice slice_of(const TileOrder<P>& order, TileCoordinates tile,
                                          int rank_n, int part, int k_steps) {
  if constexpr (P::kStatistics == Statistics::kTile) {
    return whole_slice(k_steps);
  } else if constexpr (P::kStatistics == Statistics::kTileSlices) {
    const int contributors = order.contributors(tile.m, k_steps);
    if (tile.n < contributors) {
      Slice slice = contributed_slice<P::kWalk>(k_steps, contributors * P::kClusterN,
                                                tile.n * P::kClusterN, rank_n);
      slice.slot = slice.slot * P::kSplitK + part;
      slice.slots *= P::kSplitK;
      return slice;
    }
  }
  return no_slice(k_steps);
}

}  // namespace tenon::device::gemm
