// Per-row sums over k: how they are taken, given to other blocks, and read.
//
// The sums are of pointwise functions of x with f(0) = 0 (the zero fill beyond K adds nothing).
//
// Workspace, zero-filled once, before the first launch: counter, flags[rows / 64] (rows padded to
// whole cluster tiles), then at the next multiple of 16 bytes partials[rows][count][kPartials].
// flags[b] counts arrivals for rows 64 b … 64 b + 63; who reads waits for the number it expects,
// and the last warp to leave zeroes all of them, so that the next launch finds what the first
// one found. Partials are added in slot order: results repeat bit for bit.
//
// Launches that share a workspace must not run at the same time, and all blocks of a launch must
// be resident (a persistent grid of one block per multiprocessor is).
#pragma once

#include "device/gemm/producer.cuh"
#include "device/ptx/fence.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/shared.cuh"

namespace tenon::device::gemm {

template <class P>
struct Workspace {
  unsigned* base;
  int rows;  // padded

  __device__ __forceinline__ Workspace(unsigned* workspace, int tiles_m)
      : base(workspace), rows(tiles_m * P::kTileM * P::kClusterM) {}

  __device__ __forceinline__ unsigned* counter() const { return base; }
  __device__ __forceinline__ unsigned* flag(int row) const { return base + 1 + row / 64; }
  __device__ __forceinline__ float* partials(int row) const {
    return reinterpret_cast<float*>(base + (1 + rows / 64 + 3) / 4 * 4) +
           static_cast<long long>(row) * (P::kSumSlots * P::kPartials);
  }
};

// Adds the 8 elements of a 16-byte word.
template <class P, class Stats>
__device__ __forceinline__ void accumulate_16(float (&sums)[P::kSumSlots], const uint4& v) {
  const unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float low, high;
    Element<typename P::T>::unpack(words[i], low, high);
    Stats::accumulate(sums, low);
    Stats::accumulate(sums, high);
  }
}

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

// Publishes a warpgroup's slice. `first_row` is the warpgroup's, in Y.
template <class P>
__device__ __forceinline__ void publish_slice(const Workspace<P>& workspace, const Slice& slice,
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
  __syncwarp();
  if (thread % 32 == 0) {
    fence_gpu();
#pragma unroll
    for (int b = 0; b < P::kBlocks; ++b) flag_add(workspace.flag(first_row + 64 * b), 1);
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
  Workspace<P> workspace;
  unsigned base, ring, barriers;  // shared: this warp's slots and their barriers
  int reader, lane;
  Ring<kRowSlots> fill, drain;
  int next_m = 0;

  __device__ __forceinline__ RowSummer(const Operands<typename P::T>& all, const Workspace<P>& to,
                                       unsigned shared, int reader_warp, int lane_index)
      : operands(all),
        workspace(to),
        base(shared),
        ring(shared + P::kRowRing + reader_warp * kRowSlots * kRowChunkBytes),
        barriers(shared + P::kRowFull + reader_warp * kRowSlots * 8),
        reader(reader_warp),
        lane(lane_index) {}

  __device__ __forceinline__ int chunk_bytes(int chunk) const {
    return min(kRowChunkBytes, 2 * operands.k - chunk * kRowChunkBytes);
  }

  __device__ __forceinline__ void fetch(int row, int chunk) {
    if (lane == 0) {
      const char* x = reinterpret_cast<const char*>(operands.x + row * operands.x_stride);
      const unsigned barrier = barriers + 8 * fill.stage;
      mbarrier_arrive_expect(barrier, chunk_bytes(chunk));
      bulk_load<P::kHintX, false>(ring + fill.stage * kRowChunkBytes, x + chunk * kRowChunkBytes,
                                  chunk_bytes(chunk), barrier, 0, cache_policy<P::kHintX>());
    }
    fill.next();
  }

  __device__ __forceinline__ void add_chunk(float (&sums)[P::kSumSlots], int chunk) {
    mbarrier_wait(barriers + 8 * drain.stage, drain.phase);
    const unsigned from = ring + drain.stage * kRowChunkBytes;
#pragma unroll
    for (int offset = 0; offset < kRowChunkBytes; offset += 512) {
      if (offset + 16 * lane < chunk_bytes(chunk)) {
        accumulate_16<P, Stats>(sums, load_shared_16(from + offset + 16 * lane));
      }
    }
    __syncwarp();
    drain.next();
  }

  __device__ __forceinline__ void publish(float (&sums)[P::kSumSlots], int row) {
#pragma unroll
    for (int c = 0; c < P::kSums; ++c) {
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) {
        sums[c] += __shfl_xor_sync(0xffffffffu, sums[c], distance);
      }
      if (lane == 0) workspace.partials(row)[c] = sums[c];
      sums[c] = 0;
    }
    if (lane == 0) {
      fence_gpu();
      flag_add(workspace.flag(row), 1);
    }
  }

  __device__ __forceinline__ void sum_wave(const TileOrder<P>& order, int wave, int k_steps) {
    constexpr int kUnit = P::kTileM * P::kClusterM;
    const int first = next_m * kUnit;
    while (next_m < order.tiles_m && order.first_index(next_m) < (wave + 1) * order.clusters) {
      ++next_m;
    }
    const int rows = min(next_m * kUnit, operands.m) - first;
    if (rows <= 0) return;
    const int share = ceil_div(rows, gridDim.x);
    const int begin = first + static_cast<int>(blockIdx.x) * share + reader;
    const int end = min(begin - reader + share, first + rows);
    const int chunks = ceil_div(2 * operands.k, kRowChunkBytes);
    // Three quarters of the tile's steps, so that the last row is not late.
    const int pace = order.has(wave) ? k_steps * 3 / 4 : 0;
    float sums[P::kSumSlots] = {};
    int next_row = begin, next_chunk = 0;
    auto fetch_next = [&] {
      if (next_row >= end) return;
      if (next_chunk == 0 && pace > 0) {
        const int due = wave * k_steps + pace * (next_row - begin) / share;
        while (load_shared_counter(base + P::kProgress) < due) __nanosleep(100);
        __syncwarp();
      }
      fetch(next_row, next_chunk);
      if (++next_chunk == chunks) {
        next_chunk = 0;
        next_row += kReaderWarps;
      }
    };
#pragma unroll 1
    for (int i = 0; i < kRowSlots; ++i) fetch_next();
#pragma unroll 1
    for (int row = begin; row < end; row += kReaderWarps) {
#pragma unroll 1
      for (int chunk = 0; chunk < chunks; ++chunk) {
        add_chunk(sums, chunk);
        if (chunk == chunks - 1) publish(sums, row);
        fetch_next();
      }
    }
  }
};

