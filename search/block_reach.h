// What can be made within one cut of a kernel, and which of it leads on: the look-ahead of the
// block search.
#pragma once

#include <vector>

#include "search/kernel_form.h"

namespace tenon::search {

// The cuts worth trying: grids over dims of what may be stored, with no loop, or a loop over a
// reduced dim, split over blocks or not.
std::vector<Frame> frames(const Space& space, const RuleSet& rules);

// One number for a class with a tile.
inline constexpr std::size_t kTileCount = 3;
inline std::size_t slot(ClassId c, Tile t) {
  return static_cast<std::size_t>(c) * kTileCount + static_cast<std::size_t>(t);
}
inline std::size_t slot(const Load& value) { return slot(value.cls, value.tile); }
inline Load slot_value(std::size_t s) {
  return {static_cast<ClassId>(s / kTileCount), static_cast<Tile>(s % kTileCount)};
}

// Does the operator reduce what parameters alone make? Rule "hoist" leaves it to prepare.
bool is_hoisted(const Space& space, const Way& way);

class BlockReach {
 public:
  // An operator between class × tile slots that leads on to something storable.
  struct Edge {
    std::size_t a, b, result;  // slots; b == a for one operand
    BlockOp op;                // its values are not filled in
  };
  BlockReach(const Space& space, const Frame& frame, const RuleSet& rules);

  // All that a kernel may load, literals (last) included.
  const std::vector<Load>& loads() const { return loads_; }
  // May it be stored by a kernel cut so?
  bool is_goal(ClassId c) const;
  // Operators still needed, at least, from a value to something storable; -1: it never gets there.
  int distance(const Load& value) const;
  // May both be unused in a kernel that can still be finished? Both have a distance.
  bool compatible(const Load& a, const Load& b) const;
  // Is there an operator on it whose other operand this kernel may compute?
  bool has_late_use(const Load& value) const;
  const std::vector<Edge>& edges() const { return edges_; }
  std::size_t slots() const { return distance_.size(); }

 private:
  void list_loads();
  void find_edges();
  void find_distances();
  void drop_useless_loads();
  void find_joins();
  bool stored_together(ClassId a, ClassId b) const;

  const Space& space_;
  const Frame& frame_;
  const RuleSet& rules_;
  std::vector<Load> loads_;
  std::vector<bool> derivable_;
  std::vector<Edge> edges_;
  std::vector<int> distance_;
  std::vector<std::vector<bool>> compatible_;
  std::vector<bool> has_late_use_;
};

}  // namespace tenon::search
