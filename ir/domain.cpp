#include "ir/domain.h"

#include "ir/error.h"

namespace tenon::ir {

namespace {

template <class T>
T real_constant(const Constant& c, const Extents& extents, const AttributeValues& attributes) {
  double value = c.coefficient.to_double();
  for (const auto& [dim, exponent] : c.dims)
    value *= std::pow(static_cast<double>(extents[dim]), exponent);
  for (const auto& [name, exponent] : c.attributes) {
    auto it = attributes.find(name);
    if (it == attributes.end())
      throw UserError("attribute", name, "an attribute that the workload binds");
    value *= std::pow(it->second, exponent);
  }
  return static_cast<T>(value);
}

template <class T>
T real_apply(OpKind op, T a) {
  switch (op) {
    case OpKind::kSquare:
      return a * a;
    case OpKind::kSqrt:
      return std::sqrt(a);
    case OpKind::kRsqrt:
      return T{1} / std::sqrt(a);
    default:
      throw Unsupported("operator " + std::string(info(op).name) + " over the reals");
  }
}

template <class T>
T real_apply(OpKind op, T a, T b) {
  switch (op) {
    case OpKind::kAdd:
      return a + b;
    case OpKind::kSub:
      return a - b;
    case OpKind::kMul:
      return a * b;
    case OpKind::kDiv:
      return a / b;
    default:
      throw Unsupported("operator " + std::string(info(op).name) + " over the reals");
  }
}

}  // namespace

double DoubleDomain::constant(const Constant& c, const Extents& extents) const {
  return real_constant<double>(c, extents, attributes_);
}
double DoubleDomain::apply(OpKind op, double a) const { return real_apply(op, a); }
double DoubleDomain::apply(OpKind op, double a, double b) const { return real_apply(op, a, b); }

float RoundedDomain::constant(const Constant& c, const Extents& extents) const {
  return real_constant<float>(c, extents, attributes_);
}
float RoundedDomain::apply(OpKind op, float a) const { return real_apply(op, a); }
float RoundedDomain::apply(OpKind op, float a, float b) const { return real_apply(op, a, b); }

FieldDomain::Scalar FieldDomain::power(Scalar a, std::uint64_t e) const {
  std::uint64_t base = a, result = 1;
  for (; e; e >>= 1) {
    if (e & 1) result = result * base % prime_;
    base = base * base % prime_;
  }
  return static_cast<Scalar>(result);
}

FieldDomain::Scalar FieldDomain::inverse(Scalar a) const {
  if (a == 0) throw Undefined("division by zero in the prime field");
  return power(a, prime_ - 2);
}

FieldDomain::Scalar FieldDomain::constant(const Constant& c, const Extents& extents) const {
  auto reduce = [&](std::int64_t x) {
    return static_cast<Scalar>(((x % prime_) + prime_) % prime_);
  };
  auto times = [&](Scalar value, Scalar factor, int exponent) {
    Scalar f = exponent < 0 ? inverse(factor) : factor;
    return apply(OpKind::kMul, value,
                 power(f, static_cast<std::uint64_t>(exponent < 0 ? -exponent : exponent)));
  };
  Scalar value = apply(OpKind::kDiv, reduce(c.coefficient.num), reduce(c.coefficient.den));
  for (const auto& [dim, exponent] : c.dims) value = times(value, reduce(extents[dim]), exponent);
  for (const auto& [name, exponent] : c.attributes) {
    auto it = attributes_.find(name);
    if (it == attributes_.end())
      throw UserError("attribute", name, "an attribute that the domain binds");
    value = times(value, it->second, exponent);
  }
  return value;
}

FieldDomain::Scalar FieldDomain::apply(OpKind op, Scalar a) const {
  switch (op) {
    case OpKind::kSquare:
      return static_cast<Scalar>(std::uint64_t{a} * a % prime_);
    case OpKind::kSqrt: {
      Scalar root = power(a, (std::uint64_t{prime_} + 1) / 4);
      if (std::uint64_t{root} * root % prime_ != a) throw Undefined("square root of a non-residue");
      return root;
    }
    case OpKind::kRsqrt:
      return inverse(apply(OpKind::kSqrt, a));
    default:
      throw Unsupported("operator " + std::string(info(op).name) + " over a prime field");
  }
}

FieldDomain::Scalar FieldDomain::apply(OpKind op, Scalar a, Scalar b) const {
  switch (op) {
    case OpKind::kAdd:
      return static_cast<Scalar>((std::uint64_t{a} + b) % prime_);
    case OpKind::kSub:
      return static_cast<Scalar>((std::uint64_t{a} + prime_ - b) % prime_);
    case OpKind::kMul:
      return static_cast<Scalar>(std::uint64_t{a} * b % prime_);
    case OpKind::kDiv:
      return apply(OpKind::kMul, a, inverse(b));
    default:
      throw Unsupported("operator " + std::string(info(op).name) + " over a prime field");
  }
}

}  // namespace tenon::ir
