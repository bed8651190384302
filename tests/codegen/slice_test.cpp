// Slices of k against counting: the device header is plain C++ but for two keywords.
#include <gtest/gtest.h>

#include <vector>

#define __device__
#define __forceinline__ inline
#include "device/gemm/slice.cuh"

namespace tenon::device::gemm {
namespace {

// The steps that a tile visits, in order, and those of them that it sums.
struct Walked {
  std::vector<int> steps, summed, iterations;
};

Walked walk(const Slice& slice, int k_steps) {
  Walked out;
  int next = slice.first;
  for (int i = 0; i < k_steps; ++i) {
    out.steps.push_back(slice.step(i, k_steps));
    if (i != next) continue;
    out.summed.push_back(out.steps.back());
    out.iterations.push_back(i);
    next = slice.after(i);
  }
  EXPECT_EQ(next, Slice::kNever);
  return out;
}

template <Walk kWalk>
void check_cover() {
  for (int cluster : {1, 2, 4})
    for (int k_steps = cluster; k_steps <= 130; ++k_steps)
      for (int tiles = 1; tiles * cluster <= k_steps && tiles <= 16; ++tiles) {
        const int slices = tiles * cluster;
        std::vector<int> sums(static_cast<std::size_t>(k_steps));
        std::vector<int> slots(static_cast<std::size_t>(slices));
        for (int tile = 0; tile < tiles; ++tile) {
          std::vector<int> order;
          for (int rank = 0; rank < cluster; ++rank) {
            const Slice slice = contributed_slice<kWalk>(k_steps, slices, tile * cluster, rank);
            const Walked walked = walk(slice, k_steps);
            ASSERT_EQ(slice.slots, slices);
            ++slots.at(static_cast<std::size_t>(slice.slot));
            // The blocks of a cluster share loads.
            if (rank == 0) order = walked.steps;
            ASSERT_EQ(walked.steps, order);
            std::vector<int> visits(static_cast<std::size_t>(k_steps));
            for (int step : walked.steps) ++visits.at(static_cast<std::size_t>(step));
            ASSERT_EQ(visits, std::vector<int>(static_cast<std::size_t>(k_steps), 1));
            for (int step : walked.summed) ++sums.at(static_cast<std::size_t>(step));
            ASSERT_FALSE(walked.iterations.empty());
            // Readers are told once, within the tile and not before its slice is complete.
            ASSERT_GE(slice.due, walked.iterations.back());
            ASSERT_LT(slice.due, k_steps);
          }
        }
        // Every step is summed once for the rows, every slice is somebody's.
        ASSERT_EQ(sums, std::vector<int>(static_cast<std::size_t>(k_steps), 1))
            << k_steps << " steps, " << tiles << " tiles of " << cluster;
        ASSERT_EQ(slots, std::vector<int>(static_cast<std::size_t>(slices), 1));
      }
}

TEST(Slice, StraightWalksCoverK) { check_cover<Walk::kStraight>(); }
TEST(Slice, WalksThatBeginWithTheirSliceCoverK) { check_cover<Walk::kOwnFirst>(); }
TEST(Slice, WalksThatBeginTheTailWithTheirOwnCoverK) { check_cover<Walk::kOwnTailFirst>(); }

// 112 steps, 12 tiles: steps 0 to 99 in order, every twelfth summed; then the last twelve, in a
// circle from the tile's own. All slices are complete eleven steps before the end.
TEST(Slice, TailsBeginWithTheirOwnStep) {
  for (int tile = 0; tile < 12; ++tile) {
    const Walked walked = walk(contributed_slice<Walk::kOwnTailFirst>(112, 12, tile, 0), 112);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(walked.steps[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(walked.steps[100], 100 + tile);
    EXPECT_EQ(walked.steps[111], 100 + (tile + 11) % 12);
    EXPECT_EQ(walked.iterations.back(), 100);
    EXPECT_EQ(walked.summed.front(), tile);
    EXPECT_EQ(walked.summed.size(), tile < 4 ? 10u : 9u);
  }
}

TEST(Slice, OthersSumNothingOrEverything) {
  EXPECT_TRUE(walk(no_slice(40), 40).summed.empty());
  EXPECT_EQ(no_slice(40).due, 27);
  EXPECT_EQ(no_slice(12).due, 0);
  EXPECT_EQ(walk(whole_slice(40), 40).summed.size(), 40u);
}

}  // namespace
}  // namespace tenon::device::gemm
