#include "search/rewrite.h"

#include <functional>
#include <utility>

#include "ir/error.h"

namespace tenon::search {

namespace {

using ir::OpKind;

class Rewriter {
 public:
  explicit Rewriter(ExpressionTable& table) : table_(table) {}

  const Expression& at(ClassId id) const { return table_[id]; }
  bool has(ClassId id, ir::DimId dim) const { return at(id).dims & bit(dim); }
  bool nested(ClassId inner, ClassId outer) const { return !(at(inner).dims & ~at(outer).dims); }

  // The ways of `id` with operator `op`, as they are now (a law may add more).
  std::vector<Operation> ways(ClassId id, OpKind op) const {
    std::vector<Operation> out;
    for (const Operation& way : at(id).ways)
      if (way.op == op) out.push_back(way);
    return out;
  }

  ClassId unary(OpKind op, ClassId a) {
    return a == kNoClass ? kNoClass : table_.make({op, a, kNoClass, 0, 0});
  }

  ClassId binary(OpKind op, ClassId a, ClassId b) {
    if (a == kNoClass || b == kNoClass) return kNoClass;
    if (op == OpKind::kMul && a == b) return unary(OpKind::kSquare, a);
    return table_.make({op, a, b, 0, 0});
  }

  // a·b; an outer product where neither has all axes of the other.
  ClassId times(ClassId a, ClassId b) {
    if (a == kNoClass || b == kNoClass) return kNoClass;
    if (nested(a, b) || nested(b, a)) return binary(OpKind::kMul, a, b);
    ClassId wide = table_.make({OpKind::kBroadcast, a, kNoClass, 0, at(a).dims | at(b).dims});
    return binary(OpKind::kMul, wide, b);
  }

  // Σ_dim a, where a constant along dim is counted extent times.
  ClassId total(ClassId a, ir::DimId dim) {
    if (a == kNoClass) return kNoClass;
    if (has(a, dim)) return table_.make({OpKind::kSum, a, kNoClass, dim, 0});
    return binary(OpKind::kMul, a, table_.constant(ir::Constant{{1, 1}, {{dim, 1}}, {}}));
  }

  // Σ_dim a, divided by the extent.
  ClassId mean(ClassId a, ir::DimId dim) {
    return binary(OpKind::kMul, total(a, dim),
                  table_.constant(ir::Constant{{1, 1}, {{dim, -1}}, {}}));
  }

  // Σ_dim a·b in normal spelling; a factor that is constant along dim comes out.
  ClassId product(ClassId a, ClassId b, ir::DimId dim) {
    if (a == kNoClass || b == kNoClass) return kNoClass;
    if (!has(a, dim)) return times(a, total(b, dim));
    if (!has(b, dim)) return times(total(a, dim), b);
    ClassId id = table_.make({OpKind::kMatmul, a, b, dim, 0});
    return id != kNoClass ? id : total(binary(OpKind::kMul, a, b), dim);
  }

  // The reduction `linear` (a sum or a product) with its operand `which` replaced.
  ClassId reduce(const Operation& linear, int which, ClassId operand) {
    if (linear.op == OpKind::kSum) return total(operand, linear.dim);
    return which == 0 ? product(operand, linear.b, linear.dim)
                      : product(linear.a, operand, linear.dim);
  }

  ClassId operand(const Operation& operation, int which) const {
    return which == 0 ? operation.a : operation.b;
  }

