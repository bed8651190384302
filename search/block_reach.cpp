#include "search/block_reach.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace tenon::search {

namespace {

constexpr Tile kTiles[] = {Tile::kWhole, Tile::kStep, Tile::kDone};
}  // namespace

bool is_hoisted(const Space& space, const Way& way) {
  return (way.operation.op == ir::OpKind::kSum || way.operation.op == ir::OpKind::kMatmul) &&
         space.at(way.result).parameter_only;
}

std::vector<Frame> frames(const Space& space, const RuleSet& rules) {
  std::set<DimSet> grids;
  std::set<DimSet> shapes;
  // All outputs from one grid, each block storing the shares that are its own: columns of several
  // products lie side by side.
  DimSet together = 0;
  for (ClassId c : space.classes()) {
    if (!space.is_goal(c)) continue;
    shapes.insert(space.at(c).dims);
    if (space.is_output(c)) together |= space.at(c).dims;
  }
  shapes.insert(together);
  for (DimSet all : shapes) {
    // A dim that nothing reduces is always shared out: see the grid rule.
    DimSet must = rules.on(RuleId::kGrid) ? all & ~space.reduced_dims() : 0;
    DimSet may = all & ~must;
    for (DimSet sub = may;; sub = (sub - 1) & may) {
      grids.insert(must | sub);
      if (sub == 0) break;
    }
  }
  std::vector<Frame> out;
  for (DimSet grid : grids) {
    Frame frame;
    for (ir::DimId d = 0; d < 64; ++d)
      if (grid & bit(d)) frame.grid.push_back(d);
    out.push_back(frame);
    for (ir::DimId d = 0; d < 64; ++d) {
      if (!(space.reduced_dims() & bit(d) & ~grid)) continue;
      for (bool split : {false, true}) {
        frame.loop = d;
        frame.split = split;
        out.push_back(frame);
      }
    }
  }
  return out;
}

BlockReach::BlockReach(const Space& space, const Frame& frame, const RuleSet& rules)
    : space_(space), frame_(frame), rules_(rules) {
  list_loads();
  find_edges();
  find_distances();
  if (rules_.on(RuleId::kExpression)) drop_useless_loads();
  find_joins();
}

// All that a kernel may load: inputs, prepared tensors, what other kernels store; each whole or,
// along the loop's dim, in steps. Literals last.
void BlockReach::list_loads() {
  std::vector<Load> literals;
  for (ClassId c : space_.classes()) {
    const Expression& e = space_.at(c);
    if (e.is_constant) {
      if (e.constant) literals.push_back({c, Tile::kWhole});
      continue;
    }
    if (e.input < 0 && !space_.is_prepared(c) && !space_.is_goal(c)) continue;
    loads_.push_back({c, Tile::kWhole});
    if (frame_.loop >= 0 && (e.dims & bit(static_cast<ir::DimId>(frame_.loop))))
      loads_.push_back({c, Tile::kStep});
  }
  loads_.insert(loads_.end(), literals.begin(), literals.end());
}

bool BlockReach::is_goal(ClassId c) const {
  if (!space_.is_goal(c)) return false;
  if (!rules_.on(RuleId::kGrid)) return true;
  return !(space_.at(c).dims & ~space_.reduced_dims() & ~frame_.grid_dims());
}

int BlockReach::distance(const Load& value) const {
  return slot(value) < distance_.size() ? distance_[slot(value)] : -1;
}

bool BlockReach::compatible(const Load& a, const Load& b) const {
  return compatible_[slot(a)][slot(b)];
}

bool BlockReach::has_late_use(const Load& value) const { return has_late_use_[slot(value)]; }

