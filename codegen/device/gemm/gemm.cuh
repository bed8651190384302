// Y = epilogue(X · Wᵀ): a persistent, warp-specialized product for sm_90a.
//
// A block is one producer warpgroup (its first warp issues bulk copies, the others bring the
// rows' sums) and one to three consumer warpgroups on the tensor cores. X [m, k] and W [n, k] are
// row-major; W has the normalization's gain folded in already.
//
// What generated code supplies:
//   struct Stats {                       // sums over k of functions of x with f(0) = 0
//     static constexpr int kCount;
//     static __device__ void accumulate(float (&sums)[kCount or 1], float x);
//   };
//   struct Epilogue {
//     struct Args; struct Row;
//     static __device__ Row row(const Args&, int m, const float* sums);
//     static __device__ float apply(const Args&, const Row&, float acc, int m, int n);
//   };
// and the kernel, `extern "C" __global__ void __launch_bounds__(P::kThreads, 1)`, with the tensor
// maps as `const __grid_constant__` parameters, that calls run<Config, T, Stats, Epilogue>.
//
// Launch: P::kThreads threads, P::kSharedBytes bytes of dynamic shared memory, clusters of
// P::kClusterSize blocks, a grid of min(cluster tiles, clusters that fit) clusters — with
// kSpareBlocks all clusters that fit, else with split k exactly one cluster per tile. A cluster
// has at most one tile with split k.
#pragma once

#include "device/gemm/consumer.cuh"
#include "device/ptx/setmaxnreg.cuh"

namespace tenon::device::gemm {

template <class P>
__device__ __forceinline__ void init_barriers(unsigned base) {
  constexpr int kWriters = P::kClusterM + P::kClusterN - 1;  // blocks that fill a stage together
  for (int i = 0; i < P::kStages; ++i) {
    mbarrier_init(base + P::kFull + 8 * i, 1);
    mbarrier_init(base + P::kEmpty + 8 * i, 4 * P::kTeam * kWriters);
  }
  for (int i = 0; i < 2; ++i) {
    mbarrier_init(base + P::kTurn + 8 * i, 4);
    mbarrier_init(base + P::kSumsFull + 8 * i, kReaderWarps * kWarpArrivals);
    mbarrier_init(base + P::kSumsEmpty + 8 * i, 4 * P::kTeam * kWarpArrivals);
    mbarrier_init(base + P::kSumsDue + 8 * i, 4 * P::kTeam);
  }
  mbarrier_init(base + P::kExchanged, 1);
  mbarrier_init(base + P::kLaunchKnown, 1);
  store_shared_counter(base + P::kProgress, 0);
  if constexpr (P::kReadsRows) {
    for (int i = 0; i < kReaderWarps * P::kRowSlots; ++i) {
      mbarrier_init(base + P::kRowFull + 8 * i, 1);
    }
  }
  mbarrier_init_fence();
  if constexpr (P::kSplitK > 1) {
    mbarrier_arrive_expect(base + P::kExchanged, kExchangeArrivingBytes<P>);
  }
}

template <class Config, class T, class Stats, class Epilogue>
__device__ __forceinline__ void run(const TensorMap& x_map, const TensorMap& w_map,
                                    const Operands<T>& operands,
                                    const typename Epilogue::Args& arguments) {
  using P = Plan<Config, T, Stats>;
  extern __shared__ __align__(1024) char shared[];
  const unsigned base = to_shared(shared);
  // 0: producers. The shuffle tells the compiler that it is the same in all of a warp, which keeps
  // what derives from it (stages, descriptors) in uniform registers.
  const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);

  if (threadIdx.x == 0) {
    tma_prefetch_map(&x_map);
    if constexpr (!P::kPackedWeights) tma_prefetch_map(&w_map);
    init_barriers<P>(base);
  }
  if constexpr (P::kClusterSize > 1) {
    __syncwarp();
    cluster_arrive_relaxed();
    cluster_wait();
  }
  __syncthreads();
  if constexpr (P::kDependentLaunch && !P::kLateTrigger) launch_dependents();

  // Each role works out its own tile order: what they shared would stay in registers, or not fit.
  if (group == 0) {
    if constexpr (P::kMovesRegisters) registers_give_up<P::kProducerRegisters>();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0) {
      if (lane == 0) {
        const ClusterPlace<P> place = cluster_place<P>();
        Producer<P> producer{&x_map,
                             &w_map,
                             operands.packed_w,
                             TileOrder<P>(operands),
                             place,
                             k_range<P>(operands.k, place.k),
                             ceil_div(operands.k, kTileK),
                             base,
                             cache_policy<P::kHintX>(),
                             cache_policy<P::kHintW>()};
        if constexpr (P::kHasSpareBlocks) {
          const SpareRows mine = spare_rows<P>(producer.order, operands.m, operands.k);
          producer.run(mine.count > 0, [&](Ring<P::kStages>& ring) {
            load_spare_rows<P>(operands, mine, base, ring);
          });
        } else {
          producer.run(false, [](Ring<P::kStages>&) {});
        }
      }
    } else if constexpr (P::kReadsSums) {
      if constexpr (P::kDependentLaunch) dependency_wait();
      read_sums<P, Stats>(operands, shared, warp - 1, lane);
    }
  } else {
    if constexpr (P::kMovesRegisters) registers_take<P::kConsumerRegisters>();
    consume<P, Stats, Epilogue>(operands, arguments, shared, group - 1);
  }
}

}  // namespace tenon::device::gemm
