// The schedule of the streaming kernel, its resources, and what makes one legal.
//
// A schedule is a struct with the constants of ExampleConfig. K is split evenly over the blocks of
// a cluster, in units of kUnitColumns, and over the warps of a block: warp w takes kColumns in a
// row, or (kInterleaved) every kWarps-th unit. It does so for every tile of 16 rows of W' that its
// cluster owns.
#pragma once

#include "device/small_m/packing.cuh"

namespace tenon::device::small_m {

// Where a warp's share of W' comes from and on what path.
enum class Weights {
  kPackedBulk,       // packed; bulk copies into the warp's ring, one per unit
  kPackedAsync,      // packed; cp.async into the warp's ring
  kPackedRegisters,  // packed; loaded straight into registers, a whole tile ahead
  kRowsAsync,        // [N, K] row-major; cp.async into the warp's ring
};

// A complete schedule, also the documentation of each member.
struct ExampleConfig {
  static constexpr int kRows = 16;          // rows of X, padded: 8, 16, 32 or 64; M is 1 .. kRows
  static constexpr int kWarps = 16;         // streaming warps a block; they split K
  static constexpr int kColumns = 256;      // columns of K a streaming warp owns at most
  static constexpr int kUnitColumns = 128;  // columns of one ring unit (16 rows × these)
  static constexpr bool kInterleaved = false;  // units of a block's warps alternate along K
  static constexpr int kStages = 4;            // units in a warp's ring
  static constexpr int kCluster = 1;           // blocks that split K: 1, 2, 4 or 8
  static constexpr int kEpilogueWarps = 1;     // warps that only reduce, scale and store
  static constexpr int kPartials = 2;     // tiles in flight between streaming and epilogue warps
  static constexpr int kMaxTiles = 0;     // most tiles a cluster is given; needed if kCluster > 1
  static constexpr int kBlocksPerSm = 1;  // for __launch_bounds__
  static constexpr int kEarlyUnits = 2;   // units requested before X (and before the dependency)
  static constexpr int kChains =
      1;  // independent accumulators, 1 or 2: shorter tail, more registers
  static constexpr Weights kWeights = Weights::kPackedBulk;
  static constexpr bool kEvictFirst = true;  // W' leaves L2 first
  static constexpr bool kDependent = true;   // programmatic dependent launch
  // kCluster · kWarps · kColumns are the columns of W' as it is stored, and those of X.
  static constexpr bool kExactK = true, kExactX = true;
  static constexpr bool kXAligned = true;  // X and its row stride are multiples of 16 bytes
  static constexpr bool kXStaged =
      true;  // X passes through the ring; otherwise straight to registers
  static constexpr bool kStatsFirst = false;  // statistics before the first tile's products
};

// Shared memory, in bytes from a base aligned to 128. The order matters to no one outside.
template <class C>
struct Layout {
  static constexpr int kMaxStats = 2;
  static constexpr int kThreads = 32 * (C::kWarps + C::kEpilogueWarps);
  static constexpr int kRowTiles = C::kRows / 8;
  static constexpr int kGroups = C::kColumns / kGroupColumns;
  static constexpr int kUnits = C::kColumns / C::kUnitColumns;
  static constexpr int kUnitGroups = C::kUnitColumns / kGroupColumns;
  static constexpr int kUnitBytes = C::kUnitColumns * kTileRows * 2;
  static constexpr int kUnitStride =
      C::kInterleaved ? C::kWarps * C::kUnitColumns : C::kUnitColumns;  // columns
  static constexpr bool kRing = C::kWeights != Weights::kPackedRegisters;
  static constexpr bool kBulk = C::kWeights == Weights::kPackedBulk;
  static constexpr int kPartialBytes = C::kRows * kTileRows * 4;  // of one warp or block, one tile
  static constexpr int kXSlotColumns =
      C::kUnitColumns * kTileRows / C::kRows;  // of X in a ring slot
  static constexpr int kXSlots = (C::kColumns + kXSlotColumns - 1) / kXSlotColumns;
  // Columns of X that lie one behind the other both in memory and in a slot, and how many such runs
  // a warp has.
  static constexpr int kXRunColumns =
      kXSlotColumns < C::kUnitColumns ? kXSlotColumns : C::kUnitColumns;
  static constexpr int kXRuns = C::kColumns / kXRunColumns;
  static constexpr int kPeers = C::kCluster - 1;
  static constexpr int kOwnedTiles =
      C::kCluster == 1 ? 0 : (C::kMaxTiles + C::kCluster - 1) / C::kCluster;
  static constexpr int kSumBytes = kMaxStats * C::kRows * 4;
  static constexpr int kChunks = C::kRows / 4;  // an epilogue warp takes 4 rows of a tile at a time

