// What a search looks at when its time is up: candidates by µGraph and estimate, written out.
#include "optimizer/untried.h"

#include <gtest/gtest.h>

namespace tenon::optimizer {
namespace {

CandidateState candidate(std::size_t graph, double estimated_us) {
  CandidateState c;
  c.graph = graph;
  c.estimated_us = estimated_us;
  return c;
}

TEST(Untried, TheBestOfEveryFormThatWasNotTimedAndMayWin) {
  CandidateState tried = candidate(0, 50), slow = candidate(1, 75), second = candidate(2, 57),
                 first = candidate(2, 55), other = candidate(3, 54), failed = candidate(4, 40);
  failed.status = measure::Status::kCompileError;
  std::deque<CandidateState*> ready = {&tried, &slow, &second, &first, &other, &failed};
  const std::vector<CandidateState*> expected = {&other, &first};
  EXPECT_EQ(take_untried(ready, {0}, 58.8), expected);
  const std::deque<CandidateState*> left = {&tried, &slow, &second, &failed};
  EXPECT_EQ(ready, left);
  EXPECT_TRUE(take_untried(ready, {0, 2}, 58.8).empty());
}

TEST(Untried, WithoutATimeEveryFormMayWin) {
  CandidateState slow = candidate(1, 75), fast = candidate(2, 55);
  std::deque<CandidateState*> ready = {&slow, &fast};
  const std::vector<CandidateState*> expected = {&fast, &slow};
  EXPECT_EQ(take_untried(ready, {}, 0), expected);
  EXPECT_TRUE(ready.empty());
}

}  // namespace
}  // namespace tenon::optimizer