 private:
  ExpressionTable& table_;
};

bool is_linear(OpKind op) { return op == OpKind::kSum || op == OpKind::kMatmul; }
int operands_of(const Operation& o) { return o.b == kNoClass ? 1 : 2; }

using Results = std::vector<ClassId>;

// L(t·s) = L(t)·s and L(t/s) = L(t)/s for s constant along the summed dim.
Results factor_out(Rewriter& r, const Operation& o) {
  Results out;
  if (!is_linear(o.op)) return out;
  for (int which = 0; which < operands_of(o); ++which) {
    ClassId inner = r.operand(o, which);
    for (const Operation& m : r.ways(inner, OpKind::kMul))
      for (auto [t, s] : {std::pair(m.a, m.b), std::pair(m.b, m.a)})
        if (!r.has(s, o.dim) && r.has(t, o.dim)) out.push_back(r.times(r.reduce(o, which, t), s));
    for (const Operation& d : r.ways(inner, OpKind::kDiv))
      if (!r.has(d.b, o.dim) && r.has(d.a, o.dim))
        out.push_back(r.binary(OpKind::kDiv, r.reduce(o, which, d.a), d.b));
  }
  return out;
}

// Σ (t·s)·b = Σ t·(s·b): a factor moves to the product's other operand.
Results factor_across(Rewriter& r, const Operation& o) {
  Results out;
  if (o.op != OpKind::kMatmul) return out;
  for (int which = 0; which < 2; ++which) {
    ClassId other = r.operand(o, 1 - which);
    for (const Operation& m : r.ways(r.operand(o, which), OpKind::kMul))
      for (auto [t, s] : {std::pair(m.a, m.b), std::pair(m.b, m.a)})
        if (!r.at(s).is_constant && r.has(t, o.dim) && r.nested(s, other))
          out.push_back(r.product(t, r.binary(OpKind::kMul, other, s), o.dim));
  }
  return out;
}

// (Σ a·b)·s = Σ (a·s)·b for s whose axes are all a's: a scale after a product goes before it.
Results factor_in(Rewriter& r, const Operation& o) {
  Results out;
  if (o.op != OpKind::kMul) return out;
  for (auto [p, s] : {std::pair(o.a, o.b), std::pair(o.b, o.a)}) {
    if (r.at(s).is_constant) continue;
    for (const Operation& m : r.ways(p, OpKind::kMatmul))
      for (int which = 0; which < 2; ++which)
        if (r.nested(s, r.operand(m, which)) && !r.has(s, m.dim))
          out.push_back(r.reduce(m, which, r.binary(OpKind::kMul, r.operand(m, which), s)));
  }
  return out;
}

// L(a ± b) = L(a) ± L(b). A product becomes two, so only where one of them is none at run time:
// its addend is constant along the summed dim, or depends on parameters only.
Results distribute(Rewriter& r, const Operation& o) {
  Results out;
  if (!is_linear(o.op)) return out;
  auto gains = [&](ClassId addend) {
    return o.op == OpKind::kSum || !r.has(addend, o.dim) || r.at(addend).parameter_only;
  };
  for (int which = 0; which < operands_of(o); ++which)
    for (OpKind op : {OpKind::kAdd, OpKind::kSub})
      for (const Operation& s : r.ways(r.operand(o, which), op)) {
        if (r.at(s.a).is_constant || r.at(s.b).is_constant) continue;
        if (!gains(s.a) && !gains(s.b)) continue;
        out.push_back(r.binary(op, r.reduce(o, which, s.a), r.reduce(o, which, s.b)));
      }
  return out;
}

// (a·b)·c = a·(b·c) = b·(a·c), and the same for sums.
Results associate(Rewriter& r, const Operation& o) {
  Results out;
  if (o.op != OpKind::kMul && o.op != OpKind::kAdd) return out;
  for (auto [p, c] : {std::pair(o.a, o.b), std::pair(o.b, o.a)})
    for (const Operation& m : r.ways(p, o.op))
      for (auto [a, b] : {std::pair(m.a, m.b), std::pair(m.b, m.a)})
        out.push_back(r.binary(o.op, a, r.binary(o.op, b, c)));
  return out;
}

// (a - b) + c = a + (c - b) where b and c are of parameters: what they add comes together.
Results gather(Rewriter& r, const Operation& o) {
  Results out;
  if (o.op != OpKind::kAdd) return out;
  for (auto [p, c] : {std::pair(o.a, o.b), std::pair(o.b, o.a)})
    for (const Operation& d : r.ways(p, OpKind::kSub))
      if (r.at(c).parameter_only && r.at(d.b).parameter_only)
        out.push_back(r.binary(OpKind::kAdd, d.a, r.binary(OpKind::kSub, c, d.b)));
  return out;
}

// (a/b)·c = (a·c)/b = a·(c/b), (a·c)/b = (a/b)·c, a/√b = a·rsqrt(b).
Results quotients(Rewriter& r, const Operation& o) {
  Results out;
  if (o.op == OpKind::kMul)
    for (auto [p, c] : {std::pair(o.a, o.b), std::pair(o.b, o.a)})
      for (const Operation& d : r.ways(p, OpKind::kDiv))
        out.push_back(r.binary(OpKind::kDiv, r.binary(OpKind::kMul, d.a, c), d.b));
  if (o.op == OpKind::kDiv) {
    for (const Operation& m : r.ways(o.a, OpKind::kMul))
      for (auto [a, c] : {std::pair(m.a, m.b), std::pair(m.b, m.a)})
        if (r.nested(o.b, a)) out.push_back(r.times(r.binary(OpKind::kDiv, a, o.b), c));
    for (const Operation& s : r.ways(o.b, OpKind::kSqrt))
      out.push_back(r.times(o.a, r.unary(OpKind::kRsqrt, s.a)));
  }
  return out;
}

// (a·b)² = a²·b².
Results squares(Rewriter& r, const Operation& o) {
  Results out;
  if (o.op != OpKind::kSquare) return out;
  for (const Operation& m : r.ways(o.a, OpKind::kMul))
    out.push_back(r.times(r.unary(OpKind::kSquare, m.a), r.unary(OpKind::kSquare, m.b)));
  return out;
}

// Σ (a - ā)² = Σ a² - ā·Σ a, where ā is the mean of a along the summed dim (König and Huygens).
Results deviations(Rewriter& r, const Operation& o) {
  Results out;
  if (o.op != OpKind::kSum) return out;
  for (const Operation& square : r.ways(o.a, OpKind::kSquare))
    for (const Operation& d : r.ways(square.a, OpKind::kSub)) {
      if (!r.has(d.a, o.dim) || r.has(d.b, o.dim) || r.mean(d.a, o.dim) != d.b) continue;
      ClassId squares = r.total(r.unary(OpKind::kSquare, d.a), o.dim);
      out.push_back(
          r.binary(OpKind::kSub, squares, r.binary(OpKind::kMul, d.b, r.total(d.a, o.dim))));
    }
  return out;
}

// op(a, broadcast b) = op(a, b) where a has the axes anyway.
Results drop_broadcast(Rewriter& r, const Operation& o) {
  Results out;
  if (ir::info(o.op).op_class != ir::OpClass::kPointwise || o.b == kNoClass) return out;
  if (r.nested(o.b, o.a))
    for (const Operation& w : r.ways(o.b, OpKind::kBroadcast))
      out.push_back(r.binary(o.op, o.a, w.a));
  if (r.nested(o.a, o.b))
    for (const Operation& w : r.ways(o.a, OpKind::kBroadcast))
      out.push_back(r.binary(o.op, w.a, o.b));
  return out;
}

struct LawRow {
  Law law;
  Results (*apply)(Rewriter&, const Operation&);
};

const std::vector<LawRow>& rows() {
  static const std::vector<LawRow> table = {
      {{"factor_out", "L(t·s) = L(t)·s, L(t/s) = L(t)/s; L a sum or product, s constant along it"},
       factor_out},
      {{"factor_across", "Σ (t·s)·b = Σ t·(s·b)"}, factor_across},
      {{"factor_in", "(Σ a·b)·s = Σ (a·s)·b; s constant along the summed dim"}, factor_in},
      {{"distribute",
        "L(a ± b) = L(a) ± L(b); L a sum, or a product of which one part is constant along the "
        "summed dim or of parameters only"},
       distribute},
      {{"associate", "(a·b)·c = a·(b·c), (a+b)+c = a+(b+c), up to commutation"}, associate},
      {{"gather", "(a - b) + c = a + (c - b); b and c of parameters"}, gather},
      {{"quotients", "(a/b)·c = (a·c)/b, (a·c)/b = (a/b)·c, a/√b = a·rsqrt(b)"}, quotients},
      {{"squares", "(a·b)² = a²·b²"}, squares},
      {{"deviations", "Σ (a - ā)² = Σ a² - ā·Σ a; ā the mean of a along the summed dim"},
       deviations},
      {{"drop_broadcast", "op(a, broadcast b) = op(a, b) where a has the axes"}, drop_broadcast},
  };
  return table;
}

std::size_t count_ways(const ExpressionTable& table) {
  std::size_t count = 0;
  for (ClassId c = 0; c < table.size(); ++c) count += table[c].ways.size();
  return count;
}

}  // namespace

const std::vector<Law>& laws() {
  static const std::vector<Law> out = [] {
    std::vector<Law> list;
    for (const LawRow& row : rows()) list.push_back(row.law);
    return list;
  }();
  return out;
}

Saturation saturate(ExpressionTable& table, int max_classes) {
  Rewriter rewriter(table);
  Saturation result;
  for (std::size_t before = 0; before != count_ways(table); ++result.rounds) {
    before = count_ways(table);
    for (ClassId c = 0; c < table.size(); ++c) {
      // By value: a law may add classes and ways.
      for (const Operation& way : std::vector<Operation>(table[c].ways))
        for (const LawRow& row : rows()) {
          if (table.size() >= max_classes) {
            result.cut_off = true;
            return result;
          }
          for (ClassId id : row.apply(rewriter, way))
            TENON_CHECK(id == kNoClass || id == c, "law " + row.law.name + " keeps the value");
        }
    }
  }
  return result;
}

std::vector<bool> reachable(const ExpressionTable& table) {
  std::vector<bool> seen(static_cast<std::size_t>(table.size()), false);
  std::function<void(ClassId)> visit = [&](ClassId c) {
    if (c == kNoClass || seen[static_cast<std::size_t>(c)]) return;
    seen[static_cast<std::size_t>(c)] = true;
    for (const Operation& way : table[c].ways) {
      visit(way.a);
      visit(way.b);
    }
  };
  for (ClassId c : table.outputs()) visit(c);
  return seen;
}

}  // namespace tenon::search
