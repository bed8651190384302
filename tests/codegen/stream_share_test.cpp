// Stream-K's shares against counting: the device header is plain C++ but for two keywords.
#include <gtest/gtest.h>

#include <algorithm>

#define __device__
#define __forceinline__ inline
#include "device/portable/stream.cuh"

namespace tenon::device::portable {
namespace {

TEST(StreamShare, EveryStepBelongsToTheBlockThatWalksIt) {
  for (long long steps = 1; steps <= 120; ++steps) {
    for (int blocks = 1; blocks <= 150; ++blocks) {
      const StreamShare share(steps, blocks);
      ASSERT_EQ(share.blocks, std::min<long long>(steps, blocks));
      ASSERT_EQ(share.begin(0), 0);
      ASSERT_EQ(share.begin(share.blocks), steps);
      for (int b = 0; b < share.blocks; ++b) {
        const long long size = share.begin(b + 1) - share.begin(b);
        // Even: no share is more than one step longer than another, and none is empty, since a
        // tile's parts are counted by the blocks between its first and its last.
        ASSERT_GE(size, std::max(1ll, steps / share.blocks));
        ASSERT_LE(size, (steps + share.blocks - 1) / share.blocks);
        for (long long s = share.begin(b); s < share.begin(b + 1); ++s)
          ASSERT_EQ(share.block_of(s), b) << steps << " steps, " << blocks << " blocks, step " << s;
      }
    }
  }
}

// 2³¹ tiles of 2¹⁵ steps, as far as shapes may go, over all of an H200.
TEST(StreamShare, LargeCountsDoNotOverflow) {
  const StreamShare share(1ll << 46, 264);
  EXPECT_EQ(share.begin(264), 1ll << 46);
  EXPECT_EQ(share.begin(132), 1ll << 45);
  EXPECT_EQ(share.block_of((1ll << 46) - 1), 263);
  EXPECT_EQ(share.block_of(1ll << 45), 132);
  EXPECT_EQ(share.block_of((1ll << 45) - 1), 131);
}

}  // namespace
}  // namespace tenon::device::portable