// Waits until the sums of a tile's rows are complete. `contributors`: cluster tiles (kTileSlices).
template <class P>
__device__ __forceinline__ void wait_for_sums(const Workspace<P>& workspace, int first_row, int m,
                                              int contributors, int lane) {
  if (lane < P::kTileM / 64) {
    const int row = first_row + 64 * lane;
    const unsigned expected = P::kStatistics == Statistics::kTileSlices
                                  ? 4 * P::kClusterN * contributors
                                  : static_cast<unsigned>(max(0, min(64, m - row)));
    while (flag_load(workspace.flag(row)) < expected) __nanosleep(100);
    fence_gpu();
  }
  __syncwarp();
}

// One row's sums, whatever their source.
template <class P>
__device__ __forceinline__ void load_row_sums(const Operands<typename P::T>& operands,
                                              const Workspace<P>& workspace, int row,
                                              int contributors, float (&sums)[P::kSumSlots]) {
#pragma unroll
  for (int c = 0; c < P::kSums; ++c) {
    if constexpr (P::kStatistics == Statistics::kExternal) {
      sums[c] = row < operands.m ? operands.row_sums[static_cast<long long>(row) * P::kSums + c] : 0;
    } else {
      const int slots = P::kStatistics == Statistics::kTileSlices ? contributors * P::kClusterN : 1;
      constexpr int kAtOnce = P::kPartials < 4 ? P::kPartials : 4;
      sums[c] = 0;
      for (int first = 0; first < slots; first += kAtOnce) {
        float part[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          part[i] = first + i < slots ? load_shared_by_blocks(workspace.partials(row) +
                                                              c * P::kPartials + first + i)
                                      : 0;
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) sums[c] += part[i];
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
  RowSummer<P, Stats> summer(operands, workspace, base, reader, lane);
  for (int step = 0; order.has_wave(step); ++step) {
    if constexpr (P::kStatistics == Statistics::kGlobalRows) summer.sum_wave(order, step, k_steps);
    if (!order.has(step)) break;
    const TileCoordinates tile = order.at(step);
    const int first_row = (tile.m * P::kClusterM + place.m) * P::kTileM;
    const int buffer = step & 1;
    const unsigned phase = (step >> 1) & 1;
    int contributors = 1;
    if constexpr (P::kStatistics == Statistics::kTileSlices) {
      contributors = order.contributors(tile.m, k_steps);
    }
    mbarrier_wait(base + P::kSumsEmpty + 8 * buffer, phase ^ 1);
    if constexpr (P::kExchangesSums) {
      wait_for_sums<P>(workspace, first_row, operands.m, contributors, lane);
    }
    float* rows = reinterpret_cast<float*>(shared + P::kRowSums) + buffer * P::kTileM * P::kSums;
    for (int r = reader * 32 + lane; r < P::kTileM; r += 32 * kReaderWarps) {
      float sums[P::kSumSlots];
      load_row_sums<P>(operands, workspace, first_row + r, contributors, sums);
#pragma unroll
      for (int c = 0; c < P::kSums; ++c) rows[r * P::kSums + c] = sums[c];
    }
    __syncwarp();
    if (lane == 0) mbarrier_arrive(base + P::kSumsFull + 8 * buffer);
  }
  if constexpr (P::kExchangesSums) {
    unsigned before = 0;
    __syncwarp();
    if (lane == 0) before = counter_increment(workspace.counter());
    before = __shfl_sync(0xffffffffu, before, 0);
    if (before == kReaderWarps * gridDim.x - 1) {
      for (int i = lane; i < 1 + workspace.rows / 64; i += 32) workspace.base[i] = 0;
    }
  }
}

}  // namespace tenon::device::gemm
