#include "optimizer/untried.h"

#include <algorithm>
#include <map>

namespace tenon::optimizer {

std::vector<CandidateState*> take_untried(std::deque<CandidateState*>& ready,
                                          const std::set<std::size_t>& tried, double best_us) {
  std::map<std::size_t, CandidateState*> best;  // by µGraph
  for (CandidateState* candidate : ready) {
    if (tried.count(candidate->graph) || candidate->status != measure::Status::kOk) continue;
    if (best_us > 0 && !(candidate->estimated_us < best_us)) continue;
    CandidateState*& place = best[candidate->graph];
    if (place == nullptr || candidate->estimated_us < place->estimated_us) place = candidate;
  }
  std::vector<CandidateState*> out;
  for (const auto& [graph, candidate] : best) out.push_back(candidate);
  std::stable_sort(out.begin(), out.end(),
                   [](const auto* a, const auto* b) { return a->estimated_us < b->estimated_us; });
  std::erase_if(ready, [&](const CandidateState* candidate) {
    return std::find(out.begin(), out.end(), candidate) != out.end();
  });
  return out;
}

}  // namespace tenon::optimizer
