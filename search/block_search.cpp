#include "search/block_search.h"

#include <algorithm>
#include <utility>

namespace tenon::search {

void BlockResult::operator+=(BlockResult other) {
  forms.insert(forms.end(), std::make_move_iterator(other.forms.begin()),
               std::make_move_iterator(other.forms.end()));
  visited += other.visited;
  pruned += other.pruned;
  cut_by_ops = cut_by_ops || other.cut_by_ops;
  cut_by_reads = cut_by_reads || other.cut_by_reads;
}

bool may_store(const Space& space, const Frame& frame, const std::vector<ClassId>& stores) {
  DimSet along = 0;
  int intermediates = 0;
  DimSet shape = 0;
  for (std::size_t i = 0; i < stores.size(); ++i) {
    // A tensor is written once, even where its value exists with two maps.
    if (i > 0 && stores[i] == stores[i - 1]) return false;
    const Expression& e = space.at(stores[i]);
    along |= e.dims;
    if (space.is_output(stores[i])) continue;
    if (intermediates++ > 0 && e.dims != shape) return false;  // stored together: of one shape
    shape = e.dims;
  }
  if (intermediates > kMaxIntermediates) return false;
  // Beside all outputs of the program no intermediate is wanted.
  std::size_t outputs = stores.size() - static_cast<std::size_t>(intermediates);
  if (intermediates > 0 && outputs == space.outputs().size()) return false;
  return !(frame.grid_dims() & ~along);
}

void finish_kernel(const Space& space, const RuleSet& rules, KernelForm form, BlockResult& out) {
  if (rules.on(RuleId::kGrid) && could_widen(space, form)) {
    out.pruned.add(RuleId::kGrid);
    return;
  }
  if (rules.on(RuleId::kLoop) && could_loop(space, form)) {
    out.pruned.add(RuleId::kLoop);
    return;
  }
  out.forms.push_back(std::move(form));
}

BlockSearch::BlockSearch(Space& space, const Frame& frame, const RuleSet& rules,
                         const std::function<bool()>& stop)
    : space_(space), frame_(frame), rules_(rules), stop_(stop), reach_(space, frame_, rules) {
  find_roots();
}

// One depth-first walk: the kernel so far, and what it found.
struct BlockSearch::Walk {
  // The place of an operator in the canonical order: its later operand, its earlier one, and
  // which of the operators between the two it is.
  struct Place {
    int hi = 0, lo = -2, order = 0, index = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct Candidate {
    Place place;
    BlockOp op;
  };

  const BlockSearch& s;
  const BlockBounds bounds;
  BlockResult out;
  std::vector<Load> values;  // class and tile of loads, then of operators' results
  std::vector<int> uses;
  std::vector<BlockOp> ops;
  int loads = 0;

  Walk(const BlockSearch& search, const BlockBounds& limits) : s(search), bounds(limits) {
    values = s.reach_.loads();
    loads = static_cast<int>(values.size());
    uses.assign(values.size(), 0);
  }

  bool in_graph(int v) const { return v >= loads || uses[static_cast<std::size_t>(v)] > 0; }
  const Load& value(int v) const { return values[static_cast<std::size_t>(v)]; }
  bool literal(int v) const { return s.space_.at(value(v).cls).constant.has_value(); }

  // Is a value equal to `x` in the kernel already? (Loads count once they are used.)
  bool have(const Load& x, int except) const {
    for (int v = 0; v < static_cast<int>(values.size()); ++v)
      if (v != except && in_graph(v) &&
          same_value(s.space_, s.frame_, value(v).cls, value(v).tile, x.cls, x.tile))
        return true;
    return false;
  }

  // Using a load for the first time brings it into the kernel. A tensor is loaded once, with
  // one map, and never beside its own recomputation.
  bool may_use(int v) {
    if (in_graph(v) || literal(v)) return true;
    for (int u = 0; u < static_cast<int>(values.size()); ++u)
      if (u != v && u < loads && in_graph(u) && value(u).cls == value(v).cls) return false;
    if (s.rules_.on(RuleId::kEquivalence) && have(value(v), v)) {
      out.pruned.add(RuleId::kEquivalence);
      return false;
    }
    return true;
  }

  // Does the kernel load few enough tensors of other kernels, with these two values used?
  bool few_reads(int a, int b) {
    int count = 0;
    for (int v = 0; v < loads; ++v)
      count += (in_graph(v) || v == a || v == b) && s.space_.is_goal(value(v).cls);
    if (count <= bounds.max_reads) return true;
    out.cut_by_reads = true;
    return false;
  }

