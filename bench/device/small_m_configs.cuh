// The schedules, test cases and shapes of small_m_bench.cu.
#pragma once

#include <deque>
#include <string>
#include <type_traits>
#include <vector>

#include "device/small_m/multicast.cuh"
#include "device/small_m/run.cuh"

#ifndef TENON_BENCH_PARTS
#define TENON_BENCH_PARTS 0xff
#endif

using namespace tenon::device::small_m;

struct SumOfSquares {
  static constexpr int kCount = 1;
  static constexpr bool kSquares = true;  // s[0] is the sum of squares
  __device__ static void accumulate(float (&s)[1], float x) { s[0] += x * x; }
};

struct RmsNorm {
  struct Args {
    float eps, inverse_k;
  };
  struct Row {
    float r;
  };
  __device__ static Row row(const Args& a, int, const float* sums) {
    return {rsqrtf(sums[0] * a.inverse_k + a.eps)};
  }
  __device__ static float apply(const Args&, const Row& row, float acc, int, int) {
    return acc * row.r;
  }
};

template <class C, class T>
__global__ void __launch_bounds__(Layout<C>::kThreads, C::kBlocksPerSm)
    small_m_kernel(Params p, RmsNorm::Args args) {
  run<C, T, SumOfSquares, RmsNorm>(p, args);
}

template <class C, class T>
__global__ void __launch_bounds__(Multicast<C>::kThreads, 1)
    multicast_kernel(const __grid_constant__ tenon::device::TensorMap x,
                     const __grid_constant__ tenon::device::TensorMap w, Params p,
                     RmsNorm::Args args) {
  run_multicast<C, T, SumOfSquares, RmsNorm>(&x, &w, p, args);
}

struct Variant {
  std::string name;
  const void* kernel;
  int threads, shared_bytes, cluster, blocks_per_sm, most_tiles;
  bool packed, fp16;
  int tile_n = 0, share = 0, mc_rows = 0;  // of the multicast kernel
  bool dependent = true;
};
struct Entry {
  const Variant* variant;
  int groups = 0;  // 0: balanced
  double error = 0;
};
struct Shape {
  int m, k, n;
  double goal_plain, goal_chain;
  std::vector<Entry> entries;
};
struct Test {
  const Variant* variant;
  int m, n, k, x_offset;
  long long x_pitch;
  int groups;
};

inline std::vector<Variant*>& variants() {
  static std::vector<Variant*> all;
  return all;
}

constexpr Weights kBulk = Weights::kPackedBulk, kAsync = Weights::kPackedAsync,
                  kRegs = Weights::kPackedRegisters, kRows_ = Weights::kRowsAsync;

// rows, streaming warps, columns a warp, columns a unit, stages, cluster; then what seldom varies.
template <int R, int W, int Col, int U, int S, int Cl = 1, int Tiles = 0, Weights Path = kBulk,
          int Blocks = 1, int Early = 2, int Epi = 0, int Partials = 2, int Chains = 1,
          bool Exact = true, int Staged = -1, bool StatsFirst = false, bool First = true,
          bool Aligned = true, bool Inter = false>
struct Cfg {
  static constexpr int kRows = R, kWarps = W, kColumns = Col, kUnitColumns = U, kStages = S,
                       kCluster = Cl, kMaxTiles = Tiles, kBlocksPerSm = Blocks, kEarlyUnits = Early,
                       kEpilogueWarps = Epi       ? Epi
                                        : R >= 16 ? 4
                                                  : 2,
                       kPartials = Partials, kChains = Chains;
  static constexpr Weights kWeights = Path;
  static constexpr bool kEvictFirst = First, kDependent = true, kExactK = Exact, kExactX = Exact,
                        kXAligned = Aligned, kStatsFirst = StatsFirst, kInterleaved = Inter;
  // Staged where it fits, unless said otherwise.
  static constexpr int kXSlots = (Col * R + U * 16 - 1) / (U * 16), kXSlotColumns = U * 16 / R;
  static constexpr bool kXStaged = Staged >= 0
                                       ? Staged != 0
                                       : Aligned && Path != kRegs && Early + kXSlots <= S &&
                                             (kXSlotColumns == 32 || kXSlotColumns % 64 == 0);
};

// The same with units of the warps alternating along K.
template <class C>
struct Il : C {
  static constexpr bool kInterleaved = true;
};

// The same without programmatic dependent launch (for the plain setting only).
template <class C>
struct Plain : C {
  static constexpr bool kDependent = false;
};

