#include "search/space.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "ir/error.h"
#include "search/rewrite.h"

namespace tenon::search {

namespace {

std::uint64_t key(ClassId a, ClassId b) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32) |
         static_cast<std::uint32_t>(b);
}

bool is_pointwise(const Operation& o) { return ir::info(o.op).op_class == ir::OpClass::kPointwise; }

}  // namespace

Space::Space(ExpressionTable& table, const RuleSet& rules)
    : table_(table), closed_(rules.on(RuleId::kExpression)), reachable_(reachable(table)) {
  for (ClassId c = 0; c < table_.size(); ++c)
    if (is_reachable(c)) classes_.push_back(c);
  choose_vocabulary();
  compute_descendants();
  complete();
  find_online();
  choose_tensors(rules);
}

// Where the table may grow, references into it would dangle without the lock; classes are only
// appended, and a reader holds no reference across calls of between().
const Expression& Space::at(ClassId c) const {
  if (closed_) return table_[c];
  std::shared_lock lock(mutex_);
  return table_[c];
}

// Operators and reduced dims that occur in expressions equal to the program.
void Space::choose_vocabulary() {
  std::set<ir::OpKind> unary, binary;
  std::set<ir::DimId> sums, products;
  std::set<DimSet> broadcasts;
  for (ClassId c : classes_)
    for (const Operation& way : table_[c].ways) {
      switch (ir::info(way.op).op_class) {
        case ir::OpClass::kReduction:
          sums.insert(way.dim);
          break;
        case ir::OpClass::kProduct:
          products.insert(way.dim);
          break;
        case ir::OpClass::kShape:
          broadcasts.insert(way.dims);
          break;
        default:
          (way.b == kNoClass ? unary : binary).insert(way.op);
      }
    }
  unary_.assign(unary.begin(), unary.end());
  binary_.assign(binary.begin(), binary.end());
  sum_dims_.assign(sums.begin(), sums.end());
  product_dims_.assign(products.begin(), products.end());
  broadcast_dims_.assign(broadcasts.begin(), broadcasts.end());
  for (ir::DimId d : sum_dims_) reduced_dims_ |= bit(d);
  for (ir::DimId d : product_dims_) reduced_dims_ |= bit(d);
}

// A partial order. Classes can be made of each other (v = square(sqrt(v))); if both ways counted,
// each would undo the other, and neither class could be made at all. So a class descends first
// from those that were in the table before it, and any other way counts only where it closes no
// circle.
void Space::compute_descendants() {
  const std::size_t n = static_cast<std::size_t>(table_.size());
  descendants_.assign(n, std::vector<bool>(n, false));
  auto add = [&](ClassId c, ClassId operand) {
    if (operand == kNoClass) return;
    std::vector<bool>& mine = descendants_[static_cast<std::size_t>(c)];
    const std::vector<bool>& theirs = descendants_[static_cast<std::size_t>(operand)];
    mine[static_cast<std::size_t>(operand)] = true;
    for (std::size_t i = 0; i < n; ++i) mine[i] = mine[i] || theirs[i];
  };
  for (ClassId c : classes_)  // ascending: the operands are complete
    for (const Operation& way : table_[c].ways)
      if (way.a < c && way.b < c) {
        add(c, way.a);
        add(c, way.b);
      }
  for (ClassId c : classes_)
    for (const Operation& way : table_[c].ways) {
      if (way.a < c && way.b < c) continue;
      if (descends(way.a, c) || (way.b != kNoClass && descends(way.b, c))) continue;
      add(c, way.a);
      add(c, way.b);
      for (ClassId other : classes_)
        if (other != c && descends(other, c)) add(other, c);
    }
}

bool Space::descends(ClassId from, ClassId to) const {
  if (from == to) return true;
  std::size_t f = static_cast<std::size_t>(from), t = static_cast<std::size_t>(to);
  return f < descendants_.size() && t < descendants_.size() && descendants_[f][t];
}