  // Calls f(candidate) for each operator that may come next; f returns whether to go on.
  template <class F>
  void for_each(const Place& last, F&& f) {
    bool ordered = s.rules_.on(RuleId::kOrder);
    int n = static_cast<int>(values.size());
    for (int hi = ordered ? last.hi : 0; hi < n; ++hi) {
      for (int lo = -1; lo <= hi; ++lo) {
        for (int order = 0; order < 2; ++order) {
          ClassId a = value(hi).cls;
          ClassId b = lo < 0 ? kNoClass : value(lo).cls;
          bool swapped = order == 1;
          if (swapped && (lo < 0 || a == b)) continue;
          const PairWays& pair = swapped ? s.space_.between(b, a) : s.space_.between(a, b);
          if (s.rules_.on(RuleId::kExpression)) out.pruned.add(RuleId::kExpression, pair.foreign);
          for (std::size_t i = 0; i < pair.ways.size(); ++i) {
            Candidate c;
            c.place = {hi, lo, order, static_cast<int>(i)};
            if (ordered && !(c.place > last)) {
              out.pruned.add(RuleId::kOrder);
              continue;
            }
            c.op.operation = pair.ways[i].operation;
            c.op.cls = pair.ways[i].result;
            if (s.rules_.on(RuleId::kHoist) && is_hoisted(s.space_, pair.ways[i])) {
              out.pruned.add(RuleId::kHoist);
              continue;
            }
            c.op.a = swapped ? lo : hi;
            c.op.b = lo < 0 ? -1 : (swapped ? hi : lo);
            if (!admit(c.op)) continue;
            if (!f(c)) return;
          }
        }
      }
    }
  }

  // Fills in the tile; says whether the rules let the operator in.
  bool admit(BlockOp& op) {
    Tile ta = value(op.a).tile;
    Tile tb = op.b < 0 ? Tile::kWhole : value(op.b).tile;
    std::optional<Step> result = step(s.space_, s.frame_, op.operation, ta, tb);
    if (!result) {
      if (s.rules_.on(RuleId::kMaps)) {
        out.pruned.add(RuleId::kMaps);
        return false;
      }
      result = Step{std::max(ta, tb), false};
    }
    op.tile = result->tile;
    op.accumulate = result->accumulate;
    if (s.rules_.on(RuleId::kExpression) && s.reach_.distance({op.cls, op.tile}) < 0) {
      out.pruned.add(RuleId::kExpression);
      return false;
    }
    if (s.rules_.on(RuleId::kEquivalence) && have({op.cls, op.tile}, -1)) {
      out.pruned.add(RuleId::kEquivalence);
      return false;
    }
    bool two = op.b >= 0 && op.b != op.a;
    return may_use(op.a) && (!two || may_use(op.b)) && few_reads(op.a, two ? op.b : -1);
  }

  void push(const BlockOp& op) {
    ++uses[static_cast<std::size_t>(op.a)];
    if (op.b >= 0) ++uses[static_cast<std::size_t>(op.b)];
    ops.push_back(op);
    values.push_back({op.cls, op.tile});
    uses.push_back(0);
  }

  void pop() {
    const BlockOp& op = ops.back();
    --uses[static_cast<std::size_t>(op.a)];
    if (op.b >= 0) --uses[static_cast<std::size_t>(op.b)];
    ops.pop_back();
    values.pop_back();
    uses.pop_back();
  }

  int left() const { return bounds.max_ops - static_cast<int>(ops.size()); }

  // Can what is not used yet still be used up? An operator takes at most two values and makes
  // one, so each lowers the number of loose ends by one at most.
  bool within_bounds() {
    if (!s.rules_.on(RuleId::kBounds)) return true;
    int loose = 0;
    int farthest = 0;
    for (int v = loads; v < static_cast<int>(values.size()); ++v) {
      if (uses[static_cast<std::size_t>(v)] > 0) continue;
      ++loose;
      int d = s.reach_.is_goal(value(v).cls) ? 0 : 1;
      if (s.rules_.on(RuleId::kExpression)) d = s.reach_.distance(value(v));
      farthest = std::max(farthest, d);
    }
    int stores = static_cast<int>(s.space_.outputs().size()) + kMaxIntermediates;
    if (loose - stores <= left() && farthest <= left()) return true;
    out.pruned.add(RuleId::kBounds);
    out.cut_by_ops = true;
    return false;
  }

  // Can the values that nothing uses yet still come together? `last` is where the canonical
  // order stands.
  bool ends_meet(const Place& last) {
    if (!s.rules_.on(RuleId::kEnds) || !s.rules_.on(RuleId::kExpression)) return true;
    int newest = static_cast<int>(values.size()) - 1;
    for (int v = loads; v <= newest; ++v) {
      if (uses[static_cast<std::size_t>(v)] > 0) continue;
      bool late = v < last.hi && s.rules_.on(RuleId::kOrder);
      bool stuck = late && !s.reach_.has_late_use(value(v)) && !s.reach_.is_goal(value(v).cls);
      for (int u = loads; u < v && !stuck; ++u)
        stuck = uses[static_cast<std::size_t>(u)] == 0 && !s.reach_.compatible(value(u), value(v));
      if (stuck) {
        out.pruned.add(RuleId::kEnds);
        return false;
      }
    }
    return true;
  }

