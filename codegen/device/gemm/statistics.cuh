// Per-row sums over k: how they are taken, given to other blocks, and read.
//
// The sums are of pointwise functions of x with f(0) = 0 (the zero fill beyond K adds nothing).
//
// Blocks give sums to each other through a workspace (workspace.cuh), zero-filled once, before the
// first launch. Who needs a sum polls it until it carries this launch's number. Partials are added
// in slot order: results repeat bit for bit.
//
// Launches that share a workspace must not run at the same time, and all blocks of a launch must
// be resident (a persistent grid of one block per multiprocessor is).
#pragma once

#include "device/gemm/producer.cuh"
#include "device/gemm/spare_rows.cuh"
#include "device/gemm/workspace.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/shared.cuh"

namespace tenon::device::gemm {

// Adds a 64-row block of a stage's X tile: two threads share a row. The swizzle permutes 16-byte
// words inside a row only, so words are taken in an order free of bank conflicts.
template <class P, class Stats>
__device__ __forceinline__ void accumulate_block(float (&sums)[P::kSumSlots], unsigned block,
                                                 int thread) {
  const unsigned row = block + (thread / 2) * kRowBytes;
  uint4 v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = load_shared_16(row + ((thread + 2 * i) & 7) * 16);
  // Four chains of additions instead of one: the latency of 32 in a row would show.
  float parts[4][P::kSumSlots] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) accumulate_16<P, Stats>(parts[i], v[i]);
#pragma unroll
  for (int c = 0; c < P::kSums; ++c) {
    sums[c] += (parts[0][c] + parts[1][c]) + (parts[2][c] + parts[3][c]);
  }
}

// Joins the two threads of each row.
template <class P>
__device__ __forceinline__ void join_row_pairs(float (&sums)[P::kBlocks][P::kSumSlots]) {
#pragma unroll
  for (int b = 0; b < P::kBlocks; ++b) {
#pragma unroll
    for (int c = 0; c < P::kSums; ++c) {
      sums[b][c] += __shfl_xor_sync(0xffffffffu, sums[b][c], 1);
    }
  }
}

// Gives a warpgroup's slice to the tiles that add slices up. `first_row` is the warpgroup's, in Y,
// and the tile has `rows` from there on.
template <class P>
__device__ __forceinline__ void store_slice(const Workspace<P>& workspace, const Slice& slice,
                                            const float (&sums)[P::kBlocks][P::kSumSlots],
                                            int first_row, int rows, int thread, unsigned launch) {
#pragma unroll
  for (int b = 0; b < P::kBlocks; ++b) {
    const int row = 64 * b + thread / 2;
    if (thread % 2 == 0 && row < rows) {
#pragma unroll
      for (int c = 0; c < P::kSums; ++c) {
        store_tagged(workspace.partial(first_row + row, c, slice.slot), sums[b][c], launch);
      }
    }
  }
}

// The tiles that have slices share out the rows and add the slices of theirs, so that every other
// tile reads one word a row. By all readers; a row's slices are added by up to 32 lanes, each of
// them in slot order, and then over the lanes in order.
template <class P>
__device__ __forceinline__ void add_slices(const Workspace<P>& workspace, const Slice& slice,
                                           int first_row, int tile_rows, unsigned launch,
                                           int reader, int lane) {
  constexpr int kAtOnce = !P::kMovesRegisters || P::kProducerRegisters >= 56 + 8 * (P::kSums - 1)
                              ? 6
                          : P::kProducerRegisters >= 48 ? 4
                                                        : 2;
  const int begin = tile_rows * slice.slot / slice.slots;
  const int rows = tile_rows * (slice.slot + 1) / slice.slots - begin;
  const int across = min(rows, 32), lanes = 32 / across;  // rows side by side, lanes of a row
  const int mine = lane % across, part = lane / across;
  const int first_slot = slice.slots * part / lanes;
#pragma unroll 1
  for (int at = 32 * reader; at < rows; at += 32 * kReaderWarps) {
    const bool active = at + mine < rows && part < lanes;
#pragma unroll 1
    for (int c = 0; c < P::kSums; ++c) {
      unsigned long long* const to = workspace.total(first_row + begin + at + mine, c);
      const unsigned long long* from = to + 64 * (P::kSums - c + c * P::kPartials + first_slot);
      float sum = 0;
      int left = active ? slice.slots * (part + 1) / lanes - first_slot : 0;
#pragma unroll 1
      while (left > 0) {
        // All loads come before the first use: each round trip costs a microsecond or two.
        Tagged v[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          v[i] = i < left ? load_tagged(from + 64 * i) : Tagged{0, launch};
        }
        bool complete = true;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) complete &= v[i].tag == launch;
        if (complete) {
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) sum += v[i].value;
          left -= kAtOnce;
          from += 64 * kAtOnce;
        } else {
          __nanosleep(200);
        }
      }
      __syncwarp();
      float total = 0;
#pragma unroll 1
      for (int i = 0; i < lanes; ++i) {
        total += __shfl_sync(0xffffffffu, sum, mine + i * across);
      }
      if (active && part == 0) store_tagged(to, total, launch);
    }
  }
}

