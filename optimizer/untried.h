// Forms that a search whose time is up must still look at.
#pragma once

#include <deque>
#include <set>
#include <vector>

#include "optimizer/session.h"

namespace tenon::optimizer {

// Takes out of `ready` one candidate of every µGraph of which none is in `tried`, the best by
// estimate, where that estimate is below `best_us`, the fastest time so far (0: there is none); the
// best first. Kernels compile at different speed, and those worth most are not the quickest:
// without this a short search would end with what compiled first.
std::vector<CandidateState*> take_untried(std::deque<CandidateState*>& ready,
                                          const std::set<std::size_t>& tried, double best_us);

}  // namespace tenon::optimizer
