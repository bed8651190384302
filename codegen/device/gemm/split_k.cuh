// Split k over a cluster: each block has partial sums of the whole tile, takes a part of the
// columns, and sends the others' parts to their blocks.
//
// Same thread, same fragment position in every block: words travel from registers to the shared
// memory of the thread's twin, coalesced and free of conflicts, and are added in the order of the
// parts, so that results repeat bit for bit. A block waits for what it is sent before it ends, so
// nothing is ever written into a block that has gone.
#pragma once

#include "device/gemm/producer.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/shared.cuh"
#include "device/ptx/store_async.cuh"

namespace tenon::device::gemm {

// Where thread `thread` finds block `b`'s word `j` from source slot `slot` (sources without
// ourselves, in order), and, behind the words, its rows' sums.
template <class P>
__device__ __forceinline__ unsigned exchange_word(int slot, int b, int j, int thread) {
  return P::kExchange +
         (((slot * P::kBlocks + b) * P::kPartColumns8 + j) * P::kConsumerThreads + thread) * 16;
}
template <class P>
__device__ __forceinline__ unsigned exchange_sum(int slot, int i, int thread) {
  constexpr int kWords = (P::kSplitK - 1) * P::kBlocks * P::kPartColumns8 * 16;
  return P::kExchange + kWords * P::kConsumerThreads +
         ((slot * (2 * P::kBlocks * P::kSums) + i) * P::kConsumerThreads + thread) * 4;
}

// The sums travel only when the tile took them (each part has summed its own steps of k).
template <class P>
inline constexpr bool kSendsSums = P::kSums > 0 && P::kStatistics == Statistics::kTile;

template <class P>
inline constexpr int kExchangeArrivingBytes =
    (P::kSplitK - 1) * P::kConsumerThreads* P::kBlocks*(P::kPartColumns8 * 16 +
                                                        (kSendsSums<P> ? 2 * P::kSums * 4 : 0));

template <class P, int kTo>
__device__ __forceinline__ void send_part(const float (&acc)[P::kBlocks][P::kAccumulators],
                                          const float (&sums)[P::kBlocks][2][P::kSumSlots],
                                          unsigned base, const ClusterPlace<P>& place, int thread) {
  const int slot = place.k < kTo ? place.k : place.k - 1;
  const unsigned remote = cluster_map(base, ClusterPlace<P>::rank_of(place.m, place.n, kTo));
#pragma unroll
  for (int b = 0; b < P::kBlocks; ++b) {
#pragma unroll
    for (int j = 0; j < P::kPartColumns8; ++j) {
      const int i = 4 * (kTo * P::kPartColumns8 + j);
      store_async_16(remote + exchange_word<P>(slot, b, j, thread),
                     make_float4(acc[b][i], acc[b][i + 1], acc[b][i + 2], acc[b][i + 3]),
                     remote + P::kExchanged);
    }
    if constexpr (kSendsSums<P>) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int c = 0; c < P::kSums; ++c) {
          store_async_4(remote + exchange_sum<P>(slot, (2 * b + h) * P::kSums + c, thread),
                        sums[b][h][c], remote + P::kExchanged);
        }
      }
    }
  }
}

// Adds what came from the others to our own part, part 0 first.
template <class P, int kMine, class Store>
__device__ __forceinline__ void finish_part(float (&acc)[P::kBlocks][P::kAccumulators],
                                            float (&sums)[P::kBlocks][2][P::kSumSlots],
                                            unsigned base, int thread, const Store& store) {
#pragma unroll
  for (int b = 0; b < P::kBlocks; ++b) {
#pragma unroll
    for (int j = 0; j < P::kPartColumns8; ++j) {
      float* mine = acc[b] + 4 * (kMine * P::kPartColumns8 + j);
      float4 total = make_float4(0, 0, 0, 0);
#pragma unroll
      for (int part = 0; part < P::kSplitK; ++part) {
        const float4 v =
            part == kMine
                ? make_float4(mine[0], mine[1], mine[2], mine[3])
                : load_shared_float4(
                      base + exchange_word<P>(part < kMine ? part : part - 1, b, j, thread));
        total = make_float4(total.x + v.x, total.y + v.y, total.z + v.z, total.w + v.w);
      }
      mine[0] = total.x, mine[1] = total.y, mine[2] = total.z, mine[3] = total.w;
    }
    if constexpr (kSendsSums<P>) {
#pragma unroll
      for (int i = 0; i < 2 * P::kSums; ++i) {
        float& mine = sums[b][i / P::kSums][i % P::kSums];
        float total = 0;
#pragma unroll
        for (int part = 0; part < P::kSplitK; ++part) {
          total += part == kMine
                       ? mine
                       : load_shared_float(base + exchange_sum<P>(part < kMine ? part : part - 1,
                                                                  2 * b * P::kSums + i, thread));
        }
        mine = total;
      }
    }
  }
  store.template columns<kMine * P::kPartColumns8, P::kPartColumns8>(acc, store.rows(sums));
}

template <class P, int kPart = 0>
__device__ __forceinline__ void send_other_parts(const float (&acc)[P::kBlocks][P::kAccumulators],
                                                 const float (&sums)[P::kBlocks][2][P::kSumSlots],
                                                 unsigned base, const ClusterPlace<P>& place,
                                                 int thread) {
  if (kPart != place.k) send_part<P, kPart>(acc, sums, base, place, thread);
  if constexpr (kPart + 1 < P::kSplitK) {
    send_other_parts<P, kPart + 1>(acc, sums, base, place, thread);
  }
}

template <class P, class Store, int kPart = 0>
__device__ __forceinline__ void finish_own_part(float (&acc)[P::kBlocks][P::kAccumulators],
                                                float (&sums)[P::kBlocks][2][P::kSumSlots],
                                                unsigned base, const ClusterPlace<P>& place,
                                                int thread, const Store& store) {
  if (kPart == place.k) {
    finish_part<P, kPart>(acc, sums, base, thread, store);
  } else if constexpr (kPart + 1 < P::kSplitK) {
    finish_own_part<P, Store, kPart + 1>(acc, sums, base, place, thread, store);
  }
}

template <class P, class Store>
__device__ __forceinline__ void exchange_parts(float (&acc)[P::kBlocks][P::kAccumulators],
                                               float (&sums)[P::kBlocks][2][P::kSumSlots],
                                               unsigned base, const ClusterPlace<P>& place,
                                               int thread, const Store& store) {
  send_other_parts<P>(acc, sums, base, place, thread);
  mbarrier_wait_cluster(base + P::kExchanged, 0);
  finish_own_part<P>(acc, sums, base, place, thread, store);
}

}  // namespace tenon::device::gemm