// One operator: admitted if what it makes occurs in an expression equal to the program and is
// no part of its own operands (nothing is computed by undoing what was made of it).
void Space::consider(PairWays& out, const Operation& operation, bool create) {
  if (!table_.result_axes(operation)) return;
  Way way{operation, create ? table_.make(operation) : table_.find(operation), false};
  if (way.result == kNoClass || table_[way.result].constant) {
    ++out.foreign;
    return;
  }
  bool undoes = descends(operation.a, way.result) ||
                (operation.b != kNoClass && descends(operation.b, way.result));
  way.admitted = is_reachable(way.result) && !undoes;
  if (!way.admitted) ++out.foreign;
  if (way.admitted || (create && !undoes)) out.ways.push_back(way);
}

std::unique_ptr<PairWays> Space::compute(ClassId a, ClassId b, bool create) {
  auto out = std::make_unique<PairWays>();
  if (b == kNoClass) {
    if (!table_[a].constant) {
      for (ir::OpKind op : unary_) consider(*out, {op, a, kNoClass, 0, 0}, create);
      for (ir::DimId d : sum_dims_) consider(*out, {ir::OpKind::kSum, a, kNoClass, d, 0}, create);
      for (DimSet dims : broadcast_dims_)
        consider(*out, {ir::OpKind::kBroadcast, a, kNoClass, 0, dims}, create);
    }
    return out;
  }
  if (table_[a].is_constant && table_[b].is_constant) return out;
  for (ir::OpKind op : binary_)
    if (!ir::info(op).commutative || a <= b) consider(*out, {op, a, b, 0, 0}, create);
  if (a < b)
    for (ir::DimId d : product_dims_) consider(*out, {ir::OpKind::kMatmul, a, b, d, 0}, create);
  return out;
}

// Every operator of the vocabulary between admitted classes, so that a spelling the laws did
// not write down is admitted all the same.
void Space::complete() {
  std::vector<ClassId> second = classes_;
  second.push_back(kNoClass);
  if (closed_) known_.resize(reachable_.size() * (reachable_.size() + 1));
  for (ClassId a : classes_)
    for (ClassId b : second) {
      std::unique_ptr<PairWays> pair = compute(a, b, false);
      bool grew = false;
      for (const Way& way : pair->ways) {
        const std::vector<Operation>& known = table_[way.result].ways;
        if (std::find(known.begin(), known.end(), way.operation) == known.end()) {
          table_.add_way(way.result, way.operation);
          grew = true;
        }
        ways_.push_back(way);
      }
      if (grew) compute_descendants();
      if (closed_) known_[place(a, b)] = std::move(pair);
    }
}

// Sums of (x - x̄)² and products of x - x̄, where x̄ is the mean of x along the summed dim.
void Space::find_online() {
  std::vector<Way> reductions;
  for (const Way& way : ways_)
    if (way.operation.op == ir::OpKind::kSum || way.operation.op == ir::OpKind::kMatmul)
      reductions.push_back(way);
  auto mean = [&](ClassId x, ir::DimId dim) {
    ClassId inverse = table_.constant(ir::Constant{{1, 1}, {{dim, -1}}, {}});
    ClassId sum = table_.find({ir::OpKind::kSum, x, kNoClass, dim, 0});
    return sum == kNoClass ? kNoClass : table_.find({ir::OpKind::kMul, sum, inverse, 0, 0});
  };
  // Calls f(x, its mean) where `c` is x less its mean along `dim`.
  auto each_centered = [&](ClassId c, ir::DimId dim, auto&& f) {
    for (const Operation& d : std::vector<Operation>(table_[c].ways))
      if (d.op == ir::OpKind::kSub && (table_[d.a].dims & bit(dim)) && mean(d.a, dim) == d.b)
        f(d.a, d.b);
  };
  std::set<std::pair<ClassId, ir::DimId>> means;
  for (const Way& way : reductions) {
    const Operation& o = way.operation;
    auto found = [&](Online::Kind kind, ClassId other) {
      return [this, &means, &o, &way, kind, other](ClassId x, ClassId average) {
        if (means.insert({x, o.dim}).second) add_online(Online::kMean, x, kNoClass, o.dim, average);
        add_online(kind, x, other, o.dim, way.result);
      };
    };
    if (o.op == ir::OpKind::kSum) {
      for (const Operation& s : std::vector<Operation>(table_[o.a].ways))
        if (s.op == ir::OpKind::kSquare)
          each_centered(s.a, o.dim, found(Online::kSquares, kNoClass));
    } else {
      each_centered(o.a, o.dim, found(Online::kProduct, o.b));
      each_centered(o.b, o.dim, found(Online::kProduct, o.a));
    }
  }
}