// kGlobalRows: a reader warp's rows pass through a small ring of its own, filled by bulk copies.
// (Loads into registers are not kept in flight: next to the consumers' registers the compiler
// issues them two or three at a time, and the sums come too late.)
//
// The row blocks that first appear in a wave are summed during that wave, each block taking a share
// of the rows whatever tile it multiplies. Rows are started no faster than the tile advances: all
// at once they would take the memory from the tiles. K is a multiple of 8.
template <class P, class Stats>
struct RowSummer {
  const Operands<typename P::T>& operands;
  unsigned base;  // shared memory
  int reader, lane;
  unsigned fetched = 0;  // chunks, since the launch began
  unsigned added = 0;
  int next_m = 0;

  __device__ __forceinline__ unsigned slot(unsigned chunk) const {
    return base + P::kRowRing + (reader * P::kRowSlots + chunk % P::kRowSlots) * kRowChunkBytes;
  }
  __device__ __forceinline__ unsigned full(unsigned chunk) const {
    return base + P::kRowFull + (reader * P::kRowSlots + chunk % P::kRowSlots) * 8;
  }

  // `left`: bytes from here to the end of the row.
  __device__ __forceinline__ void fetch(const char* from, int left) {
    if (lane == 0) {
      const int bytes = min(kRowChunkBytes, left);
      mbarrier_arrive_expect(full(fetched), bytes);
      bulk_load<P::kHintX, false>(slot(fetched), from, bytes, full(fetched), 0,
                                  cache_policy<P::kHintX>());
    }
    ++fetched;
  }

  __device__ __forceinline__ void add_chunk(float (&sums)[P::kSumSlots], int left) {
    mbarrier_wait(full(added), added / P::kRowSlots & 1);
#pragma unroll 1
    for (int offset = 16 * lane; offset < min(kRowChunkBytes, left); offset += 512) {
      accumulate_16<P, Stats>(sums, load_shared_16(slot(added) + offset));
    }
    __syncwarp();
    ++added;
  }

  __device__ __forceinline__ void publish(float (&sums)[P::kSumSlots], int row,
                                          const Workspace<P>& workspace) const {
#pragma unroll
    for (int c = 0; c < P::kSums; ++c) {
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) {
        sums[c] += __shfl_xor_sync(0xffffffffu, sums[c], distance);
      }
      if (lane == 0) store_tagged(workspace.total(row, c), sums[c], launch_number<P>(base));
    }
  }

  __device__ __forceinline__ void sum_wave(const TileOrder<P>& order, int wave, int k_steps,
                                           const Workspace<P>& workspace) {
    const int unit = order.tile_rows * P::kClusterM;
    const int first = next_m * unit;
    while (next_m < order.tiles_m && order.first_index(next_m) < (wave + 1) * order.clusters()) {
      ++next_m;
    }
    const int rows = min(next_m * unit, operands.m) - first;
    const int share = ceil_div(rows, gridDim.x);
    const int begin = first + static_cast<int>(blockIdx.x) * share;
    const int end = min(begin + share, first + rows);
    // Three quarters of the tile's steps over the share, so that the last row is not late.
    const int pace = order.has(wave) ? k_steps * 3 / 4 : 0;
    int due = wave * k_steps;
    int fetch_row = begin + reader, fetch_left = 2 * operands.k;
#pragma unroll 1
    for (int row = fetch_row; row < end; row += kReaderWarps) {
      float sums[P::kSumSlots] = {};
#pragma unroll 1
      for (int left = 2 * operands.k; left > 0;) {
        if (fetch_row < end && fetched - added < P::kRowSlots && is_due(pace, due)) {
          fetch(reinterpret_cast<const char*>(operands.x + fetch_row * operands.x_stride) +
                    (2 * operands.k - fetch_left),
                fetch_left);
          fetch_left -= kRowChunkBytes;
          if (fetch_left <= 0) {
            fetch_left = 2 * operands.k;
            fetch_row += kReaderWarps;
            due += pace * kReaderWarps / share;
          }
        } else if (fetched != added) {
          add_chunk(sums, left);
          left -= kRowChunkBytes;
        } else {
          __nanosleep(100);
        }
      }
      publish(sums, row, workspace);
    }
  }

  // May the row start? The same answer in every lane.
  __device__ __forceinline__ bool is_due(int pace, int due) const {
    if (pace == 0) return true;
    return __shfl_sync(0xffffffffu, load_shared_counter(base + P::kProgress), 0) >= due;
  }
};

