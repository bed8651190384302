// Domains to evaluate over: double, rounded float, a prime field. (Z3's is in verifier/.)
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include "ir/evaluate.h"

namespace tenon::ir {

using AttributeValues = std::map<std::string, double>;

// IEEE double; casts are the identity. The reference of the numeric contract.
class DoubleDomain {
 public:
  using Scalar = double;
  explicit DoubleDomain(AttributeValues attributes) : attributes_(std::move(attributes)) {}
  Scalar constant(const Constant& c, const Extents& extents) const;
  Scalar apply(OpKind op, Scalar a) const;
  Scalar apply(OpKind op, Scalar a, Scalar b) const;
  Scalar round(DType, Scalar a) const { return a; }
  DType elem() const { return DType::kF32; }

 private:
  AttributeValues attributes_;
};

// fp32 arithmetic with every cast rounding to its type: predicts a kernel's numerics.
class RoundedDomain {
 public:
  using Scalar = float;
  RoundedDomain(AttributeValues attributes, DType elem)
      : attributes_(std::move(attributes)), elem_(elem) {}
  Scalar constant(const Constant& c, const Extents& extents) const;
  Scalar apply(OpKind op, Scalar a) const;
  Scalar apply(OpKind op, Scalar a, Scalar b) const;
  Scalar round(DType dtype, Scalar a) const { return round_to(bind(dtype, elem_), a); }
  DType elem() const { return elem_; }

 private:
  AttributeValues attributes_;
  DType elem_;
};

// Integers modulo a prime p < 2^31, p ≡ 3 (mod 4). sqrt(a) is the root that is itself a
// square, a^((p+1)/4): with it sqrt is multiplicative on squares, as over the reals.
// Roots of non-squares and division by zero are Undefined. Casts are the identity;
// attributes are field elements chosen by the caller. Functions (exp, tanh …) are
// uninterpreted: a keyed hash of operator and argument, so that equal arguments give equal
// values; silu(a) is a·sigmoid(a).
class FieldDomain {
 public:
  using Scalar = std::uint32_t;
  FieldDomain(std::uint32_t prime, std::map<std::string, std::uint32_t> attributes,
              std::uint64_t function_key = 0)
      : prime_(prime), attributes_(std::move(attributes)), function_key_(function_key) {}
  std::uint32_t prime() const { return prime_; }
  Scalar constant(const Constant& c, const Extents& extents) const;
  Scalar apply(OpKind op, Scalar a) const;
  Scalar apply(OpKind op, Scalar a, Scalar b) const;
  Scalar round(DType, Scalar a) const { return a; }
  DType elem() const { return DType::kF32; }
  Scalar power(Scalar a, std::uint64_t e) const;
  Scalar inverse(Scalar a) const;  // throws Undefined for 0

 private:
  Scalar function(OpKind op, Scalar a) const;

  std::uint32_t prime_;
  std::map<std::string, std::uint32_t> attributes_;
  std::uint64_t function_key_;
};

}  // namespace tenon::ir
