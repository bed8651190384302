// Block graphs: depth-first, one operator at a time.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "search/kernel_form.h"

namespace tenon::search {

inline constexpr int kMaxIntermediates = 2;  // stored by one kernel

struct BlockResult {
  std::vector<KernelForm> forms;
  std::uint64_t visited = 0;
  PruneCounts pruned;
  bool cut_off = false;  // max_ops stopped an extension
  void operator+=(BlockResult other);
};

// The cuts worth trying: grids over dims of what may be stored, with no loop, or a loop over a
// reduced dim, split over blocks or not.
std::vector<Frame> frames(const Space& space, const RuleSet& rules);

// All kernels cut like one frame. Const calls are safe from several threads.
class BlockSearch {
 public:
  BlockSearch(Space& space, const Frame& frame, const RuleSet& rules,
              const std::function<bool()>& stop);
  ~BlockSearch();

  // Number of first operators; run(i) explores the kernels of at most `max_ops` operators
  // (≥ 1) that begin with the i-th.
  std::size_t branches() const;
  BlockResult run(std::size_t branch, int max_ops) const;
  // Counts of choosing the first operators.
  BlockResult root() const;

 private:
  struct Walk;
  struct Roots;
  void find_useful();
  void find_roots();
  void find_joins(std::size_t slots);
  bool stored_together(ClassId a, ClassId b) const;
  bool useful(ClassId c, Tile t) const;
  int distance(ClassId c, Tile t) const;
  bool is_goal(ClassId c) const;

  Space& space_;
  Frame frame_;
  const RuleSet& rules_;
  const std::function<bool()>& stop_;
  std::vector<Load> loads_;  // all that a kernel may load, literals included
  // By class × tile: operators still needed, at least, until something storable; -1: never.
  std::vector<int> distance_;
  // An operator between class × tile slots that leads on to something storable.
  struct Edge {
    std::size_t a, b, result;  // b == a for one operand
  };
  std::vector<Edge> edges_;
  // By pair of slots: may both be unused in a kernel that can still be finished?
  std::vector<std::vector<bool>> compatible_;
  // By slot: has it an operator whose other operand this kernel may compute?
  std::vector<bool> has_late_use_;
  std::unique_ptr<Roots> roots_;
};

}  // namespace tenon::search
