// Y = epilogue(X · W'ᵀ) for up to 64 rows of X: one pass over W' with wgmma, X as the 64-row
// operand, shared by the blocks of a cluster.
//
// With so many rows X no longer fits in registers, and reading it once a block costs the path
// from L2 as much as W' does. So the blocks of a cluster take neighbouring columns of Y, each
// requests 1/kShare of every tile of X, and the copy engine delivers it to all of them.
//
// The sum of squares of X's rows comes from the tensor cores: a stage of the ring holds the
// tile of W' and behind it the tile of X, so one product X · [W'; X]ᵀ also yields X · Xᵀ, whose
// diagonal it is. No warp has to read X a second time.
//
// Launch: block kThreads; grid Multicast<C>::blocks(N) along x in clusters of kShare; dynamic
// shared memory kSharedBytes. Tensor maps, 16-bit elements, 128-byte swizzle, zero fill:
// X [M, K] with boxes of 64 columns × kRows / kShare rows, W' [N, K] with boxes of 64 columns ×
// kTileN rows. Both need rows that start at multiples of 16 bytes.
#pragma once

#include "device/ptx/cluster.cuh"
#include "device/ptx/fence.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/pdl.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/small_m/element.cuh"
#include "device/small_m/params.cuh"

namespace tenon::device::small_m {

template <class T>
inline constexpr WgmmaType kWgmmaType = WgmmaType::kBf16;
template <>
inline constexpr WgmmaType kWgmmaType<Fp16> = WgmmaType::kFp16;

// A complete schedule, also the documentation of each member.
struct ExampleMulticastConfig {
  static constexpr int kRows =
      64;  // rows of X, padded: a multiple of 8 · kShare up to 64; M is 1 .. kRows
  static constexpr int kTileN = 48;          // columns of Y a block: a multiple of 8, at most 192
  static constexpr int kStages = 14;         // tiles of 64 columns of K in the ring
  static constexpr int kShare = 4;           // blocks of a cluster that share X: 1, 2, 4 or 8
  static constexpr int kEarlyStages = 4;     // stages whose W' is requested before the dependency
  static constexpr bool kEvictFirst = true;  // W' leaves L2 first
  static constexpr bool kDependent = true;   // programmatic dependent launch
};

template <class C>
struct Multicast {
  static constexpr int kProductRows = 64, kStageColumns = 64;  // of X in a product, of K in a stage
  static constexpr int kConsumerWarps = 4, kThreads = 32 * (kConsumerWarps + 1);
  static constexpr int kWBytes = C::kTileN * kStageColumns * 2,
                       kXBytes = kProductRows * kStageColumns * 2;
  static constexpr int kSliceRows = C::kRows / C::kShare;  // of X that a block requests for all
  static constexpr int kArrivingBytes = kWBytes + C::kRows * kStageColumns * 2;
  static constexpr int kStageBytes = kWBytes + kXBytes;
  static constexpr int kBarriersAt = C::kStages * kStageBytes;
  static constexpr int kSharedBytes =
      kBarriersAt + C::kStages * 16 + 1024;  // 1024: to align the base
  static_assert(C::kTileN % 8 == 0 && C::kTileN >= 8 && C::kTileN + kProductRows <= 256,
                "kTileN is a multiple of 8, 8 to 192");
  static_assert(C::kShare == 1 || C::kShare == 2 || C::kShare == 4 || C::kShare == 8,
                "kShare is 1, 2, 4 or 8");
  static_assert(C::kRows >= 8 && C::kRows <= kProductRows && C::kRows % (8 * C::kShare) == 0,
                "kRows is a multiple of 8 · kShare, up to 64");
  static_assert(C::kStages >= 2 && C::kEarlyStages >= 0 && C::kEarlyStages <= C::kStages,
                "at least two stages; early ones fit in the ring");
  static_assert(kSharedBytes <= 232448, "at most 227 KB of shared memory a block");

