// What a schedule chooses: a Config is a struct of constants that derives from Defaults and
// overrides some of them.
#pragma once

#include "device/gemm/slice.cuh"
#include "device/ptx/tma.cuh"

namespace tenon::device::gemm {

// Where the epilogue's per-row sums over k come from.
enum class Statistics {
  kNone,         // the epilogue needs none
  kExternal,     // an array sums[m][count], written by an earlier kernel
  kGlobalRows,   // idle producer warps sum every row once per launch from global memory
  kTileSlices,   // the tiles that first meet a row block sum a slice of k each, in shared memory
  kTile,         // every tile sums its own rows over all of k, in shared memory
  kSpareBlocks,  // blocks with a tile less than others sum every row before their first tile
};

// Which tile index runs fastest inside a group of tiles.
enum class Raster { kAlongM, kAlongN };

// How fragments become stores of Y.
enum class Stores {
  kNarrow,   // element by element, for any N and any alignment
  kStaged,   // rows of 128 bytes, turned around in shared memory
  kShuffled  // rows of 64 bytes, turned around between the four lanes that share a row
};

struct Defaults {
  // A tile is kTileM rows of X times kTileN rows of W; kTileK (one swizzle atom) is fixed.
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 128;
  static constexpr int kStages = 4;

  // Consumer warpgroups. Cooperative: they split one tile's rows. Ping-pong (two of them): each
  // has tiles of its own, so that one's epilogue runs while the other multiplies.
  static constexpr int kConsumers = 2;
  static constexpr bool kPingPong = false;

  // A cluster is kClusterM x kClusterN tiles x kSplitK parts of k. Blocks that share rows of X
  // (kClusterN) or of W (kClusterM) load a part each and multicast it.
  static constexpr int kClusterM = 1;
  static constexpr int kClusterN = 1;
  static constexpr int kSplitK = 1;

  // Groups of kRasterGroup cluster tiles along the fast dimension are walked one after another.
  static constexpr Raster kRaster = Raster::kAlongM;
  static constexpr int kRasterGroup = 8;

  static constexpr CacheHint kHintX = CacheHint::kNone;
  static constexpr CacheHint kHintW = CacheHint::kNone;
  static constexpr CacheHint kHintY = CacheHint::kNone;  // kNone or kEvictFirst

  // Registers of a producer thread; the consumers share out the rest.
  static constexpr int kProducerRegisters = 40;

  // Programmatic dependent launch: W of the first stages is fetched before the wait.
  // kLateTrigger: the next launch may start when our loads are all issued, not at once.
  static constexpr bool kDependentLaunch = false;
  static constexpr bool kLateTrigger = false;

  static constexpr Statistics kStatistics = Statistics::kNone;
  static constexpr int kSlices = 8;  // kTileSlices: at most so many slices of k
  static constexpr Walk kWalk = Walk::kStraight;
  static constexpr int kRowSlots = 3;  // kGlobalRows: kilobytes of X in flight for each of 3 warps

  // W packed tile by tile for kTileN (prepare.cuh) and read with flat bulk copies; otherwise
  // row-major through a tensor map.
  static constexpr bool kPackedWeights = false;

  // kStaged, kShuffled: stores of 16 bytes; Y and its row stride are 16-byte aligned and N is a
  // multiple of 8.
  static constexpr Stores kStores = Stores::kStaged;
};

}  // namespace tenon::device::gemm
