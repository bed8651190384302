#include "verifier/formal_domain.h"

#include <algorithm>

#include "ir/error.h"

namespace tenon::verifier {

using ir::OpKind;

namespace {

// Uniform on [0, prime); primes lie just below 2^31.
std::uint32_t uniform(std::mt19937_64& random, std::uint32_t prime) {
  for (;;) {
    auto v = static_cast<std::uint32_t>(random() >> 33);
    if (v < prime) return v;
  }
}

bool is_square(const ir::FieldDomain& field, std::uint32_t a) {
  return a == 0 || field.power(a, (field.prime() - 1) / 2) == 1;
}

}  // namespace

FormalDomain::FormalDomain(const ir::Signature& signature, const UnitMap& units, std::uint64_t seed,
                           std::uint32_t prime_a, std::uint32_t prime_b)
    : units_(units), random_(seed) {
  for (std::size_t i = 0; i < kPoints; ++i) {
    const std::uint32_t prime = i < kPointsPerPrime ? prime_a : prime_b;
    std::map<std::string, std::uint32_t> attributes;
    for (const auto& [name, value] : signature.attributes)
      attributes[name] = 1 + uniform(random_, prime - 1);
    fields_.emplace_back(prime, std::move(attributes));
  }
}

std::uint32_t FormalDomain::draw(std::size_t point) {
  return uniform(random_, fields_[point].prime());
}

Fingerprint FormalDomain::random_fingerprint() {
  Fingerprint out;
  for (std::size_t i = 0; i < kPoints; ++i) out[i] = draw(i);
  return out;
}

FormalDomain::Scalar FormalDomain::variable(int unit) {
  Scalar s;
  s.value = random_fingerprint();
  s.num = 2;
  s.units.set(static_cast<std::size_t>(unit));
  return s;
}

FormalDomain::Scalar FormalDomain::constant(const ir::Constant& c, const ir::Extents& extents) {
  Scalar s;
  for (std::size_t i = 0; i < kPoints; ++i) s.value[i] = fields_[i].constant(c, extents);
  int divisor = 0;
  for (const auto& [name, exponent] : c.attributes) {
    s.units.set(static_cast<std::size_t>(units_.attribute_unit(name)));
    if (exponent > 0) {
      s.num += 2.0 * exponent;
    } else {
      s.den += -2.0 * exponent;
      ++divisor;
    }
  }
  if (divisor > 0) s.den_id = next_id_++;
  return s;
}

int FormalDomain::pair_id(int a, int b) {
  if (a == 0) return b;
  if (b == 0) return a;
  auto [it, fresh] = pairs_.try_emplace({std::min(a, b), std::max(a, b)}, next_id_);
  if (fresh) ++next_id_;
  return it->second;
}

int FormalDomain::reciprocal_id(const Scalar& a) {
  if (a.num == 0) return 0;
  auto [it, fresh] = reciprocals_.try_emplace({a.value, a.den_id}, next_id_);
  if (fresh) ++next_id_;
  return it->second;
}

FormalDomain::Scalar FormalDomain::add(OpKind op, const Scalar& a, const Scalar& b) {
  Scalar s;
  for (std::size_t i = 0; i < kPoints; ++i)
    s.value[i] = fields_[i].apply(op, a.value[i], b.value[i]);
  if (a.den_id == b.den_id) {
    s.num = std::max(a.num, b.num);
    s.den = a.den;
    s.den_id = a.den_id;
  } else {
    s.num = std::max(a.num + b.den, b.num + a.den);
    s.den = a.den + b.den;
    s.den_id = pair_id(a.den_id, b.den_id);
  }
  s.roots = a.roots | b.roots;
  s.units = a.units | b.units;
  s.functions = a.functions | b.functions;
  return s;
}

FormalDomain::Scalar FormalDomain::multiply(const Scalar& a, const Scalar& b) {
  Scalar s;
  for (std::size_t i = 0; i < kPoints; ++i)
    s.value[i] = fields_[i].apply(OpKind::kMul, a.value[i], b.value[i]);
  s.num = a.num + b.num;
  s.den = a.den + b.den;
  s.den_id = pair_id(a.den_id, b.den_id);
  s.roots = a.roots | b.roots;
  s.units = a.units | b.units;
  s.functions = a.functions | b.functions;
  return s;
}

FormalDomain::Scalar FormalDomain::reciprocal(const Scalar& a) {
  Scalar s = a;
  for (std::size_t i = 0; i < kPoints; ++i) s.value[i] = fields_[i].inverse(a.value[i]);
  s.num = a.den;
  s.den = a.num;
  s.den_id = reciprocal_id(a);
  return s;
}

bool FormalDomain::proportional(const Fingerprint& a, const Fingerprint& b,
                                Fingerprint& root_of_ratio) {
  for (std::size_t i = 0; i < kPoints; ++i) {
    if (a[i] == 0 || b[i] == 0) return false;
    const std::size_t first = i - i % kPointsPerPrime;
    const ir::FieldDomain& field = fields_[i];
    if (field.apply(OpKind::kMul, a[i], b[first]) != field.apply(OpKind::kMul, b[i], a[first]))
      return false;
    const std::uint32_t ratio = field.apply(OpKind::kDiv, a[i], b[i]);
    if (!is_square(field, ratio)) return false;
    root_of_ratio[i] = field.apply(OpKind::kSqrt, ratio);
  }
  return true;
}

int FormalDomain::classify(const Scalar& radicand, Fingerprint& root) {
  Fingerprint one;
  one.fill(1);
  if (proportional(radicand.value, one, root)) return -1;
  for (std::size_t c = 0; c < representatives_.size(); ++c) {
    Fingerprint factor{};
    if (!proportional(radicand.value, representatives_[c].radicand, factor)) continue;
    for (std::size_t i = 0; i < kPoints; ++i)
      root[i] = fields_[i].apply(OpKind::kMul, factor[i], representatives_[c].root[i]);
    return static_cast<int>(c);
  }
  if (representatives_.size() == kMaxRootClasses) {
    too_many_ = true;
    root = random_fingerprint();
    return kMaxRootClasses - 1;
  }
  ++distinct_;
  largest_radicand_ = std::max(largest_radicand_, radicand.num + radicand.den);
  RootClass fresh;
  for (std::size_t c = 0; c < classes_.size(); ++c)
    if (radicand.roots >> c & 1) fresh.level = std::max(fresh.level, classes_[c].level + 1);
  fresh.units = radicand.units;
  fresh.linear = radicand.num <= 2 && radicand.den == 0;
  classes_.push_back(fresh);
  root = random_fingerprint();
  representatives_.push_back(
      {radicand.value, root, radicand.num, radicand.den, radicand.den_id, reciprocal_id(radicand)});
  return static_cast<int>(classes_.size()) - 1;
}

// With the class's radicand A/B and t = √(A·B): its root is t/B and the reciprocal t/A.
FormalDomain::Scalar FormalDomain::root(bool reciprocal, const Scalar& a) {
  Scalar s;
  const int c = classify(a, s.value);
  calls_.push_back(c);
  s.units = a.units;
  s.functions = a.functions;
  if (reciprocal)
    for (std::size_t i = 0; i < kPoints; ++i) s.value[i] = fields_[i].inverse(s.value[i]);
  if (c < 0) return s;
  const Representative& r = representatives_[static_cast<std::size_t>(c)];
  s.roots = a.roots | std::uint64_t{1} << c;
  s.num = std::ceil((r.num + r.den) / 2);
  s.den = reciprocal ? r.num : r.den;
  s.den_id = reciprocal ? r.reciprocal_id : r.den_id;
  return s;
}

// A fresh variable for each operator and argument. Its weight is that of two variables, so that
// no radicand which contains it passes for one that is linear in an input.
FormalDomain::Scalar FormalDomain::function(OpKind op, const Scalar& a) {
  auto [it, fresh] = known_functions_.try_emplace({op, a.value}, functions_.size(), Fingerprint{});
  if (fresh && functions_.size() == kMaxFunctionClasses) {
    too_many_functions_ = true;
    it->second = {kMaxFunctionClasses - 1, random_fingerprint()};
  } else if (fresh) {
    functions_.push_back({op, a.num, a.den, a.den_id, a.roots, a.units});
    it->second.second = random_fingerprint();
  }
  Scalar s;
  s.value = it->second.second;
  s.num = 4;
  s.roots = a.roots;
  s.units = a.units;
  s.functions = a.functions;
  s.functions.set(it->second.first);
  return s;
}

FormalDomain::Scalar FormalDomain::apply(OpKind op, const Scalar& a) {
  switch (op) {
    case OpKind::kSquare:
      return multiply(a, a);
    case OpKind::kSqrt:
      return root(false, a);
    case OpKind::kRsqrt:
      return root(true, a);
    case OpKind::kSilu:
      return multiply(a, function(OpKind::kSigmoid, a));
    default:
      if (ir::is_function(op)) return function(op, a);
      throw ir::Unsupported("operator " + std::string(ir::info(op).name) + " over a prime field");
  }
}

FormalDomain::Scalar FormalDomain::apply(OpKind op, const Scalar& a, const Scalar& b) {
  switch (op) {
    case OpKind::kAdd:
    case OpKind::kSub:
      return add(op, a, b);
    case OpKind::kMul:
      return multiply(a, b);
    case OpKind::kDiv:
      return multiply(a, reciprocal(b));
    default:
      throw ir::Unsupported("operator " + std::string(ir::info(op).name) + " over a prime field");
  }
}

std::vector<int> FormalDomain::take_calls() {
  std::vector<int> out;
  std::swap(out, calls_);
  return out;
}

}  // namespace tenon::verifier
