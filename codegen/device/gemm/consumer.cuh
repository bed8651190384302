// The consumer warpgroups: multiply the stages, then scale, round and store the tile.
#pragma once

#include "device/gemm/producer.cuh"
#include "device/gemm/split_k.cuh"
#include "device/gemm/statistics.cuh"
#include "device/gemm/store.cuh"
#include "device/ptx/cluster.cuh"

namespace tenon::device::gemm {

// Tells every block that writes into our stage (ourselves, and who multicasts to us) that this
// warp has read it.
template <class P>
__device__ __forceinline__ void release_stage(unsigned base, const ClusterPlace<P>& place,
                                              int stage, int lane) {
  const unsigned barrier = base + P::kEmpty + 8 * stage;
  if (lane == 0) mbarrier_arrive(barrier);
  if constexpr (P::kClusterM * P::kClusterN > 1) {
    // The others: along n first, then along m.
    int m = place.m, n = place.n;
    if (lane < P::kClusterN - 1) {
      n = lane + (lane >= place.n);
    } else {
      m = lane - (P::kClusterN - 1);
      m += m >= place.m;
    }
    if (lane < P::kClusterN + P::kClusterM - 2) {
      mbarrier_arrive_cluster(cluster_map(barrier, ClusterPlace<P>::rank_of(m, n, place.k)));
    }
  }
}

// Multiplies `steps` stages into `acc`, and sums the slice's on the way while the tensor core
// works. The last stage is still being read on return; `last` names it. In ping-pong `other_turn`
// is told once all is issued.
// `finish_sums` is called once, when the slice is complete.
template <class P, class Stats, class Finish>
__device__ __forceinline__ void multiply_stages(float (&acc)[P::kBlocks][P::kAccumulators],
                                                float (&sums)[P::kBlocks][P::kSumSlots],
                                                const ClusterPlace<P>& place, unsigned base,
                                                int group_row, Ring<P::kStages>& ring, int steps,
                                                const Slice& slice, int thread, unsigned other_turn,
                                                unsigned sums_due, int& last,
                                                const Finish& finish_sums) {
  using Multiply = Wgmma<Element<typename P::T>::kWgmma, P::kTileN>;
  int next_sum = slice.first;
  last = ring.stage;
  for (int step = 0; step < steps; ++step) {
    mbarrier_wait(base + P::kFull + 8 * ring.stage, ring.phase);
    const unsigned x = base + ring.stage * P::kStageBytes + group_row * kRowBytes;
    const unsigned x_tile = wgmma_descriptor(x);
    const unsigned w_tile = wgmma_descriptor(base + ring.stage * P::kStageBytes + P::kTileBytesX);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kTileK / 16; ++k) {
#pragma unroll
      for (int b = 0; b < P::kBlocks; ++b) {
        Multiply::multiply(acc[b], x_tile + b * (64 * kRowBytes / 16) + 2 * k, w_tile + 2 * k,
                           k > 0 ? 1 : step);
      }
    }
    wgmma_commit();
    if constexpr (P::kPingPong) {
      // Two steps are queued now: the other warpgroup can start without a gap.
      if (step == steps - 1 && thread % 32 == 0) mbarrier_arrive(other_turn);
    }
    wgmma_wait<1>();
    if (step > 0) release_stage<P>(base, place, last, thread % 32);
    // After the release, which must not be late; this step's product still runs meanwhile.
    if constexpr (P::kSumsInTiles) {
      if (step == next_sum) {
#pragma unroll
        for (int b = 0; b < P::kBlocks; ++b) {
          accumulate_block<P, Stats>(sums[b], x + b * 64 * kRowBytes, thread);
        }
        next_sum = slice.after(step);
        if (next_sum == Slice::kNever) finish_sums(sums);
      }
    }
    if constexpr (P::kExchangesSums) {
      if (step == slice.due && thread % 32 == 0) mbarrier_arrive(sums_due);
    }
    last = ring.stage;
    ring.next();
  }
}

// The rows' sums as the accumulator layout wants them: this thread's rows are 8 h + lane / 4 of
// its warp's 16 rows of each block.
template <class P>
__device__ __forceinline__ void spread_row_sums(const float (&sums)[P::kBlocks][P::kSumSlots],
                                                float (&mine)[P::kBlocks][2][P::kSumSlots],
                                                int lane) {
#pragma unroll
  for (int b = 0; b < P::kBlocks; ++b) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int c = 0; c < P::kSums; ++c) {
        mine[b][h][c] = __shfl_sync(0xffffffffu, sums[b][c], 16 * h + lane / 4 * 2);
      }
    }
  }
}