// The sums of a tile's rows, whatever their source, to shared memory, by the threads of all
// readers: `mine` is a thread's first row, and every kReaderThreads-th one follows.
inline constexpr int kReaderThreads = 32 * kReaderWarps;
template <class P>
inline constexpr int kRounds = (P::kTileM + kReaderThreads - 1) / kReaderThreads;

template <class P>
__device__ __forceinline__ void read_external_sums(const Operands<typename P::T>& operands,
                                                   int first_row, float* rows, int mine) {
#pragma unroll
  for (int c = 0; c < P::kSums; ++c) {
    float v[kRounds<P>];
#pragma unroll
    for (int i = 0; i < kRounds<P>; ++i) {
      const int row = first_row + min(mine + i * kReaderThreads, P::kTileM - 1);
      v[i] = operands.row_sums[static_cast<long long>(min(row, operands.m - 1)) * P::kSums + c];
    }
#pragma unroll
    for (int i = 0; i < kRounds<P>; ++i) {
      const int row = mine + i * kReaderThreads;
      if (row < P::kTileM) rows[row * P::kSums + c] = v[i];
    }
  }
}

// Only the rows before `end`: others have no sums, or another tile's.
template <class P>
__device__ __forceinline__ void read_totals(const Workspace<P>& workspace, int first_row, int end,
                                            unsigned launch, float* rows, int mine) {
#pragma unroll
  for (int c = 0; c < P::kSums; ++c) {
    Tagged v[kRounds<P>];
#pragma unroll
    for (int i = 0; i < kRounds<P>; ++i) {
      const int row = first_row + min(mine + i * kReaderThreads, P::kTileM - 1);
      v[i] = row < end ? load_tagged(workspace.total(row, c)) : Tagged{1.0f, launch};
    }
#pragma unroll
    for (int i = 0; i < kRounds<P>; ++i) {
      const int row = mine + i * kReaderThreads;
      while (v[i].tag != launch) {
        __nanosleep(100);
        v[i] = load_tagged(workspace.total(first_row + min(row, P::kTileM - 1), c));
      }
      if (row < P::kTileM) rows[row * P::kSums + c] = v[i].value;
    }
  }
}

// The reader warps' whole work: for each of this block's tiles, rows' sums to shared memory.
template <class P, class Stats>
__device__ __forceinline__ void read_sums(const Operands<typename P::T>& operands, char* shared,
                                          int reader, int lane) {
  const TileOrder<P> order(operands);
  const ClusterPlace<P> place = cluster_place<P>();
  const int k_steps = k_range<P>(operands.k, place.k).steps();
  const Workspace<P> workspace(operands.workspace);
  const unsigned base = to_shared(shared);
  const int mine = reader * 32 + lane;
  if constexpr (P::kExchangesSums) {
    if (mine == 0) fetch_launch_number<P>(workspace, base);
    __syncwarp();
  }
  RowSummer<P, Stats> summer{operands, base, reader, lane};
  for (int step = 0; order.has_wave(step); ++step) {
    if constexpr (P::kStatistics == Statistics::kGlobalRows) {
      summer.sum_wave(order, step, k_steps, workspace);
    }
    if (!order.has(step)) break;
    const TileCoordinates tile = order.at(step);
    const int first_row = order.first_row(tile.m, place.m);
    const int buffer = step & 1;
    if constexpr (P::kExchangesSums) {
      mbarrier_wait(base + P::kSumsDue + 8 * buffer, step >> 1 & 1);
    }
    if constexpr (P::kStatistics == Statistics::kTileSlices) {
      const Slice slice = slice_of<P>(order, tile, place.n, place.k, k_steps);
      if (slice.slots > 0) {
        add_slices<P>(workspace, slice, first_row, order.tile_rows, launch_number<P>(base), reader,
                      lane);
      }
    }
    mbarrier_wait(base + P::kSumsEmpty + 8 * buffer, (step >> 1 & 1) ^ 1);
    float* rows = reinterpret_cast<float*>(shared + P::kRowSums) + buffer * P::kTileM * P::kSums;
    if constexpr (P::kExchangesSums) {
      read_totals<P>(workspace, first_row, min(first_row + order.tile_rows, operands.m),
                     launch_number<P>(base), rows, mine);
    } else {
      read_external_sums<P>(operands, first_row, rows, mine);
    }
    mbarrier_arrive_warp(base + P::kSumsFull + 8 * buffer, lane);
  }
  if constexpr (P::kExchangesSums) {
    // The last warp of the launch leaves the workspace as the next launch wants it.
    if (lane == 0 && counter_increment(workspace.counter()) == kReaderWarps * gridDim.x - 1) {
      *workspace.counter() = 0;
      *workspace.launches() = launch_number<P>(base);
    }
  }
}

}  // namespace tenon::device::gemm
