// Per-row sums over k: how they are taken, given to other blocks, and read.
//
// The sums are of pointwise functions of x with f(0) = 0 (the zero fill beyond K adds nothing).
//
// Workspace, zero-filled once, before the first launch: counter, flags[rows / 64] (rows padded to
// whole cluster tiles), then at the next multiple of 16 bytes partials[rows][count][kPartials].
// flags[b] counts arrivals for rows 64 b … 64 b + 63; who reads waits for the number it expects,
// and the last warp to leave zeroes all of them, so that the next launch finds what the first
// one found (kSpareBlocks has no flags, spare_rows.cuh). Partials are added in slot order: results
// repeat bit for bit.
//
// Launches that share a workspace must not run at the same time, and all blocks of a launch must
// be resident (a persistent grid of one block per multiprocessor is).
#pragma once

#include "device/gemm/producer.cuh"
#include "device/gemm/spare_rows.cuh"
#include "device/gemm/workspace.cuh"
#include "device/ptx/cache_hint.cuh"
#include "device/ptx/fence.cuh"
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

// Stores a warpgroup's slice; a reader warp publishes it (a fence in a consumer would stall the
// tensor core). `first_row` is the warpgroup's, in Y.
template <class P>
__device__ __forceinline__ void store_slice(const Workspace<P>& workspace, const Slice& slice,
                                            const float (&sums)[P::kBlocks][P::kSumSlots],
                                            int first_row, int thread) {
#pragma unroll
  for (int b = 0; b < P::kBlocks; ++b) {
    const int row = first_row + 64 * b + thread / 2;
    if (thread % 2 == 0) {
#pragma unroll
      for (int c = 0; c < P::kSums; ++c) {
        workspace.partials(row)[c * P::kPartials + slice.slot] = sums[b][c];
      }
    }
  }
}

// By one warp, once the consumers have stored: adds one to the flag of each 64 rows.
template <class P>
__device__ __forceinline__ void publish_slice(const Workspace<P>& workspace, int first_row,
                                              int lane) {
  if (lane < P::kTileM / 64) {
    fence_gpu();
    flag_add(workspace.flag(first_row + 64 * lane), 1);
  }
  __syncwarp();
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
      if (lane == 0) workspace.partials(row)[c] = sums[c];
    }
    if (lane == 0) {
      fence_gpu();
      flag_add(workspace.flag(row), 1);
    }
  }

  __device__ __forceinline__ void sum_wave(const TileOrder<P>& order, int wave, int k_steps,
                                           const Workspace<P>& workspace) {
    constexpr int kUnit = P::kTileM * P::kClusterM;
    const int first = next_m * kUnit;
    while (next_m < order.tiles_m && order.first_index(next_m) < (wave + 1) * order.clusters()) {
      ++next_m;
    }
    const int rows = min(next_m * kUnit, operands.m) - first;
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

// Waits until the sums of a tile's rows are complete. `contributors`: cluster tiles (kTileSlices).
template <class P>
__device__ __forceinline__ void wait_for_sums(const Workspace<P>& workspace, int first_row, int m,
                                              int contributors, int lane) {
  if (lane < P::kTileM / 64) {
    const int row = first_row + 64 * lane;
    const unsigned expected = P::kStatistics == Statistics::kTileSlices
                                  ? P::kClusterN * P::kSplitK * contributors
                                  : static_cast<unsigned>(max(0, min(64, m - row)));
    while (flag_load(workspace.flag(row)) < expected) __nanosleep(40);
    fence_gpu();
  }
  __syncwarp();
}

// Partials of one row in slot order, the first `slots` of them.
template <int kCount>
__device__ __forceinline__ float add_partials(const uint4 (&v)[kCount], int slots) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const unsigned words[4] = {v[i].x, v[i].y, v[i].z, v[i].w};
#pragma unroll
    for (int j = 0; j < 4; ++j) sum += 4 * i + j < slots ? __uint_as_float(words[j]) : 0;
  }
  return sum;
}

