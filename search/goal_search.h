// Block graphs from what they store back to what they load.
//
// A forward walk (search/block_search.h) meets some twenty partial kernels for each that can be
// finished. This one begins with a set of stores and resolves the highest value that is still
// needed, by a load or by one of the operators that make it, so that every value it meets is part
// of the kernel. Both find the same kernels: rule "goal".
#pragma once

#include <functional>
#include <vector>

#include "search/block_search.h"

namespace tenon::search {

class GoalSearch {
 public:
  GoalSearch(Space& space, const Frame& frame, const RuleSet& rules,
             const std::function<bool()>& stop);

  // Number of sets of stores; run(i) makes the kernels that store the i-th. Safe from several
  // threads.
  std::size_t branches() const { return stores_.size(); }
  BlockResult run(std::size_t branch, const BlockBounds& bounds) const;

 private:
  class Walk;
  void list_stores();
  void list_makers();
  void spell_parameters_once();

  Space& space_;
  Frame frame_;
  const RuleSet& rules_;
  const std::function<bool()>& stop_;
  BlockReach reach_;
  std::vector<std::vector<std::size_t>> stores_;  // slots, ascending
  std::vector<std::vector<std::size_t>> makers_;  // by slot: edges that make it
  std::vector<int> way_of_;                       // by edge
  std::vector<bool> loadable_;                    // by slot
  std::vector<int> rank_;                         // by class: above all of its operands'
};

}  // namespace tenon::search
