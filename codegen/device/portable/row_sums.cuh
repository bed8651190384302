// Row sums: Σ over the elements of a row of functions that code generation writes.
//
// A pass streams one source along a row and adds to kCount sums. Generated as
//   struct Pass {
//     using Source = …;                      // element type; kRowStride, kColumnStride, kExtent
//     static constexpr bool kHasSource;
//     static constexpr int kFirst, kCount;   // its sums among the kernel's
//     struct Row { static Row make(args, m, sums); };        // what it uses of earlier sums
//     template <int V> struct Others;                        // runs of its other inputs
//     template <int V> static Others<V> load(args, m, k, valid);
//     template <int V> static void accumulate(float (&s)[kCount], row, others, float x, int j);
//     static const Source* source(args);
//   };
#pragma once

#include "device/portable/reduce.cuh"
#include "device/portable/run.cuh"

namespace tenon::device::portable {

// The source's run at (m, k); empty for a chain without a source.
template <class Chain, int V, class Args>
__device__ __forceinline__ Run<typename Chain::Source, V> load_source(const Args& args, int m,
                                                                      int k, int valid) {
  if constexpr (Chain::kHasSource) {
    const auto* p = Chain::source(args) + m * Chain::kRowStride + k * Chain::kColumnStride;
    return load_run<typename Chain::Source, V>(p, valid, Chain::kColumnStride);
  } else {
    Run<typename Chain::Source, V> run;
    run.clear();
    return run;
  }
}

// Adds the run x at (m, k), of which `valid` elements exist.
template <class Pass, int V, class Args>
__device__ __forceinline__ void accumulate_run(float (&s)[Pass::kCount], const Args& args,
                                               const typename Pass::Row& row,
                                               const Run<typename Pass::Source, V>& x, int m, int k,
                                               int valid) {
  const auto others = Pass::template load<V>(args, m, k, valid);
  if (valid >= V) {
#pragma unroll
    for (int j = 0; j < V; ++j) Pass::accumulate(s, row, others, x.at(j), j);
  } else {
#pragma unroll
    for (int j = 0; j < V; ++j)
      if (j < valid) Pass::accumulate(s, row, others, x.at(j), j);
  }
}

// The part of row m from element `begin` to `end`, shared by kLanes lanes of which this is `lane`.
template <class Pass, int V, int kLanes, class Args>
__device__ __forceinline__ void accumulate_row(float (&s)[Pass::kCount], const Args& args,
                                               const typename Pass::Row& row, int m, int lane,
                                               int begin, int end) {
#pragma unroll 8
  for (int k = begin + lane * V; k < end; k += kLanes * V) {
    const auto x = load_source<Pass, V>(args, m, k, end - k);
    accumulate_run<Pass, V>(s, args, row, x, m, k, end - k);
  }
}

// All sums of `Pass` for the rows m0 … m0 + kRows - 1 that exist, a warp a row, into
// sums[row × stride]. All threads of the block take part.
template <class Pass, int V, int kRows, int kThreads, class Args>
__device__ __forceinline__ void sum_rows(float* sums, int stride, const Args& args, int m0,
                                         int m_end) {
  for (int r = threadIdx.x / 32; r < kRows && m0 + r < m_end; r += kThreads / 32) {
    float* mine = sums + r * stride;
    const auto row = Pass::Row::make(args, m0 + r, mine);
    float s[Pass::kCount] = {};
    accumulate_row<Pass, V, 32>(s, args, row, m0 + r, threadIdx.x % 32, 0, Pass::kExtent);
#pragma unroll
    for (int i = 0; i < Pass::kCount; ++i) {
      s[i] = lanes_sum<32>(s[i]);
      if (threadIdx.x % 32 == 0) mine[Pass::kFirst + i] = s[i];
    }
    __syncwarp();  // the next pass of this warp reads them
  }
}

}  // namespace tenon::device::portable
