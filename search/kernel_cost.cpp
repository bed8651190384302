#include "search/kernel_cost.h"

#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <unordered_map>

#include "search/parallel.h"

namespace tenon::search {

namespace {

enum Part : int {
  kLaunch,
  kSerial,
  kSplit,
  kTransfer,
  kPrepared,
  kPointwise,
  kSumOp,
  kProductOp,
  kLibrary,
  kPhase,
  kWholeRows,
  kCancels,
  kOnline,
  kElsewhere,
};

bool large(DimSet dims) { return std::popcount(dims) >= 2; }

int kind_of(ir::OpKind op) {
  switch (ir::info(op).op_class) {
    case ir::OpClass::kReduction:
      return kSumOp;
    case ir::OpClass::kProduct:
      return kProductOp;
    default:
      return kPointwise;
  }
}

// How many reductions follow one another in the kernel.
int phases(const KernelForm& form) {
  std::vector<int> rank(form.loads.size(), 0);
  int most = 0;
  for (const BlockOp& op : form.ops) {
    int r = rank[static_cast<std::size_t>(op.a)];
    if (op.b >= 0) r = std::max(r, rank[static_cast<std::size_t>(op.b)]);
    r += kind_of(op.operation.op) != kPointwise;
    most = std::max(most, r);
    rank.push_back(r);
  }
  return most;
}

}  // namespace

void Cost::operator+=(const Cost& other) {
  for (std::size_t i = 0; i < parts.size(); ++i)
    parts[i] = static_cast<std::int16_t>(parts[i] + other.parts[i]);
  sum += other.sum;
  small += other.small;
  foreign += other.foreign;
}

// Lane by lane without leaving early, which a compiler makes vector instructions of.
bool cheaper(const Cost& a, const Cost& b) {
  if (a.sum >= b.sum) return false;
  for (std::size_t i = 0; i < a.parts.size(); i += kCostLanes) {
    const std::int16_t* mine = a.parts.data() + i;
    const std::int16_t* theirs = b.parts.data() + i;
    int more = 0;
    for (std::size_t lane = 0; lane < kCostLanes; ++lane) more |= mine[lane] > theirs[lane];
    if (more) return false;
  }
  return true;
}

bool same_parts(const Cost& a, const Cost& b) { return a.parts == b.parts; }

void CostFront::add(const Cost& cost) {
  for (const Cost& known : costs_)
    if (same_parts(known, cost)) return;
  if (beats(cost)) return;
  std::erase_if(costs_, [&](const Cost& known) { return cheaper(cost, known); });
  auto place = std::find_if(costs_.begin(), costs_.end(),
                            [&](const Cost& known) { return known.sum > cost.sum; });
  costs_.insert(place, cost);
}

void CostFront::add(const CostFront& other) {
  for (const Cost& cost : other.costs_) add(cost);
}

bool CostFront::beats(const Cost& cost) const {
  for (const Cost& known : costs_) {
    if (known.sum >= cost.sum) return false;
    if (cheaper(known, cost)) return true;
  }
  return false;
}

CostTable::CostTable(const Space& space, const std::vector<Choice>& choices)
    : space_(space), costs_(choices.size()) {
  std::vector<Parts> all(choices.size());
  tbb::enumerable_thread_specific<std::vector<Key>> met;  // each sorted
  tbb::parallel_for(std::size_t{0}, choices.size(), [&](std::size_t i) {
    if (choices[i].kernel.form)
      count(*choices[i].kernel.form, all[i], costs_[i]);
    else
      count(*choices[i].kernel.library, all[i]);
    std::vector<Key>& keys = met.local();
    for (const auto& [key, n] : all[i]) {
      auto place = std::lower_bound(keys.begin(), keys.end(), key);
      if (place == keys.end() || *place != key) keys.insert(place, key);
    }
  });
  std::vector<Key> keys;
  for (const std::vector<Key>& some : met) keys.insert(keys.end(), some.begin(), some.end());
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  const std::size_t lanes = (keys.size() + kCostLanes - 1) / kCostLanes * kCostLanes;
  tbb::parallel_for(std::size_t{0}, choices.size(), [&](std::size_t i) {
    costs_[i].parts.assign(lanes, 0);
    for (const auto& [key, n] : all[i]) {
      auto place = std::lower_bound(keys.begin(), keys.end(), key);
      costs_[i].parts[static_cast<std::size_t>(place - keys.begin())] =
          static_cast<std::int16_t>(n);
      costs_[i].sum += n;
    }
    all[i] = {};
  });
}

int& CostTable::Parts::operator[](const Key& key) {
  for (auto& [known, n] : *this)
    if (known == key) return n;
  return emplace_back(key, 0).second;
}

Cost CostTable::nothing() const {
  Cost cost;
  cost.parts.assign(costs_.empty() ? 0 : costs_[0].parts.size(), 0);
  return cost;
}

void CostTable::count(const KernelForm& form, Parts& parts, Cost& cost) const {
  // Elementwise work that no other block repeats, of an epilogue say, counts by whether there is
  // any: more of it on the same elements only breaks ties.
  auto add = [&](int part, DimSet dims = 0, bool repeated = false) {
    int& count = parts[{part, dims, repeated}];
    if (part != kPointwise || repeated)
      ++count;
    else if (count == 0)
      count = 1;
    else
      ++cost.small;
  };
  auto moves = [&](ClassId c) {
    DimSet dims = space_.at(c).dims;
    if (!large(dims)) {
      cost.small += 2;
      return;
    }
    add(kTransfer, dims);
    if (space_.is_prepared(c)) add(kPrepared, dims);
  };
  add(kLaunch);
  for (const Load& load : form.loads)
    if (!space_.at(load.cls).constant) moves(load.cls);
  for (int v : form.stores) moves(form.cls(v));
  const bool product = std::any_of(form.ops.begin(), form.ops.end(), [](const BlockOp& op) {
    return op.operation.op == ir::OpKind::kMatmul;
  });
  for (const BlockOp& op : form.ops) {
    const Operation& o = op.operation;
    cost.foreign += !space_.in_program(o);
    if (o.op == ir::OpKind::kMatmul && !space_.in_program(o)) add(kElsewhere);
    if (o.op == ir::OpKind::kBroadcast) continue;
    DimSet dims = space_.at(op.cls).dims | space_.at(o.a).dims;
    bool two = o.b != kNoClass;
    if (two) dims |= space_.at(o.b).dims;
    if (o.online) {
      count_online(form, space_.online(o, op.cls), add);
      continue;
    }
    auto reduced = [&](ClassId c) {
      return !space_.at(c).parameter_only && !(space_.at(c).dims & space_.reduced_dims());
    };
    if (o.op == ir::OpKind::kSub && reduced(o.a) && reduced(o.b)) add(kCancels);
    // What a kernel without products does with the elements it moves is hidden behind the move.
    const bool repeated = form.frame.grid_dims() & ~dims;
    if (!large(dims) || (!product && !repeated)) {
      ++cost.small;
      continue;
    }
    // One that blocks repeat is no cheaper than one that they do not.
    add(kind_of(o.op), dims);
    if (repeated) add(kind_of(o.op), dims, true);
  }
  // Without a product a kernel moves each element once: rows are blocks enough.
  if (reduces(form) && (product || form.frame.split)) add(form.frame.split ? kSplit : kSerial);
  // Nor is a launch cheaper than a phase.
  for (int p = 0; p < std::max(1, phases(form)); ++p) add(kPhase);
  if (product && form.frame.loop < 0) add(kWholeRows);
}

// Moving a mean costs more than summing; the mean comes with the squares.
template <class Add>
void CostTable::count_online(const KernelForm& form, const Online& online, Add&& add) const {
  const DimSet x = space_.at(online.x).dims;
  auto several = [&](int part, DimSet dims, int n) {
    for (int i = 0; i < n; ++i) {
      add(part, dims, false);
      if (form.frame.grid_dims() & ~dims) add(part, dims, true);
    }
  };
  bool squares = std::any_of(form.ops.begin(), form.ops.end(), [&](const BlockOp& op) {
    return op.operation.online && space_.online(op.operation, op.cls).kind == Online::kSquares &&
           op.operation.a == online.x;
  });
  if (online.kind == Online::kMean && squares) return;
  add(kOnline, x, false);
  several(kPointwise, x, online.kind == Online::kSquares ? 4 : 2);
  several(kSumOp, x, online.kind == Online::kSquares ? 2 : 1);
  if (online.kind != Online::kProduct) return;
  several(kProductOp, x | space_.at(online.other).dims, 1);
  several(kSumOp, space_.at(online.other).dims, 1);
  several(kPointwise, space_.at(online.result).dims, 2);
}

void CostTable::count(const LibraryForm& form, Parts& parts) const {
  ++parts[{kLaunch, 0, false}];
  ++parts[{kPhase, 0, false}];
  for (ClassId c : {form.a, form.b, form.out}) ++parts[{kTransfer, space_.at(c).dims, false}];
  for (ClassId c : {form.a, form.b})
    if (space_.is_prepared(c)) ++parts[{kPrepared, space_.at(c).dims, false}];
  ++parts[{kLibrary, space_.at(form.a).dims | space_.at(form.b).dims, false}];
}

std::vector<Choice> drop_dear_kernels(const Space& space, std::vector<Choice> choices,
                                      PruneCounts& pruned) {
  const CostTable costs(space, choices);
  const std::size_t n = choices.size();
  auto rank = [&](std::size_t i) { return std::tuple(costs.of(i).small, costs.of(i).foreign, i); };
  // Kernels with the same reads and writes, the cheap ones first: they are the likely reason.
  struct Tensors {
    TensorSet reads, writes;
    bool operator==(const Tensors&) const = default;
  };
  auto hash = [](const Tensors& t) {
    return std::hash<TensorSet>()(t.reads) * 31 + std::hash<TensorSet>()(t.writes);
  };
  std::unordered_map<Tensors, std::vector<std::size_t>, decltype(hash)> groups(n / 8 + 1, hash);
  std::vector<const std::vector<std::size_t>*> group_of(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<std::size_t>& group = groups[{choices[i].reads, choices[i].writes}];
    group.push_back(i);
    group_of[i] = &group;
  }
  std::vector<std::vector<std::size_t>*> unsorted;
  for (auto& [tensors, group] : groups) unsorted.push_back(&group);
  in_turn(unsorted.size(), [&](std::size_t i) {
    std::sort(unsorted[i]->begin(), unsorted[i]->end(), [&](std::size_t a, std::size_t b) {
      return std::pair(costs.of(a).sum, a) < std::pair(costs.of(b).sum, b);
    });
  });

  std::vector<char> plain(n), dear(n, 0);
  tbb::parallel_for(std::size_t{0}, n,
                    [&](std::size_t i) { plain[i] = is_plain(space, choices[i].kernel); });
  tbb::parallel_for(std::size_t{0}, n, [&](std::size_t i) {
    const Choice& mine = choices[i];
    for (std::size_t other : *group_of[i]) {
      if (costs.of(other).sum > costs.of(i).sum) return;
      const Choice& theirs = choices[other];
      if (other == i || (plain[i] && !plain[other])) continue;
      bool better = cheaper(costs.of(other), costs.of(i)) ||
                    (same_parts(costs.of(other), costs.of(i)) && rank(other) < rank(i) &&
                     theirs.computes == mine.computes);
      if (!better || (theirs.computes & ~mine.computes).any()) continue;
      dear[i] = 1;
      return;
    }
  });
  std::vector<Choice> kept;
  kept.reserve(n - static_cast<std::size_t>(std::count(dear.begin(), dear.end(), 1)));
  for (std::size_t i = 0; i < n; ++i)
    if (!dear[i]) kept.push_back(std::move(choices[i]));
  pruned.add(RuleId::kCost, n - kept.size());
  // Most are dropped: so many frees are worth sharing out.
  tbb::parallel_for(std::size_t{0}, n, [&](std::size_t i) { choices[i] = {}; });
  return kept;
}

}  // namespace tenon::search