void Space::add_online(Online::Kind kind, ClassId x, ClassId other, ir::DimId dim, ClassId result) {
  if (!is_reachable(x) || !is_reachable(result)) return;
  Operation operation{ir::OpKind::kSum, x, kNoClass, dim, 0};
  if (kind == Online::kProduct) operation = {ir::OpKind::kMatmul, x, other, dim, 0};
  table_.normalize(operation);
  operation.online = true;
  online_.push_back({kind, operation, x, other, result});
  Way way{operation, result, true};
  ways_.push_back(way);
  if (closed_) known_[place(operation.a, operation.b)]->ways.push_back(way);
}

const Online& Space::online(const Operation& operation, ClassId result) const {
  for (const Online& o : online_)
    if (o.operation == operation && o.result == result) return o;
  TENON_CHECK(false, "an operator marked online is one");
}

const PairWays& Space::between(ClassId a, ClassId b) {
  if (closed_) return *known_[place(a, b)];
  {
    std::shared_lock lock(mutex_);
    auto it = pairs_.find(key(a, b));
    if (it != pairs_.end()) return *it->second;
  }
  std::unique_lock lock(mutex_);
  auto it = pairs_.find(key(a, b));
  if (it == pairs_.end()) it = pairs_.emplace(key(a, b), compute(a, b, true)).first;
  return *it->second;
}

// Is it made, element by element, of values with fewer axes? Then those are better stored.
bool Space::spread(ClassId c) const {
  auto [it, fresh] = spread_.try_emplace(c, false);
  if (fresh) it->second = spread_anew(c);
  return it->second;
}

bool Space::spread_anew(ClassId c) const {
  return std::any_of(ways_.begin(), ways_.end(), [&](const Way& way) {
    if (way.result != c) return false;
    const Operation& o = way.operation;
    if (o.op == ir::OpKind::kBroadcast) return true;
    if (!is_pointwise(o) || o.b == kNoClass) return false;
    auto small = [&](ClassId operand) {
      return table_[operand].dims != table_[c].dims || spread(operand);
    };
    return small(o.a) && small(o.b);
  });
}

void Space::choose_tensors(const RuleSet& rules) {
  std::size_t n = reachable_.size();
  is_output_.assign(n, false);
  is_intermediate_.assign(n, false);
  is_prepared_.assign(n, false);
  for (ClassId c : table_.outputs()) is_output_[static_cast<std::size_t>(c)] = true;
  for (ClassId c : classes_) {
    const Expression& e = table_[c];
    if (e.is_constant || e.input >= 0) continue;
    // What only ever goes on, alone, to a value of the same axes is better stored as that
    // value; what only parameters join is better prepared as the result.
    bool goes_on_alone = true;
    bool only_prepares = true;
    for (const Way& way : ways_) {
      const Operation& o = way.operation;
      if ((o.a != c && o.b != c) || o.online) continue;
      ClassId other = o.a == c ? o.b : o.a;
      bool alone = is_pointwise(o) && (other == kNoClass || table_[other].is_constant) &&
                   table_[way.result].dims == e.dims;
      goes_on_alone = goes_on_alone && alone;
      only_prepares = only_prepares && table_[way.result].parameter_only;
    }
    bool cut = e.parameter_only ? only_prepares : goes_on_alone || spread(c);
    if (is_output(c)) {
      is_prepared_[static_cast<std::size_t>(c)] = false;
      continue;
    }
    if (cut && rules.on(RuleId::kCut)) {
      ++cut_intermediates_;
      continue;
    }
    (e.parameter_only ? is_prepared_ : is_intermediate_)[static_cast<std::size_t>(c)] = true;
  }
}

}  // namespace tenon::search
