// What follows from a Config: counts, the shared-memory layout, the register shares.
#pragma once

#include "device/gemm/config.cuh"
#include "device/gemm/element.cuh"

namespace tenon::device::gemm {

inline constexpr int kTileK = 64;               // 128 bytes: one swizzle atom
inline constexpr int kRowBytes = 2 * kTileK;    // of an operand tile in shared memory
inline constexpr int kSharedLimit = 232448;     // bytes a block may have on sm_90
inline constexpr int kStagingBytes = 16 * 128;  // a warp's 16 rows x 64 columns of Y
inline constexpr int kReaderWarps = 3;          // producer warps that do not issue tiles
inline constexpr int kRowChunkBytes = 1024;     // of X rows, on their way to a reader warp

constexpr int align_up(int value, int to) { return (value + to - 1) / to * to; }

template <class Config, class ElementType, class Stats>
struct Plan : Config {
  using T = ElementType;

  static constexpr int kConsumerThreads = 128 * Config::kConsumers;
  static constexpr int kThreads = kConsumerThreads + 128;
  static constexpr int kClusterSize = Config::kClusterM * Config::kClusterN * Config::kSplitK;

  // Warpgroups that work on one tile, the rows of one, its 64-row blocks, its accumulators.
  static constexpr int kTeam = Config::kPingPong ? 1 : Config::kConsumers;
  static constexpr int kGroupRows = Config::kTileM / kTeam;
  static constexpr int kBlocks = kGroupRows / 64;
  static constexpr int kAccumulators = Config::kTileN / 2;

  // Sums per row; arrays of them have at least one element.
  static constexpr int kSums = Config::kStatistics == Statistics::kNone ? 0 : Stats::kCount;
  static constexpr int kSumSlots = kSums > 0 ? kSums : 1;
  static constexpr bool kSumsInTiles = kSums > 0 &&
                                       (Config::kStatistics == Statistics::kTile ||
                                        Config::kStatistics == Statistics::kTileSlices);
  // Sums that reach the epilogue through shared memory, put there by the reader warps.
  static constexpr bool kReadsSums = kSums > 0 && Config::kStatistics != Statistics::kTile;
  // Sums that blocks give to each other through the workspace.
  static constexpr bool kExchangesSums = kSums > 0 &&
                                         (Config::kStatistics == Statistics::kGlobalRows ||
                                          Config::kStatistics == Statistics::kSpareBlocks ||
                                          Config::kStatistics == Statistics::kTileSlices);
  static constexpr bool kHasSpareBlocks =
      kSums > 0 && Config::kStatistics == Statistics::kSpareBlocks;
  static constexpr int kPartials =
      Config::kStatistics == Statistics::kTileSlices ? Config::kSlices : 0;

  static constexpr bool kWideStores = Config::kStores != Stores::kNarrow;

  // Shared memory, from offset 0 (1024-byte aligned).
  static constexpr int kTileBytesX = Config::kTileM * kRowBytes;
  static constexpr int kTileBytesW = Config::kTileN * kRowBytes;
  static constexpr int kStageBytes = kTileBytesX + kTileBytesW;
  static constexpr int kStaging = Config::kStages * kStageBytes;
  static constexpr int kExchange =
      kStaging + (Config::kStores == Stores::kStaged ? 4 * Config::kConsumers * kStagingBytes : 0);
  static constexpr int kPartColumns8 = Config::kTileN / 8 / Config::kSplitK;
  static constexpr int kExchangeThreadBytes = kBlocks * (kPartColumns8 * 16 + 2 * kSums * 4);
  static constexpr int kExchangeBytes =
      (Config::kSplitK - 1) * kExchangeThreadBytes * kConsumerThreads;
  static constexpr bool kReadsRows = kSums > 0 && Config::kStatistics == Statistics::kGlobalRows;
  static constexpr int kRowRing = kExchange + kExchangeBytes;
  static constexpr int kRowSums =
      kRowRing + (kReadsRows ? kReaderWarps * Config::kRowSlots * kRowChunkBytes : 0);
  static constexpr int kBarriers =
      align_up(kRowSums + (kReadsSums ? 2 * Config::kTileM * kSums * 4 : 0), 8);
  static constexpr int kBarrierCount =
      2 * Config::kStages + 12 + (kReadsRows ? kReaderWarps * Config::kRowSlots : 0);
  static constexpr int kSharedBytes = kBarriers + 8 * kBarrierCount;

