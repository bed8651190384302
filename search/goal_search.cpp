#include "search/goal_search.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "ir/error.h"

namespace tenon::search {

GoalSearch::GoalSearch(Space& space, const Frame& frame, const RuleSet& rules,
                       const std::function<bool()>& stop)
    : space_(space), frame_(frame), rules_(rules), stop_(stop), reach_(space, frame_, rules) {
  list_makers();
  list_stores();
}

void GoalSearch::list_makers() {
  makers_.resize(reach_.slots());
  for (std::size_t e = 0; e < reach_.edges().size(); ++e)
    makers_[reach_.edges()[e].result].push_back(e);
  // Which of the operators between its operands each is: a part of the canonical order.
  for (const BlockReach::Edge& edge : reach_.edges()) {
    const Operation& o = edge.op.operation;
    const std::vector<Way>& ways = space_.between(o.a, o.b).ways;
    auto way = std::find_if(ways.begin(), ways.end(), [&](const Way& w) {
      return w.operation == o && w.result == edge.op.cls;
    });
    way_of_.push_back(static_cast<int>(way - ways.begin()));
  }
  if (rules_.on(RuleId::kThread)) spell_parameters_once();
  loadable_.assign(reach_.slots(), false);
  for (const Load& load : reach_.loads()) loadable_[slot(load)] = true;
  // No class is part of its own operands (Space), so ranks exist.
  rank_.assign(reach_.slots() / kTileCount + 1, 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (const Way& way : space_.ways())
      for (ClassId operand : {way.operation.a, way.operation.b}) {
        if (operand == kNoClass) continue;
        int& mine = rank_[static_cast<std::size_t>(way.result)];
        int least = rank_[static_cast<std::size_t>(operand)] + 1;
        if (mine < least) {
          mine = least;
          changed = true;
        }
      }
  }
}

// How pointwise values of parameters are spelled is one thread graph's business: the program's own
// spelling if it has one, else the first.
void GoalSearch::spell_parameters_once() {
  for (std::size_t s = 0; s < makers_.size(); ++s) {
    std::vector<std::size_t>& makers = makers_[s];
    if (makers.size() < 2 || !space_.at(slot_value(s).cls).parameter_only) continue;
    auto pointwise = [&](std::size_t e) {
      const Operation& o = reach_.edges()[e].op.operation;
      return ir::info(o.op).op_class == ir::OpClass::kPointwise;
    };
    if (!std::all_of(makers.begin(), makers.end(), pointwise)) continue;
    auto own = std::find_if(makers.begin(), makers.end(), [&](std::size_t e) {
      return space_.in_program(reach_.edges()[e].op.operation);
    });
    makers = {own == makers.end() ? makers.front() : *own};
  }
}

// Sets of values that a kernel may store: some outputs, and at most kMaxIntermediates others.
void GoalSearch::list_stores() {
  std::vector<std::size_t> outputs, others;
  for (std::size_t s = 0; s < reach_.slots(); ++s) {
    if (makers_[s].empty() || !reach_.is_goal(slot_value(s).cls)) continue;
    (space_.is_output(slot_value(s).cls) ? outputs : others).push_back(s);
  }
  std::vector<std::size_t> chosen;
  auto add = [&] {
    std::vector<std::size_t> stores = chosen;
    std::sort(stores.begin(), stores.end());
    std::vector<ClassId> classes;
    for (std::size_t s : stores) classes.push_back(slot_value(s).cls);
    if (may_store(space_, frame_, classes)) stores_.push_back(std::move(stores));
  };
  std::function<void(std::size_t)> choose_outputs = [&](std::size_t from) {
    if (!chosen.empty()) add();
    for (std::size_t i = 0; i < others.size(); ++i) {
      chosen.push_back(others[i]);
      add();
      for (std::size_t j = i + 1; j < others.size(); ++j) {
        chosen.push_back(others[j]);
        add();
        chosen.pop_back();
      }
      chosen.pop_back();
    }
    for (std::size_t i = from; i < outputs.size(); ++i) {
      chosen.push_back(outputs[i]);
      choose_outputs(i + 1);
      chosen.pop_back();
    }
  };
  static_assert(kMaxIntermediates == 2);
  choose_outputs(0);
}

class GoalSearch::Walk {
 public:
  Walk(const GoalSearch& search, const BlockBounds& bounds)
      : s_(search),
        bounds_(bounds),
        state_(search.reach_.slots()),
        position_(search.reach_.slots(), -1),
        index_(search.reach_.slots(), -1) {}