// One Variant per instantiation, made on first use.
template <class C, class T = Bf16>
const Variant* get() {
  static Variant* v = [] {
    const char* path = C::kWeights == kBulk    ? "bulk"
                       : C::kWeights == kAsync ? "async"
                       : C::kWeights == kRegs  ? "regs"
                                               : "rows";
    char name[160];
    snprintf(name, sizeof name, "%s r%d w%d c%d u%d s%d cl%d b%d e%d ep%d p%d ch%d%s%s%s%s%s%s",
             path, C::kRows, C::kWarps, C::kColumns, C::kUnitColumns, C::kStages, C::kCluster,
             C::kBlocksPerSm, C::kEarlyUnits, C::kEpilogueWarps, C::kPartials, C::kChains,
             C::kXStaged ? " st" : "", C::kStatsFirst ? " sf" : "", C::kInterleaved ? " il" : "",
             C::kDependent ? "" : " plain", C::kExactK ? "" : " ragged",
             C::kEvictFirst ? "" : " nohint");
    auto* made = new Variant{name,
                             (const void*)small_m_kernel<C, T>,
                             Layout<C>::kThreads,
                             Layout<C>::kSharedBytes,
                             C::kCluster,
                             C::kBlocksPerSm,
                             C::kCluster > 1 ? C::kMaxTiles : 1 << 20,
                             C::kWeights != kRows_,
                             std::is_same<T, Fp16>::value,
                             0,
                             0,
                             0,
                             C::kDependent};
    variants().push_back(made);
    return made;
  }();
  return v;
}

template <int N, int S, int Share, int Early, int Rows = 64>
struct McCfg {
  static constexpr int kRows = Rows, kTileN = N, kStages = S, kShare = Share, kEarlyStages = Early;
  static constexpr bool kEvictFirst = true, kDependent = true;
};
template <class C, class T = Bf16>
const Variant* get_multicast() {
  static Variant* v = [] {
    char name[160];
    snprintf(name, sizeof name, "multicast r%d n%d s%d share%d e%d", C::kRows, C::kTileN,
             C::kStages, C::kShare, C::kEarlyStages);
    auto* made = new Variant{name,
                             (const void*)multicast_kernel<C, T>,
                             Multicast<C>::kThreads,
                             Multicast<C>::kSharedBytes,
                             C::kShare,
                             1,
                             1 << 20,
                             false,
                             std::is_same<T, Fp16>::value,
                             C::kTileN,
                             C::kShare,
                             C::kRows};
    variants().push_back(made);
    return made;
  }();
  return v;
}