  void explore(const Place& last) {
    if (s.stop_()) return;
    ++out.visited;
    emit();
    for_each(last, [&](const Candidate& c) {
      if (left() == 0) {
        out.cut_by_ops = true;
        return false;
      }
      descend(c);
      return !s.stop_();
    });
  }

  void descend(const Candidate& c) {
    push(c.op);
    if (ends_meet(c.place) && within_bounds()) explore(c.place);
    pop();
  }

  // Late forms of the exact rules: what a finished kernel must satisfy in any case.
  bool well_formed() const {
    for (const BlockOp& op : ops) {
      std::optional<Step> fits = step(s.space_, s.frame_, op.operation, value(op.a).tile,
                                      op.b < 0 ? Tile::kWhole : value(op.b).tile);
      if (!fits || fits->tile != op.tile) return false;
    }
    for (int v = 0; v < static_cast<int>(values.size()); ++v)
      if (in_graph(v) && !(v < loads && literal(v)) && have(value(v), v)) return false;
    return true;
  }

  // Every value that nothing uses is stored; a program output may be used and stored.
  void emit() {
    if (ops.empty()) return;
    if (s.frame_.loop >= 0 &&
        std::none_of(ops.begin(), ops.end(), [](const BlockOp& op) { return op.accumulate; }))
      return;
    std::vector<int> loose, also;
    for (int v = loads; v < static_cast<int>(values.size()); ++v) {
      if (uses[static_cast<std::size_t>(v)] == 0) {
        if (!s.reach_.is_goal(value(v).cls)) return;
        loose.push_back(v);
      } else if (s.space_.is_reachable(value(v).cls) && s.space_.is_output(value(v).cls)) {
        also.push_back(v);
      }
    }
    if (!well_formed()) return;
    for (std::size_t subset = 0; subset < (std::size_t{1} << also.size()); ++subset) {
      std::vector<int> stores = loose;
      for (std::size_t i = 0; i < also.size(); ++i)
        if (subset & (std::size_t{1} << i)) stores.push_back(also[i]);
      emit_storing(std::move(stores));
    }
  }

  void emit_storing(std::vector<int> stores) {
    std::sort(stores.begin(), stores.end(),
              [&](int x, int y) { return value(x).cls < value(y).cls; });
    std::vector<ClassId> classes;
    for (int v : stores) classes.push_back(value(v).cls);
    if (may_store(s.space_, s.frame_, classes))
      finish_kernel(s.space_, s.rules_, make_form(stores), out);
  }

  // Copies the kernel with only the loads that it uses.
  KernelForm make_form(const std::vector<int>& stores) const {
    KernelForm form;
    form.frame = s.frame_;
    std::vector<int> renamed(values.size(), -1);
    for (int v = 0; v < loads; ++v) {
      if (uses[static_cast<std::size_t>(v)] == 0) continue;
      renamed[static_cast<std::size_t>(v)] = static_cast<int>(form.loads.size());
      form.loads.push_back(value(v));
    }
    for (std::size_t i = 0; i < ops.size(); ++i)
      renamed[static_cast<std::size_t>(loads) + i] = static_cast<int>(form.loads.size() + i);
    auto at = [&](int v) { return v < 0 ? -1 : renamed[static_cast<std::size_t>(v)]; };
    for (BlockOp op : ops) {
      op.a = at(op.a);
      op.b = at(op.b);
      form.ops.push_back(op);
    }
    for (int v : stores) form.stores.push_back(at(v));
    return form;
  }
};

struct BlockSearch::Roots {
  std::vector<Walk::Candidate> candidates;
  BlockResult counts;
};

BlockSearch::~BlockSearch() = default;

void BlockSearch::find_roots() {
  roots_ = std::make_unique<Roots>();
  Walk walk(*this, BlockBounds{});
  ++walk.out.visited;
  walk.for_each({}, [&](const Walk::Candidate& c) {
    roots_->candidates.push_back(c);
    return true;
  });
  roots_->counts = std::move(walk.out);
}

std::size_t BlockSearch::branches() const { return roots_->candidates.size(); }

BlockResult BlockSearch::root() const { return roots_->counts; }

BlockResult BlockSearch::run(std::size_t branch, const BlockBounds& bounds) const {
  Walk walk(*this, bounds);
  walk.descend(roots_->candidates[branch]);
  return std::move(walk.out);
}

}  // namespace tenon::search
