// kSpareBlocks: the blocks that get a tile less than others sum all rows before their first tile.
//
// A persistent grid of C clusters and T tiles leaves C - T mod C clusters without work at the end
// (all 132 multiprocessors have a tile in every wave but the last). That time is moved to the
// front: these blocks stream X through the ring of stages, whole rows at a time and at the full
// rate of their copy engines, and publish each row's sums; then they take their tiles. The others
// have their sums long before their first tile is multiplied, and no tile pays for them. X is in
// the L2 afterwards. Where no cluster is spare, all take part.
//
// Readers poll the sums themselves (workspace.cuh): no fences and no counters between a row and its
// readers.
#pragma once

#include "device/gemm/producer.cuh"
#include "device/gemm/workspace.cuh"

namespace tenon::device::gemm {

// The chunks of rows that a block sums: `first`, `first` + `stride`, …, `count` of them, the same
// number in all blocks of a cluster, which share their stages. Chunks past the last row are empty.
struct SpareRows {
  int first, stride, count;
  int rows;  // of a chunk

  __device__ __forceinline__ int first_row(int i) const { return (first + i * stride) * rows; }
  __device__ __forceinline__ int rows_of(int i, int m) const {
    return max(0, min(rows, m - first_row(i)));
  }
};

template <class P>
__device__ __forceinline__ SpareRows spare_rows(const TileOrder<P>& order, int m, int k) {
  SpareRows out{0, 0, 0, P::kStageBytes / (2 * k)};
  const int busy = order.tiles_m * order.tiles_n % order.clusters();
  if (order.cluster() < busy) return out;
  out.first = static_cast<int>(blockIdx.x) - busy * P::kClusterSize;
  out.stride = (order.clusters() - busy) * P::kClusterSize;
  out.count = ceil_div(ceil_div(m, out.rows), out.stride);
  return out;
}

// By the producing thread: the chunks, as the first stages of the ring.
template <class P>
__device__ __forceinline__ void load_spare_rows(const Operands<typename P::T>& operands,
                                                const SpareRows& mine, unsigned base,
                                                Ring<P::kStages>& ring) {
  for (int i = 0; i < mine.count; ++i) {
    const int rows = mine.rows_of(i, operands.m);
    const unsigned full = base + P::kFull + 8 * ring.stage;
    mbarrier_wait(base + P::kEmpty + 8 * ring.stage, ring.phase ^ 1);
    mbarrier_arrive_expect(full, 2 * operands.k * rows);
    for (int r = 0; r < rows; ++r) {
      bulk_load<CacheHint::kNone, false>(base + ring.stage * P::kStageBytes + 2 * operands.k * r,
                                         operands.x + (mine.first_row(i) + r) * operands.x_stride,
                                         2 * operands.k, full, 0, 0);
    }
    ring.next();
  }
}

// One row by one warp, in four chains of additions: four words are on their way before the first is
// used, which a condition between them would prevent.
template <class P, class Stats>
__device__ __forceinline__ void sum_row(float (&sums)[P::kSumSlots], unsigned row, int k,
                                        int lane) {
  float parts[4][P::kSumSlots] = {};
  const unsigned end = row + 2 * k;
  unsigned at = row + 16 * lane;
#pragma unroll 1
  for (; at + 3 * 512 < end; at += 4 * 512) {
    uint4 v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = load_shared_16(at + 512 * i);
#pragma unroll
    for (int i = 0; i < 4; ++i) accumulate_16<P, Stats>(parts[i], v[i]);
  }
#pragma unroll 1
  for (; at < end; at += 512) accumulate_16<P, Stats>(parts[0], load_shared_16(at));
#pragma unroll
  for (int c = 0; c < P::kSums; ++c) {
    sums[c] = (parts[0][c] + parts[1][c]) + (parts[2][c] + parts[3][c]);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      sums[c] += __shfl_xor_sync(0xffffffffu, sums[c], distance);
    }
  }
}

// By the consumers, before their tiles. In ping-pong the warpgroups take turns, as with tiles.
template <class P, class Stats, class Release>
__device__ __forceinline__ void sum_spare_rows(const Operands<typename P::T>& operands,
                                               const SpareRows& mine, const Workspace<P>& workspace,
                                               unsigned base, int group, int lane, int warp,
                                               Ring<P::kStages>& ring, const Release& release) {
  // Rows are dealt out to the warps one after another across chunks: a chunk may have fewer rows
  // than there are warps.
  constexpr int kWorkers = 4 * P::kTeam;
  int next = P::kPingPong ? warp : 4 * group + warp;
#pragma unroll 1
  for (int i = 0; i < mine.count; ++i) {
    // Also of a chunk that is the other warpgroup's: copies may end out of order, and nobody may
    // wait for a stage's next filling before it was filled this time.
    mbarrier_wait(base + P::kFull + 8 * ring.stage, ring.phase);
    if (P::kPingPong && (i & 1) != group) {
      ring.next();
      continue;
    }
    const int rows = mine.rows_of(i, operands.m);
#pragma unroll 1
    for (; next < rows; next += kWorkers) {
      float sums[P::kSumSlots];
      sum_row<P, Stats>(sums, base + ring.stage * P::kStageBytes + 2 * operands.k * next,
                        operands.k, lane);
      if (lane == 0) {
        const unsigned launch = launch_number<P>(base);
#pragma unroll
        for (int c = 0; c < P::kSums; ++c)
          store_tagged(workspace.total(mine.first_row(i) + next, c), sums[c], launch);
      }
    }
    next -= rows;
    __syncwarp();
    release(ring.stage);
    ring.next();
  }
}

}  // namespace tenon::device::gemm
