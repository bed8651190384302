// The epilogue warps: they add up the partial tiles of the streaming warps (and of the
// cluster's other blocks), obtain the rows' statistics once, apply the epilogue and store Y.
//
// A warp takes 4 rows of a tile at a time. Lanes l and l+16 share columns 4(l%4) .. +3 of row
// l/4 and add up every other streaming warp each; after that lane l goes on alone. A lane keeps
// its rows, so that statistics and what the epilogue makes of them stay in its registers. Sums
// are taken in one fixed order: equal inputs give equal bits.
//
// In a cluster, tile t belongs to block t % kCluster. The others store their sums into a
// buffer of the owner that is used once, so that no block ever waits for room, nor for the
// cluster's end: a block that has received all it expects has nothing left to be written to.
#pragma once

#include "device/ptx/cluster.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/pdl.cuh"
#include "device/ptx/store_async.cuh"
#include "device/small_m/config.cuh"
#include "device/small_m/element.cuh"
#include "device/small_m/params.cuh"
#include "device/small_m/streaming.cuh"

namespace tenon::device::small_m {

// Initializes the barriers that more than one warp uses. One thread.
template <class C, class Stats>
__device__ __forceinline__ void init_shared_barriers(unsigned barriers) {
  using L = Layout<C>;
  for (int i = 0; i < C::kPartials; ++i)
    mbarrier_init(barriers + 8 * (L::kEmptyBarrier + i), C::kEpilogueWarps * kWarpArrivals);
  if constexpr (C::kCluster > 1) {
    mbarrier_init(barriers + 8 * L::kReceivedSumsBarrier, 1);
    for (int i = 0; i < L::kOwnedTiles; ++i)
      mbarrier_init(barriers + 8 * (L::kReceivedBarrier + i), 1);
  }
  mbarrier_init_fence();
  if constexpr (C::kCluster > 1) {
    mbarrier_arrive_expect(barriers + 8 * L::kReceivedSumsBarrier,
                           L::kPeers * Stats::kCount * C::kRows * 4);
    for (int i = 0; i < L::kOwnedTiles; ++i) {
      mbarrier_arrive_expect(barriers + 8 * (L::kReceivedBarrier + i),
                             L::kPeers * L::kPartialBytes);
    }
  }
}

__device__ __forceinline__ float add_halves(float v) {
  return v + __shfl_xor_sync(0xffffffffu, v, 16);
}

// Four neighbouring columns of a row of Y, of which `count` exist. `alignment`: of Y's rows, in
// elements.
__device__ __forceinline__ void store_four(const Params& p, int m, int n, uint2 packed, int count,
                                           int alignment) {
  unsigned short* to = static_cast<unsigned short*>(p.y) + m * p.y_stride + n;
  if (alignment == 4 && count >= 4) {
    *reinterpret_cast<uint2*>(to) = packed;
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < count)
        to[i] = static_cast<unsigned short>((i < 2 ? packed.x : packed.y) >> 16 * (i % 2));
    }
  }
}

template <class C, class T, class Stats, class Epilogue>
struct EpilogueWarp {
  using L = Layout<C>;
  using Row = typename Epilogue::Row;
  static constexpr int kMine = L::kChunks / C::kEpilogueWarps;  // chunks of 4 rows
  static constexpr int kCount = Stats::kCount > 0 ? Stats::kCount : 1;

  const Params& p;
  const typename Epilogue::Args& args;
  char* shared;
  unsigned shared_at;
  int rank, warp, lane;
  Row rows[kMine];

  __device__ __forceinline__ int row(int i) const {
    return (i * C::kEpilogueWarps + warp) * 4 + lane % 16 / 4;
  }
  __device__ __forceinline__ int column() const { return lane % 4 * 4; }
  __device__ __forceinline__ unsigned barrier(int i) const {
    return shared_at + L::kBarriersAt + 8 * i;
  }
  // Which of the slots of block `to` holds what block `from` sends.
  __device__ __forceinline__ static int slot(int from, int to) {
    return (to - from - 1 + C::kCluster) % C::kCluster;
  }