  BlockResult run(const std::vector<std::size_t>& stores) {
    stores_ = stores;
    bool fits = true;
    for (std::size_t store : stores) fits = fits && need(store);
    if (fits) resolve();
    return std::move(out_);
  }

 private:
  enum class Status : std::uint8_t { kNone, kPending, kLoaded, kMade };
  struct State {
    Status status = Status::kNone;
    int uses = 0;
    std::size_t edge = 0;
  };

  const Expression& at(std::size_t slot) const { return s_.space_.at(slot_value(slot).cls); }
  bool literal(std::size_t slot) const { return at(slot).constant.has_value(); }
  bool is_store(std::size_t slot) const {
    return std::find(stores_.begin(), stores_.end(), slot) != stores_.end();
  }

  // The kernel has use of the value: says whether no equal one is in it already.
  bool need(std::size_t slot) {
    State& state = state_[slot];
    ++state.uses;
    if (state.status != Status::kNone) return true;
    state.status = literal(slot) ? Status::kLoaded : Status::kPending;
    if (state.status == Status::kPending) pending_.push_back(slot);
    Load value = slot_value(slot);
    for (Tile t : {Tile::kWhole, Tile::kStep, Tile::kDone}) {
      if (t == value.tile || state_[search::slot(value.cls, t)].status == Status::kNone) continue;
      if (same_value(s_.space_, s_.frame_, value.cls, value.tile, value.cls, t)) {
        out_.pruned.add(RuleId::kEquivalence);
        return false;
      }
    }
    return true;
  }

  void drop(std::size_t slot) {
    State& state = state_[slot];
    if (--state.uses > 0) return;
    if (state.status == Status::kPending) std::erase(pending_, slot);
    state.status = Status::kNone;
  }