  __host__ __device__ static constexpr int blocks(int n) {
    const int tiles = (n + C::kTileN - 1) / C::kTileN;
    return (tiles + C::kShare - 1) / C::kShare * C::kShare;
  }
};

template <class C>
struct MulticastRing {
  using L = Multicast<C>;
  unsigned base;
  __device__ __forceinline__ unsigned w(int s) const { return base + s * L::kStageBytes; }
  __device__ __forceinline__ unsigned x(int s) const { return w(s) + L::kWBytes; }
  __device__ __forceinline__ unsigned full(int s) const { return base + L::kBarriersAt + 16 * s; }
  __device__ __forceinline__ unsigned empty(int s) const { return full(s) + 8; }
};

// The producer warp, of which one lane works.
template <class C>
__device__ __forceinline__ void multicast_produce(const MulticastRing<C>& ring, const TensorMap* x,
                                                  const TensorMap* w, int rank, int steps,
                                                  int lane) {
  using L = Multicast<C>;
  constexpr CacheHint kHint = C::kEvictFirst ? CacheHint::kEvictFirst : CacheHint::kNone;
  const unsigned long long policy = cache_policy<kHint>();
  const int n0 = blockIdx.x * C::kTileN, row0 = rank * L::kSliceRows;
  const unsigned short everyone = static_cast<unsigned short>((1u << C::kShare) - 1);
  auto request_w = [&](int step, int s) {
    mbarrier_arrive_expect(ring.full(s), L::kArrivingBytes);
    tma_load_2d<kHint, false>(ring.w(s), w, step * L::kStageColumns, n0, ring.full(s), 0, policy);
  };
  auto request_x = [&](int step, int s) {
    const unsigned to = ring.x(s) + row0 * L::kStageColumns * 2;
    tma_load_2d<CacheHint::kNone, (C::kShare > 1)>(to, x, step * L::kStageColumns, row0,
                                                   ring.full(s), everyone, 0);
  };
  const int early = min(C::kEarlyStages, steps);
  if (lane == 0) {
    for (int i = 0; i < early; ++i) request_w(i, i);
  }
  __syncwarp();
  if constexpr (C::kDependent) dependency_wait();
  if constexpr (C::kShare > 1) cluster_wait();  // the others' barriers exist
  if (lane != 0) return;
  for (int i = 0; i < early; ++i) request_x(i, i);
  int s = early % C::kStages;
  unsigned parity = early == C::kStages ? 0 : 1;  // of a slot's phase before its first use
  for (int step = early; step < steps; ++step) {
    if (step >= C::kStages) mbarrier_wait_cluster(ring.empty(s), parity);
    request_w(step, s);
    request_x(step, s);
    if (++s == C::kStages) s = 0, parity ^= 1;
  }
}

// Gathers the diagonal of X · Xᵀ: the sums of the two rows of this lane.
template <int kFirst, int kCount>
__device__ __forceinline__ void gram_diagonal(const float (&d)[kCount], int warp, int lane,
                                              float (&sums)[2]) {
  // Row 16·warp + 8h + g has its square in column kFirst·8 + 16·warp + 8h + g: accumulator block
  // kFirst + 2·warp + h, lane (g, g / 2), element g % 2.
  const int g = lane / 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float even = 0, odd = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if (w == warp) {
        even = d[4 * (kFirst + 2 * w + h) + 2 * h];
        odd = d[4 * (kFirst + 2 * w + h) + 2 * h + 1];
      }
    }
    sums[h] = __shfl_sync(0xffffffffu, g % 2 ? odd : even, g * 4 + g / 2);
  }
}