// rows, warps, columns, unit, stages, cluster, tiles, path, blocks, early, epilogue warps,
// partials, chains
inline std::vector<Shape>& shapes() {
  static std::vector<Shape> all = [] {
    std::vector<Shape> s;
    if (TENON_BENCH_PARTS & 1) {
#if TENON_BENCH_PARTS & 1
      std::vector<Entry> one = {
          {get<Cfg<8, 16, 256, 128, 3>>()},
          {get<Cfg<8, 16, 256, 128, 3, 1, 0, kBulk, 1, 1>>()},
          {get<Cfg<8, 16, 256, 128, 3, 1, 0, kBulk, 1, 3>>()},
          {get<Cfg<8, 16, 256, 128, 3, 1, 0, kBulk, 1, 2, 0, 2, 2>>()},
          {get<Il<Cfg<8, 16, 256, 128, 3>>>()},
          {get<Il<Cfg<8, 8, 512, 256, 3>>>()},
          {get<Il<Cfg<8, 8, 512, 256, 3, 1, 0, kBulk, 1, 3>>>()},
          {get<Il<Cfg<8, 16, 256, 64, 6>>>()},
          {get<Il<Cfg<8, 16, 256, 128, 3, 1, 0, kAsync>>>()},
          {get<Il<Cfg<8, 16, 256, 128, 3, 1, 0, kRows_>>>()},
          {get<Il<Cfg<8, 16, 256, 128, 3, 1, 0, kRows_, 1, 1>>>()},
          {get<Il<Cfg<8, 16, 256, 128, 3, 1, 0, kRows_, 1, 2, 0, 1, 2>>>()},
          {get<Il<Cfg<8, 16, 256, 64, 6, 1, 0, kRows_>>>()},
          {get<Il<Cfg<8, 8, 512, 128, 6, 1, 0, kRows_, 1, 3>>>()},
          {get<Il<Cfg<8, 8, 512, 256, 3, 1, 0, kRows_>>>()},
          {get<Il<Cfg<8, 8, 256, 128, 6, 2, 6, kRows_, 1, 3, 0, 1, 2>>>()},
          {get<Il<Cfg<8, 8, 256, 128, 6, 2, 6, kBulk, 1, 4, 0, 1, 2>>>()},
          {get<Cfg<8, 16, 256, 128, 3, 1, 0, kRows_, 1, 1>>()},
          {get<Cfg<8, 16, 256, 64, 6, 1, 0, kRows_>>()},
          {get<Cfg<8, 16, 256, 64, 6>>()},
          {get<Cfg<8, 16, 256, 256, 1, 1, 0, kBulk, 1, 1>>()},
          {get<Cfg<8, 8, 512, 128, 6>>()},
          {get<Cfg<8, 8, 512, 256, 3>>()},
          {get<Cfg<8, 8, 512, 256, 3, 1, 0, kBulk, 1, 1>>()},
          {get<Cfg<8, 8, 512, 256, 3, 1, 0, kBulk, 1, 3>>()},
          {get<Cfg<8, 8, 512, 256, 3, 1, 0, kBulk, 1, 2, 0, 2, 2>>()},
          {get<Cfg<8, 8, 512, 128, 3, 1, 0, kBulk, 2>>()},
          {get<Cfg<8, 8, 512, 128, 3, 1, 0, kBulk, 2, 1>>()},
          {get<Cfg<8, 8, 512, 64, 6, 1, 0, kBulk, 2>>()},
          {get<Cfg<8, 8, 256, 128, 2, 2, 2, kBulk, 3, 1>>()},
          {get<Cfg<8, 8, 256, 64, 4, 2, 2, kBulk, 3, 2>>()},
          {get<Cfg<8, 4, 1024, 256, 6>>()},
          {get<Cfg<8, 4, 1024, 256, 3, 1, 0, kBulk, 2>>()},
          {get<Cfg<8, 8, 256, 256, 3, 2, 6>>()},
          {get<Cfg<8, 8, 256, 128, 3, 2, 3, kBulk, 2>>()},
          {get<Cfg<8, 8, 256, 128, 2, 2, 6, kRegs, 1>>()},
          {get<Cfg<8, 16, 256, 128, 3, 1, 0, kAsync>>()},
          {get<Cfg<8, 8, 512, 128, 6, 1, 0, kAsync>>()},
          {get<Cfg<8, 8, 512, 128, 3, 1, 0, kAsync, 2>>()},
          {get<Cfg<8, 16, 256, 128, 3, 1, 0, kRows_>>()},
          {get<Cfg<8, 8, 512, 128, 6, 1, 0, kRows_>>()},
          {get<Cfg<8, 8, 512, 256, 3, 1, 0, kRows_>>()},
      };
      s.push_back({1, 4096, 6144, 13.2, 11.6, one});
      std::vector<Entry> wide;
      for (auto& e : one)
        if (e.variant->cluster == 1)
          wide.push_back(e), wide.push_back({e.variant, 132 * e.variant->blocks_per_sm});
      s.push_back({1, 4096, 28672, 55.5, 54.3, wide});
#endif
    }
    if (TENON_BENCH_PARTS & 2) {
#if TENON_BENCH_PARTS & 2
      std::vector<Entry> sixteen = {
          {get<Cfg<16, 16, 256, 128, 3>>()},
          {get<Cfg<16, 16, 256, 128, 3, 1, 0, kBulk, 1, 1>>()},
          {get<Cfg<16, 16, 256, 128, 3, 1, 0, kBulk, 1, 3>>()},
          {get<Cfg<16, 16, 256, 128, 2, 1, 0, kBulk, 1, 1>>()},
          {get<Cfg<16, 16, 256, 64, 5>>()},
          {get<Cfg<16, 16, 256, 64, 5, 1, 0, kBulk, 1, 1>>()},
          {get<Cfg<16, 16, 256, 64, 6, 1, 0, kBulk, 1, 2, 0, 1>>()},
          {get<Il<Cfg<16, 16, 256, 128, 3, 1, 0, kBulk, 1, 1, 0, 1, 2>>>()},
          {get<Il<Cfg<16, 16, 256, 128, 3, 1, 0, kBulk, 1, 1>>>()},
          {get<Il<Cfg<16, 8, 256, 128, 6, 2, 6, kBulk, 1, 4>>>()},
          {get<Il<Cfg<16, 16, 256, 128, 3, 1, 0, kAsync, 1, 1>>>()},
          {get<Il<Cfg<16, 8, 256, 128, 6, 2, 6, kBulk, 1, 4, 0, 1, 2>>>()},
          {get<Il<Cfg<16, 8, 256, 128, 6, 2, 6, kBulk, 1, 3, 0, 1, 2>>>()},
          {get<Il<Cfg<16, 8, 256, 128, 6, 2, 6, kAsync, 1, 3, 0, 1, 2>>>()},
          {get<Il<Cfg<16, 8, 256, 128, 6, 2, 6, kRows_, 1, 3, 0, 1, 2>>>()},
          {get<Il<Cfg<16, 8, 256, 128, 6, 2, 6, kRows_, 1, 4, 0, 1, 2, false>>>()},
          {get<Cfg<16, 8, 256, 128, 6, 2, 6, kBulk, 1, 4, 0, 1, 2>>()},
          {get<Cfg<16, 8, 256, 128, 6, 2, 6, kBulk, 1, 3>>()},
          {get<Cfg<16, 8, 256, 128, 6, 2, 6, kAsync, 1, 3>>()},
          {get<Cfg<16, 8, 256, 128, 6, 2, 6, kRows_, 1, 3>>()},
          {get<Cfg<16, 16, 128, 128, 3, 2, 6, kBulk, 1, 2, 0, 1>>()},
          {get<Cfg<16, 8, 128, 128, 3, 4, 7, kBulk, 2, 2, 0, 1>>()},
          {get<Cfg<16, 8, 128, 128, 5, 4, 13, kBulk, 1, 4>>()},
          {get<Cfg<16, 16, 256, 128, 3, 1, 0, kBulk, 1, 1, 2, 2>>()},
          {get<Cfg<16, 16, 256, 128, 3, 1, 0, kBulk, 1, 1, 0, 1, 2>>()},
          {get<Cfg<16, 16, 256, 128, 3, 1, 0, kBulk, 1, 1, 0, 2, 1, true, 0>>()},
          {get<Cfg<16, 16, 256, 128, 3, 1, 0, kAsync, 1, 1>>()},
          {get<Cfg<16, 8, 512, 256, 3, 1, 0, kRows_, 1, 1>>()},
          {get<Cfg<16, 8, 512, 128, 6, 1, 0, kBulk, 1, 1>>()},
          {get<Cfg<16, 8, 512, 256, 3, 1, 0, kBulk, 1, 1, 0, 2, 2>>()},
          {get<Cfg<16, 8, 256, 128, 6, 2, 6, kBulk, 1, 4>>()},
          {get<Cfg<16, 8, 256, 256, 3, 2, 6, kBulk, 1, 1>>()},
          {get<Cfg<16, 16, 256, 64, 6, 1, 0, kBulk, 1, 4, 0, 1>>()},
          {get<Cfg<16, 8, 512, 128, 6>>()},
          {get<Cfg<16, 8, 512, 128, 6, 1, 0, kBulk, 1, 4>>()},
          {get<Cfg<16, 8, 512, 256, 3>>()},
          {get<Cfg<16, 8, 512, 256, 3, 1, 0, kBulk, 1, 1>>()},
          {get<Cfg<16, 8, 512, 256, 3, 1, 0, kBulk, 1, 2, 2>>()},
          {get<Cfg<16, 8, 512, 512, 1, 1, 0, kBulk, 1, 1>>()},
          {get<Cfg<16, 8, 256, 128, 6, 2, 6>>()},
          {get<Cfg<16, 8, 256, 256, 3, 2, 6>>()},
          {get<Cfg<16, 16, 128, 128, 2, 2, 6>>()},
          {get<Cfg<16, 8, 128, 128, 5, 4, 13>>()},
          {get<Cfg<16, 16, 256, 128, 3, 1, 0, kAsync>>()},
          {get<Cfg<16, 8, 512, 128, 6, 1, 0, kAsync>>()},
          {get<Cfg<16, 8, 512, 128, 6, 1, 0, kRows_>>()},
      };
      s.push_back({16, 4096, 6144, 14.0, 12.4, sixteen});
      std::vector<Entry> wide;
      for (auto& e : sixteen)
        if (e.variant->cluster == 1) wide.push_back(e);
      for (auto& e : sixteen)
        if (e.variant->cluster == 1) wide.push_back({e.variant, 132});
      wide.push_back({get<Il<Cfg<16, 8, 256, 128, 5, 2, 28, kRows_, 1, 2, 0, 1>>>(), 64});
      wide.push_back({get<Il<Cfg<16, 8, 256, 128, 5, 2, 28, kAsync, 1, 2, 0, 1>>>(), 64});
      wide.push_back({get<Il<Cfg<16, 8, 256, 128, 5, 2, 28, kBulk, 1, 3, 0, 1, 2>>>(), 64});
      s.push_back({16, 4096, 28672, 56.0, 54.7, wide});
#endif
    }
    if (TENON_BENCH_PARTS & 4) {
#if TENON_BENCH_PARTS & 4
      std::vector<Entry> deep = {
          {get<Cfg<16, 14, 256, 128, 3, 2, 2>>(), 66},
          {get<Cfg<16, 14, 256, 128, 3, 2, 2, kBulk, 1, 1>>(), 66},
          {get<Cfg<16, 14, 256, 256, 1, 2, 2, kBulk, 1, 1, 4, 1>>(), 66},
          {get<Cfg<16, 7, 512, 256, 3, 2, 2, kBulk, 1, 1>>(), 66},
          {get<Cfg<16, 7, 512, 256, 3, 2, 2, kBulk, 1, 3>>(), 66},
          {get<Cfg<16, 7, 512, 256, 3, 2, 2, kBulk, 1, 2, 2>>(), 66},
          {get<Cfg<16, 7, 512, 256, 3, 2, 2, kBulk, 1, 2, 4, 1, 2>>(), 66},
          {get<Cfg<16, 7, 512, 512, 1, 2, 2, kBulk, 1, 1>>(), 66},
          {get<Cfg<16, 14, 256, 256, 1, 2, 2, kBulk, 1, 1>>(), 66},
          {get<Cfg<16, 14, 256, 64, 6, 2, 2>>(), 66},
          {get<Cfg<16, 14, 256, 64, 6, 2, 2, kBulk, 1, 1>>(), 66},
          {get<Cfg<16, 14, 256, 128, 3, 2, 2, kBulk, 1, 1, 2>>(), 66},
          {get<Il<Cfg<16, 14, 256, 128, 3, 2, 2, kBulk, 1, 1>>>(), 66},
          {get<Il<Cfg<16, 14, 256, 64, 6, 2, 2, kBulk, 1, 1>>>(), 66},
          {get<Il<Cfg<16, 7, 512, 128, 6, 2, 2, kBulk, 1, 1>>>(), 66},
          {get<Il<Cfg<16, 7, 512, 128, 6, 2, 2, kBulk, 1, 1, 0, 1, 2>>>(), 66},
          {get<Il<Cfg<16, 7, 512, 128, 6, 2, 2, kBulk, 1, 2, 0, 1, 2>>>(), 66},
          {get<Il<Cfg<16, 14, 256, 64, 6, 2, 2, kBulk, 1, 1, 0, 1, 2>>>(), 66},
          {get<Il<Cfg<16, 14, 256, 128, 3, 2, 2, kBulk, 1, 1, 0, 1, 2>>>(), 66},
          {get<Il<Cfg<16, 14, 256, 128, 3, 2, 2, kAsync, 1, 1, 0, 1>>>(), 66},
          {get<Cfg<16, 7, 512, 64, 12, 2, 2, kBulk, 1, 2>>(), 66},
          {get<Cfg<16, 7, 512, 64, 12, 2, 2, kBulk, 1, 1, 0, 2, 2>>(), 66},
          {get<Cfg<16, 14, 256, 128, 3, 2, 2, kBulk, 1, 1, 0, 2, 2>>(), 66},
          {get<Cfg<16, 14, 256, 128, 3, 2, 2, kBulk, 1, 1, 0, 2, 1, true, 0>>(), 66},
          {get<Cfg<16, 14, 256, 128, 3, 2, 2, kAsync, 1, 1>>(), 66},
          {get<Cfg<16, 7, 512, 128, 6, 2, 2, kBulk, 1, 1>>(), 66},
          {get<Cfg<16, 7, 512, 128, 6, 2, 2>>(), 66},
          {get<Cfg<16, 7, 512, 256, 3, 2, 2>>(), 66},
          {get<Cfg<16, 14, 256, 128, 3, 2, 2, kAsync>>(), 66},
          {get<Cfg<16, 7, 512, 128, 6, 2, 2, kAsync>>(), 66},
          {get<Cfg<16, 7, 512, 128, 6, 2, 2, kRows_>>(), 66},
      };
      s.push_back({16, 7168, 2112, 9.6, 8.5, deep});
#endif
    }
    if (TENON_BENCH_PARTS & 8) {
#if TENON_BENCH_PARTS & 8
      s.push_back(
          {16,
           576,
           960,
           2.4,
           2.0,
           {
               {get<Cfg<16, 9, 64, 64, 1, 1, 0, kBulk, 1, 1>>()},
               {get<Cfg<16, 9, 64, 64, 1, 1, 0, kAsync, 1, 1>>()},
               {get<Cfg<16, 9, 64, 64, 2, 1, 0, kAsync, 1, 1>>()},
               {get<Cfg<16, 9, 64, 64, 2, 1, 0, kBulk, 1, 1>>()},
               {get<Cfg<16, 9, 64, 64, 2, 1, 0, kBulk, 1, 1, 4, 1, 2, true, 1, true>>()},
               {get<Cfg<16, 9, 64, 64, 2, 1, 0, kBulk, 1, 1, 4, 1, 2>>()},
               {get<Cfg<16, 9, 64, 64, 2, 1, 0, kBulk, 1, 0>>()},
               {get<Cfg<16, 9, 64, 64, 1, 1, 0, kRegs, 1, 1, 4, 1, 2, true, 0, true>>()},
               {get<Cfg<16, 9, 64, 64, 1, 1, 0, kRegs, 1, 1, 4, 1, 2, true, 0, true, false>>()},
               {get<Plain<
                   Cfg<16, 9, 64, 64, 1, 1, 0, kRegs, 1, 1, 4, 1, 2, true, 0, true, false>>>()},
               {get<Plain<Cfg<16, 9, 64, 64, 2, 1, 0, kBulk, 1, 1, 4, 1, 2, true, 1, true>>>()},
               {get<Cfg<16, 6, 96, 96, 3, 1, 0, kBulk, 1, 1, 4, 1, 2, true, 0, true>>()},
               {get<Cfg<16, 9, 64, 64, 2, 1, 0, kAsync, 1, 1, 4, 1, 2, true, 1, true>>()},
               {get<Cfg<16, 6, 96, 96, 1, 1, 0, kRegs, 1, 1, 4, 1, 2, true, 0, true>>()},
               {get<Cfg<16, 9, 64, 64, 2, 1, 0, kRows_, 1, 1>>()},
               {get<Cfg<16, 9, 64, 64, 1, 1, 0, kAsync, 1, 1, 2>>()},
               {get<Cfg<16, 9, 64, 64, 1, 1, 0, kAsync, 1, 1, 4, 2, 1, true, 0, true>>()},
               {get<Cfg<16, 9, 64, 64, 1, 1, 0, kRegs, 1, 1, 4, 2, 1, true, 0, true>>()},
               {get<Cfg<16, 9, 64, 64, 1, 1, 0, kRegs, 1, 1, 2, 2, 1, true, 0, true>>()},
               {get<Cfg<16, 6, 96, 96, 1, 1, 0, kAsync, 1, 1>>()},
               {get<Cfg<16, 18, 32, 32, 1, 1, 0, kAsync, 1, 1>>()},
               {get<Cfg<16, 9, 64, 64, 1, 1, 0, kRegs, 1, 1>>()},
               {get<Cfg<16, 9, 64, 64, 1, 1, 0, kRegs, 1, 1, 2>>()},
               {get<Cfg<16, 9, 64, 64, 1, 1, 0, kRegs, 1, 1, 4, 2, 2>>()},
               {get<Cfg<16, 9, 64, 64, 1, 1, 0, kRegs, 2, 1>>()},
               {get<Cfg<16, 9, 64, 64, 1, 1, 0, kRows_, 1, 1>>()},
               {get<Cfg<16, 18, 32, 32, 1, 1, 0, kRegs, 1, 1>>()},
               {get<Cfg<16, 6, 96, 96, 1, 1, 0, kRegs, 1, 1>>()},
               {get<Cfg<16, 3, 192, 192, 1, 1, 0, kRegs, 1, 1>>()},
               {get<Cfg<16, 9, 32, 32, 1, 2, 1, kRegs, 1, 1>>(), 60},
               {get<Cfg<16, 3, 96, 96, 1, 2, 1, kRegs, 1, 1>>(), 60},
           }});
      s.push_back({16,
                   1024,
                   6144,
                   5.2,
                   4.3,
                   {
                       {get<Cfg<16, 4, 256, 256, 3>>()},
                       {get<Cfg<16, 4, 256, 128, 6, 1, 0, kBulk, 1, 2>>()},
                       {get<Cfg<16, 8, 128, 128, 3>>()},
                       {get<Cfg<16, 8, 128, 128, 3, 1, 0, kBulk, 1, 1>>()},
                       {get<Cfg<16, 8, 128, 128, 3, 1, 0, kBulk, 1, 3>>()},
                       {get<Cfg<16, 16, 64, 64, 3>>()},
                       {get<Cfg<16, 8, 128, 128, 1, 1, 0, kBulk, 3, 1>>()},
                       {get<Cfg<16, 8, 128, 64, 2, 1, 0, kBulk, 3, 1>>()},
                       {get<Cfg<16, 8, 128, 128, 2, 1, 0, kBulk, 2, 1>>()},
                       {get<Cfg<16, 8, 128, 128, 1, 1, 0, kRegs, 1, 1>>()},
                       {get<Cfg<16, 8, 128, 128, 4, 1, 0, kBulk, 1, 3>>()},
                       {get<Cfg<16, 8, 128, 128, 4, 1, 0, kBulk, 1, 1>>()},
                       {get<Cfg<16, 8, 128, 128, 4, 1, 0, kBulk, 1, 3, 0, 2, 2>>()},
                       {get<Cfg<16, 4, 256, 256, 4, 1, 0, kBulk, 1, 3>>()},
                       {get<Cfg<16, 16, 64, 64, 4, 1, 0, kBulk, 1, 3>>()},
                       {get<Cfg<16, 16, 64, 64, 2, 1, 0, kBulk, 2, 1>>()},
                       {get<Cfg<16, 8, 64, 64, 4, 2, 6, kBulk, 1, 3>>()},
                       {get<Cfg<16, 8, 128, 128, 3, 1, 0, kAsync>>()},
                       {get<Cfg<16, 8, 128, 128, 1, 1, 0, kAsync, 3, 1>>()},
                       {get<Cfg<16, 8, 128, 128, 3, 1, 0, kRows_>>()},
                       {get<Cfg<16, 4, 256, 256, 3, 1, 0, kRows_>>()},
                   }});
#endif
    }
    if (TENON_BENCH_PARTS & 16) {
#if TENON_BENCH_PARTS & 16
      s.push_back({64,
                   4096,
                   6144,
                   15.8,
                   15.0,
                   {
                       {get_multicast<McCfg<48, 14, 2, 4>>()},
                       {get_multicast<McCfg<48, 14, 1, 4>>()},
                       {get_multicast<McCfg<56, 14, 8, 4>>()},
                       {get_multicast<McCfg<56, 14, 8, 2>>()},
                       {get_multicast<McCfg<56, 14, 8, 8>>()},
                       {get_multicast<McCfg<56, 14, 4, 4>>()},
                       {get_multicast<McCfg<56, 10, 8, 4>>()},
                       {get_multicast<McCfg<48, 15, 1, 4>>()},
                       {get_multicast<McCfg<48, 14, 1, 2>>()},
                       {get_multicast<McCfg<48, 14, 1, 8>>()},
                       {get_multicast<McCfg<56, 14, 2, 4>>()},
                       {get_multicast<McCfg<64, 12, 4, 4>>()},
                       {get_multicast<McCfg<64, 12, 8, 4>>()},
                       {get<Cfg<64, 8, 64, 64, 4, 8, 28, kBulk, 1, 2, 4, 1>>(), 14},
                   }});
      s.push_back({32,
                   4096,
                   6144,
                   0,
                   0,
                   {
                       {get_multicast<McCfg<48, 14, 1, 4>>()},
                       {get_multicast<McCfg<48, 14, 1, 4, 32>>()},
                       {get_multicast<McCfg<48, 14, 1, 8, 32>>()},
                       {get_multicast<McCfg<48, 14, 2, 8, 32>>()},
                       {get_multicast<McCfg<56, 14, 4, 8, 32>>()},
                       {get_multicast<McCfg<56, 14, 8, 4>>()},
                       {get<Il<Cfg<32, 8, 256, 128, 5, 2, 6, kBulk, 1, 1, 4, 1>>>()},
                       {get<Il<Cfg<32, 8, 128, 128, 4, 4, 14, kBulk, 1, 2, 4, 1>>>(), 28},
                   }});
#endif
    }
    return s;
  }();
  return all;
}

