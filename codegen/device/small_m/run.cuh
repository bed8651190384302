// Y = epilogue(statistics of X's rows, X · W'ᵀ) for few rows of X: one pass over W', which
// bounds the time; X lives in registers.
//
// Launch: block Layout<Config>::kThreads; grid groups · kCluster, clusters of kCluster along x,
// for any number of groups ≥ 1 (as many as can be resident is best); dynamic shared memory
// Layout<Config>::kSharedBytes. Cluster `i` of G gets tiles [i·T/G, (i+1)·T/G) of the
// T = ceil(N / 16) tiles; where kCluster > 1 that may be at most kMaxTiles.
//
// The functors, all of them static:
//   struct Stats { static constexpr int kCount;                 // 0, 1 or 2 sums a row
//                  static void accumulate(float (&s)[kCount], float x); };  // called once per k <
//                  K
//   struct Epilogue { struct Args; struct Row;
//                     static Row row(const Args&, int m, const float* sums);  // null if kCount is
//                     0 static float apply(const Args&, const Row&, float acc, int m, int n); };
#pragma once

#include "device/ptx/mbarrier.cuh"
#include "device/small_m/finishing.cuh"
#include "device/small_m/streaming.cuh"

namespace tenon::device::small_m {

// Columns of K a block has: as many units as the others, not as many as its warps could take.
template <class C>
__device__ __forceinline__ int block_columns(int k_padded) {
  if constexpr (C::kExactK) return C::kWarps * C::kColumns;
  const int units = (k_padded + C::kUnitColumns - 1) / C::kUnitColumns;
  return (units + C::kCluster - 1) / C::kCluster * C::kUnitColumns;
}

template <class C, class T, class Stats, class Epilogue>
__device__ __forceinline__ void run(const Params& p, const typename Epilogue::Args& args) {
  using L = Layout<C>;
  static_assert(sizeof(Check<C>) > 0);
  extern __shared__ __align__(128) char shared[];
  const unsigned shared_at = to_shared(shared);
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const int rank = C::kCluster > 1 ? static_cast<int>(cluster_rank()) : 0;
  const int groups = gridDim.x / C::kCluster, group = blockIdx.x / C::kCluster;
  if constexpr (C::kDependent) launch_dependents();

  if (threadIdx.x == 32 * C::kWarps) init_shared_barriers<C, Stats>(shared_at + L::kBarriersAt);
  if constexpr (C::kCluster > 1) {
    __syncwarp();
    cluster_arrive_relaxed();
  }

  const int tiles = (p.n + kTileRows - 1) / kTileRows;
  Share share;
  share.first_tile = static_cast<int>(static_cast<long long>(group) * tiles / groups);
  share.tiles =
      static_cast<int>(static_cast<long long>(group + 1) * tiles / groups) - share.first_tile;
  share.k_padded = padded_columns(p.k);
  const int span = block_columns<C>(share.k_padded);
  share.k0 = rank * span + warp * (C::kInterleaved ? C::kUnitColumns : C::kColumns);
  share.k_end = C::kExactK ? share.k_padded : min(share.k_padded, (rank + 1) * span);
  if (warp < C::kWarps) {
    stream_warp<C, T, Stats>(p, share, shared, shared_at, warp, lane);
  } else {
    block_ready<C>();
    if constexpr (C::kDependent)
      dependency_wait();  // the epilogue's arguments may be the predecessor's
    EpilogueWarp<C, T, Stats, Epilogue> finishing{
        p, args, shared, shared_at, rank, warp - C::kWarps, lane, {}};
    finishing.run(share);
  }
}

}  // namespace tenon::device::small_m