  // The value to resolve next: nothing that is still needed, or will be, is made of it.
  std::size_t highest() const {
    auto key = [&](std::size_t slot) {
      return std::pair(s_.rank_[static_cast<std::size_t>(slot_value(slot).cls)], slot);
    };
    return *std::max_element(pending_.begin(), pending_.end(),
                             [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  }

  bool within_bounds() {
    int must = 0;
    for (std::size_t slot : pending_) must += is_store(slot) || !s_.loadable_[slot];
    if (static_cast<int>(made_.size()) + must <= bounds_.max_ops) return true;
    out_.cut_by_ops = true;
    out_.pruned.add(RuleId::kBounds);
    return false;
  }

  void resolve() {
    if (s_.stop_()) return;
    ++out_.visited;
    if (!within_bounds()) return;
    if (pending_.empty()) {
      emit();
      return;
    }
    const std::size_t slot = highest();
    std::erase(pending_, slot);
    if (s_.loadable_[slot] && !is_store(slot)) load(slot);
    for (std::size_t e : s_.makers_[slot]) make(slot, e);
    state_[slot].status = Status::kPending;
    pending_.push_back(slot);
  }

  // A tensor is loaded once, with one map.
  void load(std::size_t slot) {
    Load value = slot_value(slot);
    for (Tile t : {Tile::kWhole, Tile::kStep})
      if (t != value.tile && state_[search::slot(value.cls, t)].status == Status::kLoaded) return;
    bool read = s_.space_.is_goal(value.cls);
    if (read && reads_ == bounds_.max_reads) {
      out_.cut_by_reads = true;
      return;
    }
    reads_ += read;
    state_[slot].status = Status::kLoaded;
    resolve();
    reads_ -= read;
  }

  void make(std::size_t slot, std::size_t e) {
    const BlockReach::Edge& edge = s_.reach_.edges()[e];
    bool two = edge.op.operation.b != kNoClass;
    state_[slot].status = Status::kMade;
    state_[slot].edge = e;
    made_.push_back(slot);
    bool fits = need(edge.a);
    fits = (!two || need(edge.b)) && fits;
    if (fits) resolve();
    if (two) drop(edge.b);
    drop(edge.a);
    made_.pop_back();
  }

  // Is the value used, beside being stored?
  bool used(std::size_t slot) const { return state_[slot].uses > (is_store(slot) ? 1 : 0); }

  void emit() {
    bool accumulates = false;
    for (std::size_t slot : made_)
      accumulates = accumulates || s_.reach_.edges()[state_[slot].edge].op.accumulate;
    if (s_.frame_.loop >= 0 && !accumulates) return;
    for (std::size_t store : stores_)
      if (!s_.space_.is_output(slot_value(store).cls) && used(store)) return;
    finish_kernel(s_.space_, s_.rules_, form(), out_);
  }

  // Operators in the canonical order of the forward walk: always the smallest that is ready, by
  // (later operand, earlier operand, operator).
  KernelForm form() {
    const std::vector<Load>& loads = s_.reach_.loads();
    KernelForm form;
    form.frame = s_.frame_;
    for (std::size_t slot : made_) position_[slot] = -1;
    for (std::size_t l = 0; l < loads.size(); ++l) {
      std::size_t slot = search::slot(loads[l]);
      position_[slot] = -1;
      if (state_[slot].status != Status::kLoaded) continue;
      position_[slot] = static_cast<int>(l);
      index_[slot] = static_cast<int>(form.loads.size());
      form.loads.push_back(loads[l]);
    }
    left_ = made_;
    form.ops.reserve(made_.size());
    while (!left_.empty()) {
      using Key = std::tuple<int, int, bool, int>;  // as Place of the forward walk
      std::size_t best = left_.size();
      Key best_key;
      for (std::size_t i = 0; i < left_.size(); ++i) {
        const std::size_t e = state_[left_[i]].edge;
        const BlockReach::Edge& edge = s_.reach_.edges()[e];
        bool two = edge.op.operation.b != kNoClass;
        int a = position_[edge.a];
        int b = two ? position_[edge.b] : -1;
        if (a < 0 || (two && b < 0)) continue;
        Key key{std::max(a, b), two ? std::min(a, b) : -1, two && b > a, s_.way_of_[e]};
        if (best < left_.size() && !(key < best_key)) continue;
        best = i;
        best_key = key;
      }
      TENON_CHECK(best < left_.size(), "some operator of a kernel is ready");
      std::size_t slot = left_[best];
      const BlockReach::Edge& edge = s_.reach_.edges()[state_[slot].edge];
      BlockOp op = edge.op;
      op.a = index_[edge.a];
      op.b = op.operation.b == kNoClass ? -1 : index_[edge.b];
      position_[slot] = static_cast<int>(loads.size() + form.ops.size());
      index_[slot] = static_cast<int>(form.loads.size() + form.ops.size());
      form.ops.push_back(op);
      left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(best));
    }
    for (std::size_t store : stores_) form.stores.push_back(index_[store]);
    return form;
  }

  const GoalSearch& s_;
  const BlockBounds bounds_;
  BlockResult out_;
  std::vector<State> state_;
  std::vector<std::size_t> stores_, pending_, made_;
  int reads_ = 0;
  // Of form(): by slot its place in the canonical order and in the form, and what is to be placed.
  std::vector<int> position_, index_;
  std::vector<std::size_t> left_;
};

BlockResult GoalSearch::run(std::size_t branch, const BlockBounds& bounds) const {
  return Walk(*this, bounds).run(stores_[branch]);
}

}  // namespace tenon::search