inline std::vector<Test> tests() {
  std::vector<Test> all;
#if TENON_BENCH_PARTS & 32
  auto ragged = [&](const Variant* v, int rows, int groups) {
    all.push_back({v, rows, 16 * 7, 128, 0, 128, groups});
    all.push_back(
        {v, rows - rows / 3, 7 * 13, 100, 0, 104, groups});  // ragged everything; aligned rows
    all.push_back({v, 1, 33, 1000, 8, 1008, groups});
  };
  auto unaligned = [&](const Variant* v, int groups) {
    all.push_back({v, 3, 77, 100, 1, 101, groups});
    all.push_back({v, 5, 200, 777, 3, 779, groups});
    all.push_back({v, 8, 33, 1001, 0, 1001, groups});
    all.push_back({v, 1, 48, 513, 0, 513, groups});
    all.push_back({v, 7, 48, 1018, 5, 1018, groups});
  };
  ragged(get<Cfg<8, 4, 256, 128, 3, 1, 0, kBulk, 1, 2, 0, 2, 1, false>>(), 8, 3);
  ragged(get<Cfg<16, 4, 256, 128, 3, 1, 0, kBulk, 1, 2, 2, 1, 2, false>>(), 16, 2);
  ragged(get<Cfg<16, 4, 256, 256, 2, 1, 0, kAsync, 1, 2, 0, 2, 1, false>>(), 16, 3);
  ragged(get<Cfg<16, 8, 128, 64, 2, 1, 0, kRegs, 1, 2, 0, 2, 1, false>>(), 16, 3);
  ragged(get<Cfg<16, 4, 256, 64, 3, 1, 0, kRows_, 1, 2, 0, 2, 1, false>>(), 16, 3);
  ragged(get<Cfg<16, 4, 256, 256, 2, 1, 0, kRows_, 1, 2, 0, 2, 1, false>>(), 16, 3);
  ragged(get<Cfg<32, 4, 128, 64, 3, 2, 4, kRows_, 1, 2, 0, 2, 1, false>>(), 32, 2);
  ragged(get<Cfg<32, 4, 128, 64, 3, 2, 4, kBulk, 1, 2, 4, 2, 1, false>>(), 32, 2);
  ragged(get<Cfg<64, 2, 64, 64, 3, 8, 4, kBulk, 1, 2, 4, 1, 1, false>>(), 64, 2);
  ragged(get<Cfg<16, 4, 64, 64, 3, 4, 9, kAsync, 1, 2, 0, 2, 1, false>, Fp16>(), 16, 2);
  ragged(get<Cfg<8, 4, 256, 32, 9, 1, 0, kRows_, 1, 2, 0, 2, 1, false>, Fp16>(), 8, 3);
  ragged(get<Il<Cfg<16, 4, 256, 128, 3, 1, 0, kBulk, 1, 1, 0, 2, 1, false>>>(), 16, 3);
  ragged(get<Il<Cfg<16, 4, 128, 64, 3, 2, 4, kRows_, 1, 1, 0, 2, 1, false>>>(), 16, 2);
  ragged(get<Il<Cfg<8, 4, 256, 64, 4, 1, 0, kAsync, 1, 2, 0, 2, 1, false>>>(), 8, 3);
  ragged(get_multicast<McCfg<48, 3, 4, 2>>(), 64, 1);
  ragged(get_multicast<McCfg<16, 2, 1, 1>>(), 64, 1);
  ragged(get_multicast<McCfg<24, 4, 2, 4>, Fp16>(), 64, 1);
  ragged(get_multicast<McCfg<24, 4, 2, 3, 32>>(), 32, 1);
  ragged(get_multicast<McCfg<48, 3, 1, 3, 8>, Fp16>(), 8, 1);
  unaligned(
      get<Cfg<16, 4, 256, 128, 3, 1, 0, kBulk, 1, 2, 0, 2, 1, false, 0, false, true, false>>(), 3);
  unaligned(
      get<Cfg<8, 2, 256, 64, 3, 2, 9, kRows_, 1, 2, 0, 2, 1, false, 0, true, false, false>, Fp16>(),
      2);
  // Staged.
  unaligned(
      get<Cfg<16, 4, 256, 128, 4, 1, 0, kBulk, 1, 2, 0, 2, 1, false, 1, false, true, false>>(), 3);
  unaligned(
      get<Il<Cfg<16, 4, 256, 64, 5, 1, 0, kAsync, 1, 1, 0, 1, 2, false, 1, false, true, false>>>(),
      3);
  unaligned(
      get<Il<Cfg<8, 2, 320, 64, 5, 2, 9, kRows_, 1, 2, 0, 2, 1, false, 1, true, false, false>>,
          Fp16>(),
      2);
  unaligned(get<Cfg<8, 16, 64, 64, 2, 1, 0, kBulk, 1, 1, 0, 1, 1, false, 1, false, true, false>>(),
            2);
  unaligned(
      get<Il<Cfg<32, 4, 128, 64, 6, 2, 4, kBulk, 1, 1, 4, 1, 1, false, 1, false, true, false>>,
          Fp16>(),
      2);
#endif
  return all;
}