template <class C, class T, class Stats, class Epilogue>
__device__ __forceinline__ void multicast_consume(const MulticastRing<C>& ring, const Params& p,
                                                  const typename Epilogue::Args& args, int steps,
                                                  int warp, int lane) {
  using L = Multicast<C>;
  constexpr bool kGram = Stats::kCount > 0;
  constexpr int kN = C::kTileN + (kGram ? L::kProductRows : 0);
  using Product = Wgmma<kWgmmaType<T>, kN>;
  float d[kN / 2] = {};
  // Rows of X past kRows never arrive. Leaving them to the copy engine's zero fill instead
  // costs more time than real rows.
  if constexpr (C::kRows < L::kProductRows) {
    constexpr int kWords = (L::kProductRows - C::kRows) * L::kStageColumns * 2 / 16;
    for (int i = threadIdx.x; i < C::kStages * kWords; i += 32 * L::kConsumerWarps) {
      const unsigned to = ring.x(i / kWords) + C::kRows * L::kStageColumns * 2 + i % kWords * 16;
      asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
    }
    fence_proxy_async_shared();
    asm volatile("bar.sync 1, %0;" ::"n"(32 * L::kConsumerWarps) : "memory");
  }
  if constexpr (C::kShare > 1) cluster_wait();
  int s = 0, last = 0;
  unsigned parity = 0;
  // A block's slot is refilled by all blocks of the cluster, so each learns that it is empty.
  auto release = [&](int slot) {
    if (lane < C::kShare) {
      mbarrier_arrive_cluster(cluster_map(ring.empty(slot), lane));
    }
  };
  for (int step = 0; step < steps; ++step) {
    mbarrier_wait(ring.full(s), parity);
    const unsigned a = wgmma_descriptor(ring.x(s)), b = wgmma_descriptor(ring.w(s));
    wgmma_pin(d);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < L::kStageColumns / 16; ++k) Product::multiply(d, a + 2 * k, b + 2 * k, 1);
    wgmma_commit();
    wgmma_wait<1>();
    // Only arrivals that some producer waits for: no one may write to a block that has ended.
    if (step > 0 && step - 1 + C::kStages < steps) release(last);
    last = s;
    if (++s == C::kStages) s = 0, parity ^= 1;
  }
  wgmma_wait<0>();
  wgmma_pin(d);

  if constexpr (C::kDependent) dependency_wait();
  float sums[2] = {};
  if constexpr (kGram) gram_diagonal<C::kTileN / 8>(d, warp, lane, sums);
  const int n0 = blockIdx.x * C::kTileN + lane % 4 * 2;
  const bool pairs = reinterpret_cast<unsigned long long>(p.y) % 4 == 0 && p.y_stride % 2 == 0;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int m = 16 * warp + 8 * h + lane / 4;  // those past M are zeros or missing
    if (m >= p.m) continue;
    const typename Epilogue::Row row = Epilogue::row(args, m, kGram ? sums + h : nullptr);
    unsigned short* y = static_cast<unsigned short*>(p.y) + m * p.y_stride;
#pragma unroll
    for (int j = 0; j < C::kTileN / 8; ++j) {
      const int n = n0 + 8 * j;
      if (n >= p.n) continue;
      const bool two = n + 1 < p.n;
      const float low = Epilogue::apply(args, row, d[4 * j + 2 * h], m, n);
      const float high = two ? Epilogue::apply(args, row, d[4 * j + 2 * h + 1], m, n + 1) : 0;
      const unsigned packed = Element<T>::pack(low, high);
      if (pairs && two) {
        *reinterpret_cast<unsigned*>(y + n) = packed;
      } else {
        y[n] = static_cast<unsigned short>(packed);
        if (two) y[n + 1] = static_cast<unsigned short>(packed >> 16);
      }
    }
  }
}

// `x` and `w` are the kernel's `const __grid_constant__ TensorMap` parameters; of `p` only y,
// y_stride, m, n and k are used. Stats has no sums, or one, which must be the sum of squares
// (kSquares says so).
template <class C, class T, class Stats, class Epilogue>
__device__ __forceinline__ void run_multicast(const TensorMap* x, const TensorMap* w,
                                              const Params& p,
                                              const typename Epilogue::Args& args) {
  using L = Multicast<C>;
  static_assert(Stats::kCount == 0 || (Stats::kCount == 1 && Stats::kSquares),
                "the multicast kernel knows one statistic, the sum of squares");
  extern __shared__ __align__(128) char shared[];
  const MulticastRing<C> ring{(to_shared(shared) + 1023) / 1024 * 1024};
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const int steps = (p.k + L::kStageColumns - 1) / L::kStageColumns;
  if constexpr (C::kDependent) launch_dependents();
  if (threadIdx.x == 32 * L::kConsumerWarps) {
    tma_prefetch_map(w);
    tma_prefetch_map(x);
    for (int s = 0; s < C::kStages; ++s) {
      mbarrier_init(ring.full(s), 1);
      mbarrier_init(ring.empty(s), L::kConsumerWarps * C::kShare);
    }
    mbarrier_init_fence();
  }
  __syncwarp();
  if constexpr (C::kShare > 1) {
    cluster_arrive_relaxed();
  } else {
    __syncthreads();
  }
  if (warp < L::kConsumerWarps) {
    multicast_consume<C, T, Stats, Epilogue>(ring, p, args, steps, warp, lane);
  } else {
    const int rank = C::kShare > 1 ? static_cast<int>(cluster_rank()) : 0;
    multicast_produce<C>(ring, x, w, rank, steps, lane);
  }
}

}  // namespace tenon::device::small_m