  static constexpr int kRingAt = 0;
  static constexpr int kPartialsAt = kRingAt + (kRing ? C::kWarps * C::kStages * kUnitBytes : 0);
  static constexpr int kReceivedAt = kPartialsAt + C::kPartials * C::kWarps * kPartialBytes;
  static constexpr int kSumsAt = kReceivedAt + kOwnedTiles * kPeers * kPartialBytes;
  static constexpr int kReceivedSumsAt = kSumsAt + C::kWarps * kSumBytes;
  static constexpr int kBarriersAt = kReceivedSumsAt + kPeers * kSumBytes;

  // Barriers, by index: one per ring slot, then one per partial buffer (it may be written),
  // then those of what the peers send: the statistics, and every tile that this block owns.
  static constexpr int kEmptyBarrier = kBulk ? C::kWarps * C::kStages : 0;
  static constexpr int kReceivedSumsBarrier = kEmptyBarrier + C::kPartials;
  static constexpr int kReceivedBarrier = kReceivedSumsBarrier + 1;
  static constexpr int kBarriers = kReceivedBarrier + kOwnedTiles;

  static constexpr int kSharedBytes = kBarriersAt + kBarriers * 8;
};

// The rules, one sentence each; code generation checks the same ones before compiling.
template <class C>
struct Check {
  using L = Layout<C>;
  static_assert(C::kRows == 8 || C::kRows == 16 || C::kRows == 32 || C::kRows == 64,
                "kRows is 8, 16, 32 or 64");
  static_assert(C::kColumns % C::kUnitColumns == 0 && C::kUnitColumns % kGroupColumns == 0,
                "kColumns is a multiple of kUnitColumns, and that of 32");
  static_assert(C::kWeights != Weights::kRowsAsync || C::kUnitColumns == 32 ||
                    C::kUnitColumns % 64 == 0,
                "units of row-major weights are 32 columns or a multiple of 64");
  static_assert(C::kCluster == 1 || C::kCluster == 2 || C::kCluster == 4 || C::kCluster == 8,
                "kCluster is 1, 2, 4 or 8");
  static_assert(C::kCluster == 1 || C::kMaxTiles >= 1, "a cluster needs kMaxTiles");
  static_assert(C::kEpilogueWarps >= 1 && L::kChunks % C::kEpilogueWarps == 0,
                "kEpilogueWarps divides kRows / 4");
  static_assert(C::kPartials >= 1 && C::kPartials <= 8, "between 1 and 8 partial buffers");
  static_assert(C::kChains == 1 || C::kChains == 2, "one or two accumulator chains");
  static_assert(C::kStages >= 1, "a ring has at least one unit");
  static_assert(L::kRing || C::kStages == L::kUnits,
                "weights in registers are a whole tile deep: kStages is kColumns / kUnitColumns");
  static_assert(!C::kXStaged || L::kRing, "X is staged in a ring");
  static_assert(!C::kXStaged || C::kEarlyUnits + L::kXSlots <= C::kStages,
                "staged X fits in the ring behind the early units");
  static_assert(!C::kXStaged || L::kXSlotColumns == 32 || L::kXSlotColumns % 64 == 0,
                "a slot of staged X is 32 columns or a multiple of 64");
  static_assert(!C::kXStaged || C::kXAligned || L::kXRuns <= 4 * C::kPartials,
                "the last words of unaligned rows fit in the warp's partial tiles");
  static_assert(C::kEarlyUnits >= 0 && C::kEarlyUnits <= C::kStages,
                "units before the dependency fit in the ring");
  static_assert(L::kThreads <= 1024, "at most 1024 threads a block");
  static_assert(L::kSharedBytes <= 232448, "at most 227 KB of shared memory a block");
};

}  // namespace tenon::device::small_m