template <class P, class Stats, class Epilogue>
__device__ __forceinline__ void consume(const Operands<typename P::T>& operands,
                                        const typename Epilogue::Args& arguments, char* shared,
                                        int group) {
  using Store = TileStore<P, Epilogue>;
  const TileOrder<P> order(operands);
  const ClusterPlace<P> place = cluster_place<P>();
  const KRange range = k_range<P>(operands.k, place.k);
  const unsigned base = to_shared(shared);
  const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
  const int group_row = P::kPingPong ? 0 : group * P::kGroupRows;
  Ring<P::kStages> ring;
  if constexpr (P::kHasSpareBlocks) {
    sum_spare_rows<P, Stats>(operands, spare_rows<P>(order, operands.m, operands.k),
                             Workspace<P>(operands.workspace), base, group, lane, warp, ring,
                             [&](int stage) { release_stage<P>(base, place, stage, lane); });
  }
  int turn = 0;  // how many tiles this warpgroup has multiplied
  for (int step = 0; order.has(step); ++step) {
    if (P::kPingPong && (step & 1) != group) {
      ring.skip(range.steps());
      continue;
    }
    const TileCoordinates tile = order.at(step);
    const int tile_row = order.first_row(tile.m, place.m), first_row = tile_row + group_row;
    const int first_column = (tile.n * P::kClusterN + place.n) * P::kTileN;
    const Slice slice = slice_of<P>(order, tile, place.n, place.k, range.steps());

    float acc[P::kBlocks][P::kAccumulators];
    float sums[P::kBlocks][P::kSumSlots] = {};
    int last;
    if constexpr (P::kPingPong) {
      // The other warpgroup's multiplication comes first: its arrivals count our turns.
      mbarrier_wait(base + P::kTurn + 8 * group, (turn & 1) ^ (group == 0));
      ++turn;
    }
#pragma unroll
    for (int b = 0; b < P::kBlocks; ++b) wgmma_pin(acc[b]);
    multiply_stages<P, Stats>(
        acc, sums, place, base, group_row, ring, range.steps(), slice, thread,
        base + P::kTurn + 8 * (group ^ 1), base + P::kSumsDue + 8 * (step & 1), last,
        [&](float(&all)[P::kBlocks][P::kSumSlots]) {
          join_row_pairs<P>(all);
          if constexpr (P::kStatistics == Statistics::kTileSlices) {
            store_slice<P>(Workspace<P>(operands.workspace), slice, all, first_row,
                           order.tile_rows - group_row, thread, launch_number<P>(base));
          }
        });
    wgmma_wait<0>();
#pragma unroll
    for (int b = 0; b < P::kBlocks; ++b) wgmma_pin(acc[b]);
    release_stage<P>(base, place, last, lane);

    float mine[P::kBlocks][2][P::kSumSlots] = {};
    if constexpr (P::kSums > 0 && P::kStatistics == Statistics::kTile) {
      spread_row_sums<P>(sums, mine, lane);
    } else if constexpr (P::kReadsSums) {
      const int buffer = step & 1;
      mbarrier_wait(base + P::kSumsFull + 8 * buffer, (step >> 1) & 1);
      const float* rows =
          reinterpret_cast<const float*>(shared + P::kRowSums) + buffer * P::kTileM * P::kSums;
#pragma unroll
      for (int b = 0; b < P::kBlocks; ++b) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int row = group_row + 64 * b + 16 * warp + 8 * h + lane / 4;
#pragma unroll
          for (int c = 0; c < P::kSums; ++c) mine[b][h][c] = rows[row * P::kSums + c];
        }
      }
      mbarrier_arrive_warp(base + P::kSumsEmpty + 8 * buffer, lane);
    }

    const Store store{operands,
                      arguments,
                      first_row + 16 * warp,
                      first_column,
                      min(tile_row + order.tile_rows, operands.m),
                      base + P::kStaging + (group * 4 + warp) * kStagingBytes,
                      lane};
    if constexpr (P::kSplitK == 1) {
      store.template columns<0, P::kTileN / 8>(acc, store.rows(mine));
    } else {
      exchange_parts<P>(acc, mine, base, place, group * 128 + thread, store);
    }
  }
}

}  // namespace tenon::device::gemm
