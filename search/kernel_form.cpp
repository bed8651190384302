#include "search/kernel_form.h"

#include <algorithm>
#include <array>
#include <bit>

namespace tenon::search {

namespace {

bool is_reduction(ir::OpKind op) { return op == ir::OpKind::kSum || op == ir::OpKind::kMatmul; }

// For each value, whether it depends on a reduction over `dim`.
std::vector<bool> after_reduction(const KernelForm& form, ir::DimId dim) {
  std::vector<bool> after(form.loads.size(), false);
  for (const BlockOp& op : form.ops) {
    bool mine = is_reduction(op.operation.op) && op.operation.dim == dim;
    for (int operand : {op.a, op.b})
      if (operand >= 0) mine = mine || after[static_cast<std::size_t>(operand)];
    after.push_back(mine);
  }
  return after;
}

}  // namespace

DimSet Frame::grid_dims() const {
  DimSet dims = 0;
  for (ir::DimId d : grid) dims |= bit(d);
  return dims;
}

ClassId KernelForm::cls(int value) const {
  std::size_t v = static_cast<std::size_t>(value);
  return v < loads.size() ? loads[v].cls : ops[v - loads.size()].cls;
}

Tile KernelForm::tile(int value) const {
  std::size_t v = static_cast<std::size_t>(value);
  return v < loads.size() ? loads[v].tile : ops[v - loads.size()].tile;
}

std::optional<Step> step(const Space& space, const Frame& frame, const Operation& operation, Tile a,
                         Tile b) {
  bool unary = operation.b == kNoClass;
  DimSet loop = frame.loop < 0 ? 0 : bit(static_cast<ir::DimId>(frame.loop));
  if (operation.online) {
    bool steps = a == Tile::kStep && (unary || b == Tile::kStep);
    if (!(bit(operation.dim) & loop) || !steps) return std::nullopt;
    return Step{Tile::kDone, true};
  }
  if (is_reduction(operation.op)) {
    DimSet dim = bit(operation.dim);
    if (dim & loop) {
      if (operation.op == ir::OpKind::kSum)
        return a == Tile::kStep ? Step{Tile::kDone, true} : Step{a, false};
      if (a == Tile::kStep && b == Tile::kStep) return Step{Tile::kDone, true};
      return std::nullopt;
    }
    if (dim & frame.grid_dims()) return std::nullopt;
  }
  if (operation.op == ir::OpKind::kBroadcast &&
      (operation.dims & ~space.at(operation.a).dims & loop))
    return std::nullopt;
  if (unary) return Step{a, false};
  Tile tile = std::max(a, b);
  if (tile == Tile::kDone && (a == Tile::kStep || b == Tile::kStep)) return std::nullopt;
  if (tile != Tile::kWhole) {
    if (a == Tile::kWhole && (space.at(operation.a).dims & loop)) return std::nullopt;
    if (b == Tile::kWhole && (space.at(operation.b).dims & loop)) return std::nullopt;
  }
  return Step{tile, false};
}

bool same_value(const Space& space, const Frame& frame, ClassId a, Tile ta, ClassId b, Tile tb) {
  if (a != b) return false;
  bool has_loop = frame.loop >= 0 && (space.at(a).dims & bit(static_cast<ir::DimId>(frame.loop)));
  return !has_loop || ta == tb;
}

bool reduces(const KernelForm& form) {
  return std::any_of(form.ops.begin(), form.ops.end(),
                     [](const BlockOp& op) { return is_reduction(op.operation.op); });
}

bool could_loop(const Space& space, const KernelForm& form) {
  if (form.frame.loop >= 0) return false;
  for (const BlockOp& op : form.ops) {
    if (!is_reduction(op.operation.op)) continue;
    ir::DimId dim = op.operation.dim;
    std::vector<bool> after = after_reduction(form, dim);
    bool fits = true;
    for (std::size_t v = 0; v < after.size(); ++v)
      if (after[v] && (space.at(form.cls(static_cast<int>(v))).dims & bit(dim))) fits = false;
    if (fits) return true;
  }
  return false;
}

bool could_widen(const Space& space, const KernelForm& form) {
  DimSet cut = form.frame.grid_dims();
  if (form.frame.loop >= 0) cut |= bit(static_cast<ir::DimId>(form.frame.loop));
  DimSet common = ~cut;
  for (int v : form.stores) common &= space.at(form.cls(v)).dims;
  for (const BlockOp& op : form.ops)
    if (is_reduction(op.operation.op)) common &= ~bit(op.operation.dim);
  return common != 0;
}

std::uint64_t cost(const Space& space, const KernelForm& form) {
  std::uint64_t sum = 0;
  for (const BlockOp& op : form.ops) {
    DimSet dims = space.at(op.cls).dims | space.at(op.operation.a).dims;
    if (op.operation.b != kNoClass) dims |= space.at(op.operation.b).dims;
    sum += std::uint64_t{1} << (6 * std::min(std::popcount(dims), 8));
  }
  return sum;
}

std::vector<std::int64_t> contents(const KernelForm& form) {
  std::vector<std::int64_t> out = {form.frame.loop, form.frame.split};
  for (ir::DimId d : form.frame.grid) out.push_back(d);
  auto section = [&](auto& rows) {
    std::sort(rows.begin(), rows.end());
    out.push_back(-7);
    for (const auto& row : rows) out.insert(out.end(), row.begin(), row.end());
  };
  auto value = [&](int v) { return form.cls(v) * 4 + static_cast<std::int64_t>(form.tile(v)); };
  std::vector<std::array<std::int64_t, 2>> loads;
  std::vector<std::array<std::int64_t, 6>> reductions;
  std::vector<std::array<std::int64_t, 1>> stores;
  for (const Load& load : form.loads)
    loads.push_back({load.cls, static_cast<std::int64_t>(load.tile)});
  for (const BlockOp& op : form.ops) {
    if (!is_reduction(op.operation.op)) continue;
    auto [a, b] = std::minmax({value(op.a), op.b < 0 ? -1 : value(op.b)});
    reductions.push_back({static_cast<std::int64_t>(op.operation.op), op.operation.dim,
                          op.accumulate, op.operation.online ? op.cls : -1, a, b});
  }
  for (int v : form.stores) stores.push_back({value(v)});
  section(loads);
  section(reductions);
  section(stores);
  return out;
}

}  // namespace tenon::search