  // The statistics of this block's columns.
  __device__ __forceinline__ void add_sums(float (&sums)[kMine][kCount]) const {
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
#pragma unroll
      for (int c = 0; c < Stats::kCount; ++c) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < C::kWarps; w += 2) {
          const int from = w + lane / 16;
          if (C::kWarps % 2 == 0 || from < C::kWarps) {
            sum += reinterpret_cast<const float*>(shared + L::kSumsAt +
                                                  from * L::kSumBytes)[c * C::kRows + row(i)];
          }
        }
        sums[i][c] = add_halves(sum);
      }
    }
  }

  __device__ __forceinline__ void send_sums(const float (&sums)[kMine][kCount]) const {
#pragma unroll
    for (int peer = 0; peer < L::kPeers; ++peer) {
      const int to = (rank + 1 + peer) % C::kCluster;
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
#pragma unroll
        for (int c = 0; c < Stats::kCount; ++c) {
          const unsigned at = shared_at + L::kReceivedSumsAt + slot(rank, to) * L::kSumBytes +
                              (c * C::kRows + row(i)) * 4;
          if (lane < 16 && lane % 4 == 0) {
            store_async_4(cluster_map(at, to), sums[i][c],
                          cluster_map(barrier(L::kReceivedSumsBarrier), to));
          }
        }
      }
    }
  }

  __device__ __forceinline__ void make_rows(float (&sums)[kMine][kCount]) {
    if constexpr (C::kCluster > 1 && Stats::kCount > 0) {
      mbarrier_wait_cluster(barrier(L::kReceivedSumsBarrier), 0);
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
#pragma unroll
        for (int c = 0; c < Stats::kCount; ++c) {
          float total = 0;  // in the order of the blocks, the same in every block
#pragma unroll
          for (int block = 0; block < C::kCluster; ++block) {
            total += block == rank ? sums[i][c]
                                   : reinterpret_cast<const float*>(
                                         shared + L::kReceivedSumsAt +
                                         slot(block, rank) * L::kSumBytes)[c * C::kRows + row(i)];
          }
          sums[i][c] = total;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      if (row(i) < p.m)
        rows[i] = Epilogue::row(args, row(i), Stats::kCount > 0 ? sums[i] : nullptr);
    }
  }

  __device__ __forceinline__ void add_partials(int buffer, float4 (&sums)[kMine]) const {
    const float* partials = reinterpret_cast<const float*>(shared + L::kPartialsAt +
                                                           buffer * C::kWarps * L::kPartialBytes);
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int at = partial_index(row(i), column());
      float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
      for (int w = 0; w < C::kWarps; w += 2) {
        const int from = w + lane / 16;
        if (C::kWarps % 2 == 0 || from < C::kWarps) {
          const float4 v =
              *reinterpret_cast<const float4*>(partials + from * (L::kPartialBytes / 4) + at);
          sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
      }
      sums[i] =
          make_float4(add_halves(sum.x), add_halves(sum.y), add_halves(sum.z), add_halves(sum.w));
    }
  }

  __device__ __forceinline__ void store(int tile, const float4 (&sums)[kMine],
                                        int alignment) const {
    const int n = tile * kTileRows + column();
    if (lane >= 16) return;
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int m = row(i);
      if (m < p.m && n < p.n) {
        const float v[4] = {sums[i].x, sums[i].y, sums[i].z, sums[i].w};
        float y[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          y[j] = n + j < p.n ? Epilogue::apply(args, rows[i], v[j], m, n + j) : 0;
        store_four(p, m, n, make_uint2(Element<T>::pack(y[0], y[1]), Element<T>::pack(y[2], y[3])),
                   p.n - n, alignment);
      }
    }
  }

  __device__ __forceinline__ void run(const Share& share) {
    const int alignment =
        reinterpret_cast<unsigned long long>(p.y) % 8 == 0 && p.y_stride % 4 == 0 ? 4 : 1;
    int buffer = 0;
    for (int tile = 0; tile < share.tiles; ++tile) {
      partial_wait<C>(buffer);
      float4 sums[kMine];
      float statistics[kMine][kCount];
      if (tile == 0) {
        add_sums(statistics);
        if constexpr (C::kCluster > 1) send_sums(statistics);
      }
      add_partials(buffer, sums);
      if (tile + C::kPartials < share.tiles) {
        mbarrier_arrive_warp(barrier(L::kEmptyBarrier + buffer), lane);
      }
      if (++buffer == C::kPartials) buffer = 0;

      if constexpr (C::kCluster > 1) {
        const int owner = tile % C::kCluster, owned = tile / C::kCluster;
        const unsigned received = L::kReceivedAt + owned * L::kPeers * L::kPartialBytes;
        if (rank != owner) {
          const unsigned at = shared_at + received + slot(rank, owner) * L::kPartialBytes;
          const unsigned to = cluster_map(at, owner),
                         complete = cluster_map(barrier(L::kReceivedBarrier + owned), owner);
#pragma unroll
          for (int i = 0; i < kMine; ++i) {
            if (lane < 16)
              store_async_16(to + (row(i) * kTileRows + column()) * 4, sums[i], complete);
          }
          if (tile == 0) make_rows(statistics);
          continue;
        }
        if (tile == 0) make_rows(statistics);
        mbarrier_wait_cluster(barrier(L::kReceivedBarrier + owned), 0);
#pragma unroll
        for (int i = 0; i < kMine; ++i) {
#pragma unroll
          for (int s = 0; s < L::kPeers; ++s) {
            const float4 v = *reinterpret_cast<const float4*>(
                shared + received + s * L::kPartialBytes + (row(i) * kTileRows + column()) * 4);
            sums[i].x += v.x, sums[i].y += v.y, sums[i].z += v.z, sums[i].w += v.w;
          }
        }
      } else {
        if (tile == 0) make_rows(statistics);
      }
      store(share.first_tile + tile, sums, alignment);
    }
  }
};

}  // namespace tenon::device::small_m
