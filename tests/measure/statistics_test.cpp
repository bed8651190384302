#include "measure/statistics.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tenon::measure
