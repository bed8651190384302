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
    case OpKind::kExp:
      return std::exp(a);
    case OpKind::kTanh:
      return std::tanh(a);
    case OpKind::kErf:
      return std::erf(a);
    case OpKind::kSigmoid:
      return T{1} / (T{1} + std::exp(-a));
    case OpKind::kSilu:
      return a / (T{1} + std::exp(-a));
    case OpKind::kGelu:
      return a * (static_cast<T>(0.5) * std::erfc(-a * static_cast<T>(M_SQRT1_2)));
    case OpKind::kGeluTanh: {
      const T u =
          static_cast<T>(M_2_SQRTPI * M_SQRT1_2) * (a + static_cast<T>(0.044715) * a * a * a);
      return a / (T{1} + std::exp(-2 * u));
    }
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

FieldDomain::Scalar FieldDomain::function(OpKind op, Scalar a) const {
  // SplitMix64's mixing (Steele, Lea, Flood 2014), keyed before and after.
  auto mix = [](std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  };
  const std::uint64_t name =
      mix(function_key_ + 0x9e3779b97f4a7c15ull * (1 + static_cast<std::uint64_t>(op)));
  return static_cast<Scalar>(mix(mix(name ^ a) + function_key_) % prime_);
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
    case OpKind::kSilu:
      return apply(OpKind::kMul, a, function(OpKind::kSigmoid, a));
    default:
      if (is_function(op)) return function(op, a);
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
