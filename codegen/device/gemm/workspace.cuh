// Where blocks leave rows' sums for each other (statistics.cuh says how), and adding to such sums.
#pragma once

#include "device/gemm/plan.cuh"

namespace tenon::device::gemm {

template <class P>
struct Workspace {
  unsigned* base;
  int rows;  // padded

  __device__ __forceinline__ Workspace(unsigned* workspace, int tiles_m)
      : base(workspace), rows(tiles_m * P::kTileM * P::kClusterM) {}

  __device__ __forceinline__ unsigned* counter() const { return base; }
  // A counter, then for every 64 rows a flag and their sums. Where a row's flag lies does not
  // depend on m, so that launches of different m may follow each other on one workspace.
  static constexpr int kRecordWords = 4 + 64 * P::kSumSlots * P::kPartials;
  __device__ __forceinline__ unsigned* flag(int row) const {
    return base + 4 + static_cast<long long>(row / 64) * kRecordWords;
  }
  __device__ __forceinline__ float* partials(int row) const {
    return reinterpret_cast<float*>(flag(row) + 4) + row % 64 * (P::kSumSlots * P::kPartials);
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

}  // namespace tenon::device::gemm
