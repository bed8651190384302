// Where blocks leave rows' sums for each other (statistics.cuh says how), and adding to such sums.
#pragma once

#include "device/gemm/plan.cuh"
#include "device/ptx/fence.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/shared.cuh"

namespace tenon::device::gemm {

// Two words, a counter of the warps that are done and the number of launches so far; then, from the
// next multiple of 16 bytes on, a record for every 64 rows: [sums][64] totals, and for kTileSlices
// [sums][kPartials][64] partial sums. Each has beside it the number of the launch that wrote it:
// what an earlier launch left is told apart by that, so nothing is cleared. Where a row's sums lie
// does not depend on m, so that launches of different m may follow each other on one workspace.
// Rows that follow each other are written and read together: scattered words cost the tiles' copies
// more time in the L2 than their bytes say.
template <class P>
struct Workspace {
  unsigned* base;

  explicit __device__ __forceinline__ Workspace(unsigned* workspace) : base(workspace) {}

  __device__ __forceinline__ unsigned* counter() const { return base; }
  __device__ __forceinline__ unsigned* launches() const { return base + 1; }
  static constexpr int kRecord = 64 * P::kSumSlots * (1 + P::kPartials);
  __device__ __forceinline__ unsigned long long* total(int row, int sum) const {
    return reinterpret_cast<unsigned long long*>(base + 4) +
           static_cast<long long>(row / 64) * kRecord + 64 * sum + row % 64;
  }
  __device__ __forceinline__ unsigned long long* partial(int row, int sum, int slot) const {
    return total(row, P::kSumSlots + sum * P::kPartials + slot);
  }
};

// The number of this launch, never 0, which is what a new workspace holds. One thread fetches it
// once the launch before is over; the others of the block wait for it.
template <class P>
__device__ __forceinline__ void fetch_launch_number(const Workspace<P>& workspace, unsigned base) {
  const unsigned number = load_word_relaxed(workspace.launches()) + 1;
  store_shared_counter(base + P::kLaunch, static_cast<int>(number == 0 ? 1 : number));
  mbarrier_arrive(base + P::kLaunchKnown);
}
template <class P>
__device__ __forceinline__ unsigned launch_number(unsigned base) {
  mbarrier_wait(base + P::kLaunchKnown, 0);
  return static_cast<unsigned>(load_shared_counter(base + P::kLaunch));
}

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

}  // namespace tenon::device::gemm