  // Offsets of the barriers, and of counters among them.
  static constexpr int kFull = kBarriers;                     // [stages]
  static constexpr int kEmpty = kFull + 8 * Config::kStages;  // [stages]
  static constexpr int kTurn = kEmpty + 8 * Config::kStages;  // [2], by consumer
  static constexpr int kSumsFull = kTurn + 16;                // [2], by tile parity
  static constexpr int kSumsEmpty = kSumsFull + 16;           // [2]
  static constexpr int kSumsDue = kSumsEmpty + 16;            // [2]
  static constexpr int kExchanged = kSumsDue + 16;            // [1]
  static constexpr int kLaunchKnown = kExchanged + 8;         // [1], for kLaunch
  static constexpr int kLaunch = kLaunchKnown + 8;            // the launch's number
  static constexpr int kProgress = kLaunch + 8;               // steps issued, for kGlobalRows
  static constexpr int kRowFull = kProgress + 8;              // [reader][slot], for kGlobalRows

  // Registers: a launch gives every thread the same; setmaxnreg moves them.
  static constexpr int kLaunchRegisters =
      65536 / kThreads / 8 * 8 > 255 ? 255 : 65536 / kThreads / 8 * 8;
  static constexpr bool kMovesRegisters = Config::kConsumers > 1;
  static constexpr int kShare =
      ((Config::kConsumers + 1) * kLaunchRegisters - Config::kProducerRegisters) /
      Config::kConsumers / 8 * 8;
  static constexpr int kConsumerRegisters = kShare > 240 ? 240 : kShare;

  static_assert(Config::kTileM % 64 == 0 && Config::kTileM >= 64 && Config::kTileM <= 256,
                "tile_m is 64, 128, 192 or 256");
  static_assert(Config::kTileN % 8 == 0 && Config::kTileN >= 8 && Config::kTileN <= 256,
                "tile_n is a multiple of 8 up to 256");
  static_assert(Config::kConsumers >= 1 && Config::kConsumers <= 3, "1 to 3 consumers");
  static_assert(!Config::kPingPong || Config::kConsumers == 2, "ping-pong has two consumers");
  static_assert(Config::kTileM % (64 * kTeam) == 0, "a warpgroup has whole blocks of 64 rows");
  static_assert(kBlocks * kAccumulators <= 200, "accumulators of a thread");
  static_assert(Config::kStages >= 2, "at least two stages");
  static_assert(Config::kTileM % (8 * Config::kClusterN) == 0,
                "blocks along n load equal parts of X, in whole swizzle atoms");
  static_assert(Config::kTileN % (8 * Config::kClusterM) == 0,
                "blocks along m load equal parts of W, in whole swizzle atoms");
  static_assert(kClusterSize <= 8, "portable cluster size");
  static_assert(Config::kTileN % (8 * Config::kSplitK) == 0,
                "parts of k share out the tile's columns equally");
  static_assert(Config::kSplitK == 1 || !Config::kPingPong, "split k is cooperative");
  static_assert(Config::kStatistics != Statistics::kTileSlices ||
                    (Config::kSlices >= Config::kClusterN * Config::kSplitK &&
                     Config::kSlices % 4 == 0 && Config::kSlices % Config::kSplitK == 0 &&
                     Config::kSlices <= 64),
                "a multiple of 4 slices up to 64, as many in each part, one for each block of a "
                "cluster");
  static_assert(kSharedBytes <= kSharedLimit, "shared memory of a block");
};

// What the kernel is called with, next to the tensor maps and the epilogue's arguments.
template <class T>
struct Operands {
  const T* x;          // [m, k], for kGlobalRows and kSpareBlocks
  long long x_stride;  // elements between rows
  const T* packed_w;   // for kPackedWeights
  T* y;                // [m, n]
  long long y_stride;
  const float* row_sums;  // [m, count], for kExternal
  unsigned* workspace;    // where blocks exchange sums (statistics.cuh)
  int m, n, k;
  // Rows of X that a tile takes: the m rows shared out evenly over the ceil(m / kTileM kClusterM)
  // cluster tiles, in whole atoms of 8 rows for each block that loads a part of them. Rows that do
  // not exist cost the copy engine more than rows that do; what a tile multiplies beyond its rows
  // is whatever its stages hold, and is not stored.
  int tile_rows;
};

// Position in the ring of stages. A phase's parity flips each time around.
template <int kStages>
struct Ring {
  int stage = 0;
  unsigned phase = 0;

  __device__ __forceinline__ void next() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
  __device__ __forceinline__ void skip(int steps) {
    const int position = stage + steps;
    phase ^= (position / kStages) & 1;
    stage = position % kStages;
  }
};

}  // namespace tenon::device::gemm