// The sums of a tile's rows, whatever their source, to shared memory. All loads come before the
// first use: under load each round trip costs more than a microsecond, and consumers may wait.
template <class P>
__device__ __forceinline__ void read_tile_sums(const Operands<typename P::T>& operands,
                                               const Workspace<P>& workspace, int first_row,
                                               int contributors, float* rows, int reader,
                                               int lane) {
  constexpr int kReaders = 32 * kReaderWarps;
  constexpr int kRounds = (P::kTileM + kReaders - 1) / kReaders;
  const int mine = reader * 32 + lane;
#pragma unroll
  for (int c = 0; c < P::kSums; ++c) {
    if constexpr (P::kStatistics == Statistics::kTileSlices) {
      constexpr int kVectors = P::kPartials / 4;
      const int slots = contributors * P::kClusterN * P::kSplitK;
      uint4 v[kRounds][kVectors];
#pragma unroll
      for (int i = 0; i < kRounds; ++i) {
        const int row = min(mine + i * kReaders, P::kTileM - 1);
        const float* from = workspace.partials(first_row + row) + c * P::kPartials;
#pragma unroll
        for (int j = 0; j < kVectors; ++j) v[i][j] = load_16_l2(from + 4 * j);
      }
#pragma unroll
      for (int i = 0; i < kRounds; ++i) {
        const int row = mine + i * kReaders;
        if (row < P::kTileM) rows[row * P::kSums + c] = add_partials(v[i], slots);
      }
    } else {
      float v[kRounds];
#pragma unroll
      for (int i = 0; i < kRounds; ++i) {
        const int row = first_row + min(mine + i * kReaders, P::kTileM - 1);
        if constexpr (P::kStatistics == Statistics::kExternal) {
          v[i] = operands.row_sums[static_cast<long long>(min(row, operands.m - 1)) * P::kSums + c];
        } else if constexpr (P::kStatistics == Statistics::kSpareBlocks) {
          v[i] = row < operands.m ? load_float_relaxed(workspace.partials(row) + c) : 1.0f;
        } else {
          v[i] = load_float_l2(workspace.partials(row) + c);
        }
      }
#pragma unroll
      for (int i = 0; i < kRounds; ++i) {
        const int row = mine + i * kReaders;
        if constexpr (P::kStatistics == Statistics::kSpareBlocks) {
          if (__float_as_uint(v[i]) == 0) {
            v[i] = wait_for_sum(workspace.partials(first_row + min(row, P::kTileM - 1)) + c);
          }
        }
        if (row < P::kTileM) rows[row * P::kSums + c] = v[i];
      }
    }
  }
}

// The reader warps' whole work: for each of this block's tiles, rows' sums to shared memory.
template <class P, class Stats>
__device__ __forceinline__ void read_sums(const Operands<typename P::T>& operands, char* shared,
                                          int reader, int lane) {
  const TileOrder<P> order(operands.m, operands.n);
  const ClusterPlace<P> place = cluster_place<P>();
  const int k_steps = k_range<P>(operands.k, place.k).steps();
  const Workspace<P> workspace(operands.workspace, order.tiles_m);
  const unsigned base = to_shared(shared);
  RowSummer<P, Stats> summer{operands, base, reader, lane};
  unsigned stored = 0;  // phases of kSliceStored, a bit for each tile parity
  for (int step = 0; order.has_wave(step); ++step) {
    if constexpr (P::kStatistics == Statistics::kGlobalRows) {
      summer.sum_wave(order, step, k_steps, workspace);
    }
    if (!order.has(step)) break;
    const TileCoordinates tile = order.at(step);
    const int first_row = (tile.m * P::kClusterM + place.m) * P::kTileM;
    const int buffer = step & 1;
    const unsigned phase = (step >> 1) & 1;
    int contributors = 1;
    if constexpr (P::kStatistics == Statistics::kTileSlices) {
      contributors = order.contributors(tile.m, k_steps);
      if (reader == 0 && tile.n < contributors) {
        mbarrier_wait(base + P::kSliceStored + 8 * buffer, stored >> buffer & 1);
        stored ^= 1u << buffer;
        publish_slice<P>(workspace, first_row, lane);
      }
    }
    mbarrier_wait(base + P::kSumsEmpty + 8 * buffer, phase ^ 1);
    if constexpr (P::kExchangesSums && P::kStatistics != Statistics::kSpareBlocks) {
      wait_for_sums<P>(workspace, first_row, operands.m, contributors, lane);
    }
    float* rows = reinterpret_cast<float*>(shared + P::kRowSums) + buffer * P::kTileM * P::kSums;
    read_tile_sums<P>(operands, workspace, first_row, contributors, rows, reader, lane);
    mbarrier_arrive_warp(base + P::kSumsFull + 8 * buffer, lane);
  }
  if constexpr (P::kExchangesSums) {
    unsigned before = 0;
    __syncwarp();
    if (lane == 0) before = counter_increment(workspace.counter());
    before = __shfl_sync(0xffffffffu, before, 0);
    if (before == kReaderWarps * gridDim.x - 1) {
      if (lane == 0) *workspace.counter() = 0;
      if constexpr (P::kStatistics == Statistics::kSpareBlocks) {
        clear_sums<P>(workspace, lane);
      } else {
        for (int i = lane; i < workspace.rows / 64; i += 32) *workspace.flag(64 * i) = 0;
      }
    }
  }
}

}  // namespace tenon::device::gemm