// Operators between values that can exist in this frame, given the loads.
void BlockReach::find_edges() {
  ClassId last = space_.classes().empty() ? 0 : space_.classes().back();
  derivable_.assign(slot(last, Tile::kDone) + 1, false);
  for (const Load& load : loads_) derivable_[slot(load)] = true;
  std::set<std::tuple<std::size_t, Tile, Tile>> seen;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t w = 0; w < space_.ways().size(); ++w) {
      const Way& way = space_.ways()[w];
      const Operation& o = way.operation;
      if (rules_.on(RuleId::kHoist) && is_hoisted(space_, way)) continue;
      for (Tile ta : kTiles)
        for (Tile tb : kTiles) {
          if (o.b == kNoClass && tb != Tile::kWhole) continue;
          if (!derivable_[slot(o.a, ta)]) continue;
          if (o.b != kNoClass && !derivable_[slot(o.b, tb)]) continue;
          if (!seen.insert({w, ta, tb}).second) continue;
          std::optional<Step> s = step(space_, frame_, o, ta, tb);
          if (!s) continue;
          std::size_t a = slot(o.a, ta);
          BlockOp op{o, -1, -1, s->accumulate, way.result, s->tile};
          edges_.push_back({a, o.b == kNoClass ? a : slot(o.b, tb), slot(way.result, s->tile), op});
          derivable_[edges_.back().result] = true;
          changed = true;
        }
    }
  }
}

// How many operators at least lead from each value to something storable. Edges that lead to
// nothing are dropped.
void BlockReach::find_distances() {
  distance_.assign(derivable_.size(), -1);
  for (ClassId c : space_.classes())
    for (Tile t : kTiles)
      if (is_goal(c) && derivable_[slot(c, t)]) distance_[slot(c, t)] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Edge& e : edges_) {
      if (distance_[e.result] < 0) continue;
      int d = distance_[e.result] + 1;
      for (std::size_t operand : {e.a, e.b})
        if (distance_[operand] < 0 || distance_[operand] > d) {
          distance_[operand] = d;
          changed = true;
        }
    }
  }
  std::erase_if(edges_, [&](const Edge& e) { return distance_[e.result] < 0; });
}

// A load must go into some operator; being storable itself is not enough.
void BlockReach::drop_useless_loads() {
  std::vector<bool> used(distance_.size(), false);
  for (const Edge& e : edges_) used[e.a] = used[e.b] = true;
  std::erase_if(loads_, [&](const Load& load) { return !used[slot(load)]; });
}

// May one kernel store both? Intermediates have one shape; and beside all outputs of the
// program no intermediate is wanted.
bool BlockReach::stored_together(ClassId a, ClassId b) const {
  if (a == b || !is_goal(a) || !is_goal(b)) return false;
  int outputs = space_.is_output(a) + space_.is_output(b);
  if (outputs == 2) return true;
  if (outputs == 1) return space_.outputs().size() > 1;
  return space_.at(a).dims == space_.at(b).dims;
}

void BlockReach::find_joins() {
  std::size_t slots = distance_.size();
  // from[u][v]: v can be made from u, or is u.
  std::vector<std::vector<bool>> from(slots, std::vector<bool>(slots, false));
  std::vector<bool> computed(slots, false);
  for (std::size_t u = 0; u < slots; ++u) from[u][u] = true;
  for (const Edge& e : edges_) computed[e.result] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Edge& e : edges_)
      for (std::size_t u = 0; u < slots; ++u)
        if ((from[u][e.a] || from[u][e.b]) && !from[u][e.result]) {
          from[u][e.result] = true;
          changed = true;
        }
  }
  compatible_.assign(slots, std::vector<bool>(slots, false));
  has_late_use_.assign(slots, false);
  auto join = [&](std::size_t a, std::size_t b) {
    for (std::size_t u = 0; u < slots; ++u) {
      if (!from[u][a]) continue;
      for (std::size_t v = 0; v < slots; ++v)
        if (from[v][b]) compatible_[u][v] = compatible_[v][u] = true;
    }
  };
  std::set<std::pair<std::size_t, std::size_t>> joined;
  for (const Edge& e : edges_) {
    if (e.a == e.b) continue;
    if (computed[e.b]) has_late_use_[e.a] = true;
    if (computed[e.a]) has_late_use_[e.b] = true;
    if (joined.insert(std::minmax(e.a, e.b)).second) join(e.a, e.b);
  }
  auto at = [](std::size_t s) { return static_cast<ClassId>(s / kTileCount); };
  for (std::size_t a = 0; a < slots; ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (distance_[a] == 0 && distance_[b] == 0 && stored_together(at(a), at(b))) join(a, b);
}

}  // namespace tenon::search
