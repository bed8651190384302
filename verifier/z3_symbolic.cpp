#include <fmt/format.h>

#include "ir/error.h"
#include "verifier/symbolic.h"

namespace tenon::verifier {

using ir::OpKind;

namespace {

unsigned id_of(const z3::expr& e) { return Z3_get_ast_id(e.ctx(), e); }
DimMask bit(ir::DimId dim) { return DimMask{1} << dim; }

bool is_kind(const z3::expr& e, Z3_decl_kind kind) {
  return e.is_app() && e.decl().decl_kind() == kind;
}

// The terms of a sum or the factors of a product, however they are nested.
std::vector<z3::expr> arguments(const z3::expr& e, Z3_decl_kind kind) {
  if (!is_kind(e, kind)) return {e};
  std::vector<z3::expr> out;
  for (unsigned i = 0; i < e.num_args(); ++i) {
    const std::vector<z3::expr> below = arguments(e.arg(i), kind);
    out.insert(out.end(), below.begin(), below.end());
  }
  return out;
}

// Every variable of a monomial occurs an even number of times.
bool is_square(const z3::expr& monomial) {
  std::map<unsigned, int> powers;
  for (const z3::expr& factor : arguments(monomial, Z3_OP_MUL)) ++powers[id_of(factor)];
  for (const auto& [id, power] : powers)
    if (power % 2 != 0) return false;
  return true;
}

}  // namespace

Symbolic::Symbolic(Z3State& state, const ir::Signature& signature)
    : state_(state), signature_(signature) {
  for (const std::string& name : signature.dims) {
    extents_.push_back(symbol("extent_" + name, 0));
    positive_.push_back(extents_.back());
  }
  for (const auto& [name, value] : signature.attributes) {
    z3::expr a = symbol(name, 0);
    state_.attributes.emplace(name, a);
    positive_.push_back(a);
  }
}

z3::expr Symbolic::symbol(const std::string& prefix, DimMask dims) {
  z3::expr s = state_.context.real_const(fmt::format("{}!{}", prefix, next_++).c_str());
  dims_[id_of(s)] = dims;
  return s;
}

Fraction Symbolic::make(const z3::expr& num, const z3::expr& den) {
  z3::expr n = state_.normal_form(num), d = state_.normal_form(den);
  if (d.is_numeral()) return {state_.normal_form(n / d), one()};
  return {n, d};
}

Fraction Symbolic::input(std::size_t i) {
  DimMask dims = 0;
  for (const ir::Axis& axis : signature_.inputs[i].axes) dims |= bit(axis.dim);
  return {symbol(signature_.inputs[i].name, dims), one()};
}

Fraction Symbolic::constant(const ir::Constant& c) {
  z3::expr num = state_.context.real_val(std::to_string(c.coefficient.num).c_str());
  z3::expr den = state_.context.real_val(std::to_string(c.coefficient.den).c_str());
  auto times = [&](const z3::expr& factor, int exponent) {
    for (int i = 0; i < exponent; ++i) num = num * factor;
    for (int i = 0; i > exponent; --i) den = den * factor;
  };
  for (const auto& [dim, exponent] : c.dims) times(extents_[dim], exponent);
  for (const auto& [name, exponent] : c.attributes) times(state_.attributes.at(name), exponent);
  return make(num, den);
}

// Constants below `e`, by AST id.
void Symbolic::collect(const z3::expr& e, std::map<unsigned, z3::expr>& constants) {
  std::set<unsigned> seen;
  std::vector<z3::expr> stack = {e};
  while (!stack.empty()) {
    z3::expr top = stack.back();
    stack.pop_back();
    if (!seen.insert(id_of(top)).second || top.is_numeral()) continue;
    if (top.is_const()) constants.emplace(id_of(top), top);
    for (unsigned i = 0; i < top.num_args(); ++i) stack.push_back(top.arg(i));
  }
}

DimMask Symbolic::dims_of(const z3::expr& e) {
  std::map<unsigned, z3::expr> constants;
  collect(e, constants);
  DimMask dims = 0;
  for (const auto& [id, c] : constants) dims |= dims_.at(id);
  return dims;
}

bool Symbolic::tile_inside(const z3::expr& e) {
  std::map<unsigned, z3::expr> constants;
  collect(e, constants);
  for (const auto& [id, c] : constants)
    if (tiles_.count(id) || opaque_.count(id)) return true;
  return false;
}

bool Symbolic::depends_on_tiles(const Fraction& f) {
  return tile_inside(f.num) || tile_inside(f.den);
}

Symbolic::Term Symbolic::split(const z3::expr& monomial, ir::DimId dim) {
  Term t{one(), one()};
  for (const z3::expr& factor : arguments(monomial, Z3_OP_MUL)) {
    // A factor of a normal form is a numeral or a constant; anything else stays whole.
    if (dims_of(factor) & bit(dim))
      t.summed = t.summed * factor;
    else
      t.kept = t.kept * factor;
  }
  return t;
}

z3::expr Symbolic::sum_symbol(const z3::expr& raw, ir::DimId dim, Range range) {
  const z3::expr summand = state_.normal_form(raw);
  const bool count = z3::eq(summand, one());
  if (count && range == Range::kAll) return extents_[dim];
  auto [it, fresh] = sum_index_.try_emplace({id_of(summand), dim, range}, sums_.size());
  if (fresh) {
    const char* prefix = range == Range::kAll ? "sum" : "tile";
    z3::expr s =
        symbol(fmt::format("{}_{}", prefix, signature_.dims[dim]), dims_of(summand) & ~bit(dim));
    sums_.push_back({s, summand, dim, range});
    if (range == Range::kTile) tiles_.insert(id_of(s));
    if (tile_inside(summand)) opaque_.insert(id_of(s));
    if (count)
      positive_.push_back(s);
    else if (is_square(summand))
      squares_.push_back(s);
  }
  return sums_[it->second].symbol;
}

Fraction Symbolic::sum(const Fraction& a, ir::DimId dim, Range range) {
  if (dims_of(a.den) & bit(dim))
    throw ir::Unsupported("a sum of quotients whose divisor varies with its index");
  z3::expr total = zero();
  for (const z3::expr& monomial : arguments(a.num, Z3_OP_ADD)) {
    const Term t = split(monomial, dim);
    total = total + t.kept * sum_symbol(t.summed, dim, range);
  }
  return make(total, a.den);
}

Fraction Symbolic::root(const Fraction& radicand) {
  for (const Root& r : roots_)
    if (z3::eq(state_.normal_form(r.radicand.num * radicand.den - radicand.num * r.radicand.den),
               zero()))
      return {r.symbol, one()};
  z3::expr s = symbol("rsqrt", dims_of(radicand.num) | dims_of(radicand.den));
  if (depends_on_tiles(radicand)) opaque_.insert(id_of(s));
  roots_.push_back({s, radicand, state_.in_graph});
  if (state_.in_graph) radicands_.push_back(radicand.num * radicand.den > zero());
  return {s, one()};
}

// Functions of equal arguments are one symbol; of their values only the sign is known.
Fraction Symbolic::function(OpKind op, const Fraction& argument) {
  for (const Function& f : functions_) {
    if (f.op != op) continue;
    const z3::expr difference =
        state_.normal_form(f.argument.num * argument.den - argument.num * f.argument.den);
    if (z3::eq(difference, zero())) return {f.symbol, one()};
    // Equal by the relations between the roots, perhaps.
    if (state_.in_graph && state_.simplifies_to_false(assumptions(), difference != zero()))
      return {f.symbol, one()};
  }
  z3::expr s =
      symbol(std::string(ir::info(op).name), dims_of(argument.num) | dims_of(argument.den));
  if (depends_on_tiles(argument)) opaque_.insert(id_of(s));
  functions_.push_back({op, s, argument});
  if (op == OpKind::kExp || op == OpKind::kSigmoid) positive_.push_back(s);
  return {s, one()};
}

Fraction Symbolic::divide(const Fraction& a, const Fraction& b) {
  if (!b.num.is_numeral() || z3::eq(b.num, zero())) {
    if (state_.in_graph)
      divisors_.push_back(b.num != zero());
    else
      nonzero_.push_back(b.num);
  }
  return make(a.num * b.den, a.den * b.num);
}

Fraction Symbolic::unary(OpKind op, const Fraction& a) {
  switch (op) {
    case OpKind::kSquare:
      return make(a.num * a.num, a.den * a.den);
    case OpKind::kRsqrt:
      return root(a);
    case OpKind::kSqrt:
      return {one(), root(a).num};
    case OpKind::kSilu: {
      const z3::expr sigmoid = function(OpKind::kSigmoid, a).num;
      return make(a.num * sigmoid, a.den);
    }
    default:
      if (ir::is_function(op)) return function(op, a);
      throw ir::Unsupported("operator " + std::string(ir::info(op).name) +
                            " in a proof for every extent");
  }
}

Fraction Symbolic::apply(OpKind op, const Fraction& a, const Fraction& b) {
  switch (op) {
    case OpKind::kAdd:
    case OpKind::kSub: {
      const bool add = op == OpKind::kAdd;
      if (z3::eq(a.den, b.den)) return make(add ? a.num + b.num : a.num - b.num, a.den);
      z3::expr x = a.num * b.den, y = b.num * a.den;
      return make(add ? x + y : x - y, a.den * b.den);
    }
    case OpKind::kMul:
      return make(a.num * b.num, a.den * b.den);
    case OpKind::kDiv:
      return divide(a, b);
    default:
      throw ir::Unsupported("operator " + std::string(ir::info(op).name) +
                            " in a proof for every extent");
  }
}

Fraction Symbolic::node(const ir::Graph& graph, const ir::Node& n,
                        const std::vector<Fraction>& values) {
  auto at = [&](ir::ValueId v) -> const Fraction& { return values[static_cast<std::size_t>(v)]; };
  switch (n.op) {
    case OpKind::kConst:
      return constant(n.constant);
    case OpKind::kBroadcast:
    case OpKind::kCast:
      return at(n.a);
    case OpKind::kSum:
    case OpKind::kMatmul: {
      const ir::Axes& axes = graph.axes(n.a);
      const int i = ir::find_dim(axes, n.dim);
      TENON_CHECK(i >= 0, "a reduced operand has the axis");
      const bool whole = axes[static_cast<std::size_t>(i)].part == ir::kFull;
      const Fraction summand =
          n.op == OpKind::kSum ? at(n.a) : apply(OpKind::kMul, at(n.a), at(n.b));
      return sum(summand, n.dim, whole ? Range::kAll : Range::kTile);
    }
    default:
      return n.b == ir::kNoValue ? unary(n.op, at(n.a)) : apply(n.op, at(n.a), at(n.b));
  }
}

std::vector<Fraction> Symbolic::evaluate(const ir::Graph& graph, std::vector<Fraction> values) {
  TENON_CHECK(values.size() == graph.inputs().size(), "one value per input");
  for (const ir::Node& n : graph.nodes()) values.push_back(node(graph, n, values));
  return values;
}

z3::expr Symbolic::part_symbol(std::size_t sum, int part) {
  auto it = parts_.find({sum, part});
  if (it != parts_.end()) return it->second;
  const Sum& s = sums_[sum];
  z3::expr p =
      symbol(fmt::format("part{}_{}", part, signature_.dims[s.dim]), dims_.at(id_of(s.symbol)));
  parts_.emplace(std::make_pair(sum, part), p);
  if (z3::eq(s.summand, one()))
    positive_.push_back(p);
  else if (is_square(s.summand))
    squares_.push_back(p);
  return p;
}

Fraction Symbolic::replace(const Fraction& f, ir::DimId dim,
                           const std::function<z3::expr(std::size_t)>& replacement) {
  std::map<unsigned, z3::expr> constants;
  collect(f.num, constants);
  collect(f.den, constants);
  z3::expr_vector from(state_.context), to(state_.context);
  for (const auto& [id, c] : constants) {
    if (opaque_.count(id)) throw ir::Unsupported("a root or a sum of what one tile holds");
    if (!tiles_.count(id)) continue;
    for (std::size_t s = 0; s < sums_.size(); ++s) {
      if (!z3::eq(sums_[s].symbol, c) || sums_[s].dim != dim) continue;
      from.push_back(c);
      to.push_back(replacement(s));
      break;
    }
  }
  z3::expr num = f.num, den = f.den;
  return make(num.substitute(from, to), den.substitute(from, to));
}

Fraction Symbolic::over_all(const Fraction& f, ir::DimId dim) {
  return replace(f, dim, [&](std::size_t s) {
    const z3::expr summand = sums_[s].summand;
    return sum_symbol(summand, dim, Range::kAll);
  });
}

Fraction Symbolic::over_part(const Fraction& f, ir::DimId dim, int part) {
  return replace(f, dim, [&](std::size_t s) { return part_symbol(s, part); });
}

Fraction Symbolic::over_two_parts(const Fraction& f, ir::DimId dim) {
  return replace(f, dim, [&](std::size_t s) { return part_symbol(s, 0) + part_symbol(s, 1); });
}

Fraction Symbolic::over_part_and_tile(const Fraction& f, ir::DimId dim) {
  return replace(f, dim, [&](std::size_t s) {
    z3::expr part = part_symbol(s, 0);
    return part + sums_[s].symbol;
  });
}

z3::expr Symbolic::equal(const Fraction& a, const Fraction& b) {
  return a.num * b.den == b.num * a.den;
}

void Symbolic::define_roots(bool of_graph, z3::expr_vector& out) {
  for (const Root& r : roots_) {
    if (r.in_graph != of_graph) continue;
    out.push_back(r.symbol > zero());
    out.push_back(r.symbol * r.symbol * r.radicand.num == r.radicand.den);
  }
}

z3::expr_vector Symbolic::program_assumptions() {
  z3::expr_vector out(state_.context);
  for (const z3::expr& e : positive_) out.push_back(e > zero());
  for (const z3::expr& e : squares_) out.push_back(e >= zero());
  for (const z3::expr& e : nonzero_) out.push_back(e != zero());
  define_roots(false, out);
  return out;
}

z3::expr_vector Symbolic::assumptions() {
  z3::expr_vector out = program_assumptions();
  define_roots(true, out);
  return out;
}

}  // namespace tenon::verifier
