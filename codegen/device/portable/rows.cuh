// The rows family: kGroup threads compute one row, first its sums in passes, then its outputs.
// A source that fits is read once and kept in registers between passes and outputs.
//
// Generated as
//   struct Kernel {
//     using Args = …; static long long rows(args);
//     static constexpr int kThreads, kGroup, kRun, kSplits, kSums, kPasses, kOutputs, kRowOutputs;
//     static constexpr bool kDependent;
//     using CachedSource = …; static constexpr int kCachedRuns;   // 0: none
//     template <int p> using Pass = …;       // row_sums.cuh; kCached: streams the cached source
//     template <int o> using Output = …;     // a chain, apply(row, others, x, j) and a target
//     template <int o> using RowOutput = …;  // Row, value(row) and a target
//   };
#pragma once

#include "device/portable/launch.cuh"
#include "device/portable/row_sums.cuh"
#include "device/portable/split.cuh"

namespace tenon::device::portable {

template <class K>
struct RowsKernel {
  using Args = typename K::Args;
  static constexpr int V = K::kRun;
  static constexpr int kRows = K::kThreads / K::kGroup;
  static constexpr int kSums = K::kSums > 0 ? K::kSums : 1;
  static constexpr int kCached = K::kCachedRuns > 0 ? K::kCachedRuns : 1;
  static constexpr bool kWholeBlock = K::kGroup > 32;
  static_assert(kWholeBlock ? K::kGroup == K::kThreads : K::kThreads % K::kGroup == 0,
                "a row is computed by part of a warp or by the whole block");

  using Cache = Run<typename K::CachedSource, V>[kCached];

  static __device__ __forceinline__ void load_cache(Cache& cache, const Args& args, int m,
                                                    int lane) {
    using Chain = typename K::Cached;
#pragma unroll
    for (int r = 0; r < K::kCachedRuns; ++r) {
      const int k = (r * K::kGroup + lane) * V;
      if (k < Chain::kExtent)
        cache[r] = load_source<Chain, V>(args, m, k, Chain::kExtent - k);
      else
        cache[r].clear();
    }
  }

  template <class Pass>
  static __device__ __forceinline__ void run_pass(float (&sums)[kSums], const Cache& cache,
                                                  const Args& args, int m, int lane,
                                                  float* scratch) {
    const auto row = Pass::Row::make(args, m, sums);
    float s[Pass::kCount] = {};
    if constexpr (Pass::kCached) {
#pragma unroll
      for (int r = 0; r < K::kCachedRuns; ++r) {
        const int k = (r * K::kGroup + lane) * V;
        if (k < Pass::kExtent)
          accumulate_run<Pass, V>(s, args, row, cache[r], m, k, Pass::kExtent - k);
      }
    } else {
      constexpr int kStep = K::kGroup * V;
      constexpr int kShare =
          ((Pass::kExtent + kStep - 1) / kStep + K::kSplits - 1) / K::kSplits * kStep;
      const int begin = min(Pass::kExtent, static_cast<int>(blockIdx.y) * kShare);
      const int end = min(Pass::kExtent, begin + kShare);
      accumulate_row<Pass, V, K::kGroup>(s, args, row, m, lane, begin, end);
    }
    if constexpr (kWholeBlock) {
      block_sum<K::kThreads>(s, scratch);
    } else {
#pragma unroll
      for (int i = 0; i < Pass::kCount; ++i) s[i] = lanes_sum<K::kGroup>(s[i]);
    }
#pragma unroll
    for (int i = 0; i < Pass::kCount; ++i) sums[Pass::kFirst + i] = s[i];
  }

  // Merges the sums of all parts of the row; false in the blocks that are not the last.
  static __device__ __forceinline__ bool merge_parts(float (&sums)[kSums], const Args& args,
                                                     long long slot, int lane) {
    const long long slots = static_cast<long long>(gridDim.x) * kRows;
    if (lane == 0) {
#pragma unroll
      for (int i = 0; i < K::kSums; ++i)
        args.partials[(blockIdx.y * slots + slot) * K::kSums + i] = sums[i];
    }
    if (!last_to_arrive(args.counters + blockIdx.x, K::kSplits)) return false;
#pragma unroll
    for (int i = 0; i < K::kSums; ++i) {
      sums[i] = 0.f;
      for (int part = 0; part < K::kSplits; ++part)
        sums[i] += __ldcg(args.partials + (part * slots + slot) * K::kSums + i);
    }
    return true;
  }

  template <class Output>
  static __device__ __forceinline__ void write_run(const Args& args,
                                                   const typename Output::Row& row,
                                                   const Run<typename Output::Source, V>& x, int m,
                                                   int n) {
    const int valid = Output::kExtent - n;
    const auto others = Output::template load<V>(args, m, n, valid);
    float y[V];
#pragma unroll
    for (int j = 0; j < V; ++j) y[j] = Output::apply(row, others, x.at(j), j);
    auto* target =
        Output::target(args) + m * Output::kTargetRowStride + n * Output::kTargetColumnStride;
    store_run<typename Output::Target, V>(target, y, valid, Output::kTargetColumnStride);
  }

  template <class Output>
  static __device__ __forceinline__ void run_output(const float (&sums)[kSums], const Cache& cache,
                                                    const Args& args, int m, int lane) {
    const auto row = Output::Row::make(args, m, sums);
    if constexpr (Output::kCached) {
#pragma unroll
      for (int r = 0; r < K::kCachedRuns; ++r) {
        const int n = (r * K::kGroup + lane) * V;
        if (n < Output::kExtent) write_run<Output>(args, row, cache[r], m, n);
      }
    } else {
#pragma unroll 2
      for (int n = lane * V; n < Output::kExtent; n += K::kGroup * V) {
        const auto x = load_source<Output, V>(args, m, n, Output::kExtent - n);
        write_run<Output>(args, row, x, m, n);
      }
    }
  }

  static __device__ __forceinline__ void run(const Args& args) {
    __shared__ float scratch[kSums * (K::kThreads + 31) / 32];
    await_predecessor<K::kDependent>();
    const int lane = threadIdx.x % K::kGroup;
    const long long slot = static_cast<long long>(blockIdx.x) * kRows + threadIdx.x / K::kGroup;
    // Threads past the last row recompute it, so that all of them meet at the barriers.
    const bool exists = slot < K::rows(args);
    const int m = static_cast<int>(exists ? slot : K::rows(args) - 1);

    Cache cache;
    if constexpr (K::kCachedRuns > 0) load_cache(cache, args, m, lane);
    float sums[kSums] = {};
    static_for<K::kPasses>([&](auto p) {
      run_pass<typename K::template Pass<decltype(p)::value>>(sums, cache, args, m, lane, scratch);
    });
    if constexpr (K::kSplits > 1) {
      if (!merge_parts(sums, args, slot, lane)) return;
    }
    if (!exists) return;
    static_for<K::kOutputs>([&](auto o) {
      run_output<typename K::template Output<decltype(o)::value>>(sums, cache, args, m, lane);
    });
    static_for<K::kRowOutputs>([&](auto o) {
      using Output = typename K::template RowOutput<decltype(o)::value>;
      if (lane == 0) {
        const auto row = Output::Row::make(args, m, sums);
        Output::target(args)[m * Output::kTargetRowStride] =
            Element<typename Output::Target>::from_float(Output::value(row));
      }
    });
  }
};

}  // namespace tenon::device::portable
