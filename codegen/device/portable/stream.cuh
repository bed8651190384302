// Stream-K: how tiles that do not come out even over the blocks are shared out.
#pragma once

namespace tenon::device::portable {

// The steps of all tiles stand in one row, tile after tile, and the blocks take equal shares of it.
// A block ends one tile, has some to itself, and begins another.
struct StreamShare {
  long long steps;  // of all tiles
  int blocks;  // that have a share: no more than steps, so that every block between two has one

  __device__ __forceinline__ StreamShare(long long steps_, int blocks_)
      : steps(steps_), blocks(steps_ < blocks_ ? static_cast<int>(steps_) : blocks_) {}
  __device__ __forceinline__ long long begin(int block) const { return block * steps / blocks; }
  // The block whose share holds a step: the last one that begins at or before it.
  __device__ __forceinline__ int block_of(long long step) const {
    return static_cast<int>(((step + 1) * blocks - 1) / steps);
  }
};

}  // namespace tenon::device::portable
