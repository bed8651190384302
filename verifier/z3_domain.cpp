#include "verifier/z3_domain.h"

#include <fmt/format.h>

#include "ir/domain.h"
#include "ir/error.h"
#include "verifier/z3_state.h"

namespace tenon::verifier {

using ir::OpKind;

namespace {

z3::expr rational(z3::context& context, const ir::Rational& r) {
  return context.real_val(fmt::format("{}/{}", r.num, r.den).c_str());
}

// An element that no block writes has no value that could equal the program's.
void check_written(Z3Domain::Scalar s) {
  if (s.id < 0) throw ir::Undefined("an element that no block has written is read");
}

}  // namespace

Z3Domain::Scalar Z3Domain::variable(const std::string& name, double near) {
  return state_.keep(state_.context.real_const(name.c_str()), near);
}

Z3Domain::Scalar Z3Domain::constant(const ir::Constant& c, const ir::Extents& extents) {
  state_.check_limits();
  z3::expr value = rational(state_.context, c.coefficient);
  double near = c.coefficient.to_double();
  auto times = [&](const z3::expr& factor, int exponent) {
    for (int i = 0; i < exponent; ++i) value = value * factor;
    for (int i = 0; i > exponent; --i)
      value = factor.is_numeral()
                  ? value / factor
                  : value * state_.atom(AtomKind::kReciprocal, state_.normal_form(factor));
  };
  for (const auto& [dim, exponent] : c.dims) {
    times(rational(state_.context, {extents[dim], 1}), exponent);
    near *= std::pow(static_cast<double>(extents[dim]), exponent);
  }
  for (const auto& [name, exponent] : c.attributes) {
    auto it = state_.attributes.find(name);
    if (it == state_.attributes.end())
      throw UserError("attribute", name, "an attribute of the program");
    times(it->second, exponent);
    near *= std::pow(state_.attribute_near(name), exponent);
  }
  return state_.keep(c.attributes.empty() ? value.simplify() : value, near);
}

Z3Domain::Scalar Z3Domain::apply(OpKind op, Scalar a) {
  state_.check_limits();
  check_written(a);
  const z3::expr x = state_.term(a);
  const double near = ir::DoubleDomain({}).apply(op, state_.value(a));
  switch (op) {
    case OpKind::kSquare:
      return state_.keep(x * x, near);
    case OpKind::kSqrt:
      return state_.keep(state_.atom(AtomKind::kSqrt, state_.normal_form(x)), near);
    case OpKind::kRsqrt:
      return state_.keep(state_.atom(AtomKind::kRsqrt, state_.normal_form(x)), near);
    case OpKind::kSilu:
      return state_.keep(
          x * state_.function(OpKind::kSigmoid, state_.normal_form(x), state_.value(a)), near);
    default:
      if (ir::is_function(op))
        return state_.keep(state_.function(op, state_.normal_form(x), state_.value(a)), near);
      throw ir::Unsupported("operator " + std::string(ir::info(op).name) + " over Z3 reals");
  }
}

Z3Domain::Scalar Z3Domain::apply(OpKind op, Scalar a, Scalar b) {
  state_.check_limits();
  check_written(a);
  check_written(b);
  const z3::expr x = state_.term(a), y = state_.term(b);
  const double near = ir::DoubleDomain({}).apply(op, state_.value(a), state_.value(b));
  switch (op) {
    case OpKind::kAdd:
      return state_.keep(x + y, near);
    case OpKind::kSub:
      return state_.keep(x - y, near);
    case OpKind::kMul:
      return state_.keep(x * y, near);
    case OpKind::kDiv: {
      const z3::expr d = state_.normal_form(y);
      if (d.is_numeral() && !z3::eq(d, state_.context.real_val(0))) return state_.keep(x / d, near);
      // 1/√a and 1/(1/√a) by their own atoms: with them most forms agree without any relation.
      const Z3Atom* root = state_.atom_of(d);
      if (root != nullptr && root->kind == AtomKind::kSqrt)
        return state_.keep(x * state_.atom(AtomKind::kRsqrt, root->argument), near);
      if (root != nullptr && root->kind == AtomKind::kRsqrt)
        return state_.keep(x * state_.atom(AtomKind::kSqrt, root->argument), near);
      return state_.keep(x * state_.atom(AtomKind::kReciprocal, d), near);
    }
    default:
      throw ir::Unsupported("operator " + std::string(ir::info(op).name) + " over Z3 reals");
  }
}

}  // namespace tenon::verifier
