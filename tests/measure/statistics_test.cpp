#include "measure/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tenon::measure {
namespace {

TEST(Statistics, MedianOfOddEvenAndNone) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
}

// Order statistics 1 2 3 4 10: quartiles lie on 2 and 4.
TEST(Statistics, SpreadIsTheInterquartileRange) {
  EXPECT_EQ(spread({10, 3, 1, 2, 4}), 2);
  EXPECT_EQ(spread({5, 5, 5}), 0);
  EXPECT_EQ(quantile({0, 10}, 0.25), 2.5);
}

TEST(Statistics, RankCorrelationOfOrderedReversedAndMixedLists) {
  EXPECT_DOUBLE_EQ(*rank_correlation({1, 2, 30}, {5, 6, 7}), 1);
  EXPECT_DOUBLE_EQ(*rank_correlation({1, 2, 3, 4}, {9, 8, 7, -1}), -1);
  // Ranks 0 1 2 3 against 1 0 2 3: 1 - 6 · 2 / (4 · 15).
  EXPECT_DOUBLE_EQ(*rank_correlation({10, 20, 30, 40}, {2, 1, 3, 4}), 0.8);
  // A tie: ranks 0.5 0.5 2 against 0 1 2; Pearson's formula over them gives 1.5 / sqrt(1.5 · 2).
  EXPECT_NEAR(*rank_correlation({4, 4, 9}, {1, 2, 3}), 0.8660254037844387, 1e-15);
}

TEST(Statistics, RankCorrelationThatDoesNotExist) {
  EXPECT_FALSE(rank_correlation({}, {}));
  EXPECT_FALSE(rank_correlation({1}, {1}));
  EXPECT_FALSE(rank_correlation({1, 2}, {1}));
  EXPECT_FALSE(rank_correlation({3, 3, 3}, {1, 2, 3}));
  EXPECT_FALSE(rank_correlation({1, std::nan("")}, {1, 2}));
}

}  // namespace
}  // namespace tenon::measure
