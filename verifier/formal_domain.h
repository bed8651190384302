// A domain whose values carry, instead of a rational function, what can be bounded about it:
// degrees of numerator and denominator, the square roots and units it depends on, and its
// value at a few random points (a fingerprint, by which equal radicands are recognized).
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "ir/domain.h"
#include "verifier/structure.h"

namespace tenon::verifier {

inline constexpr std::size_t kPointsPerPrime = 3;
inline constexpr std::size_t kPoints = 2 * kPointsPerPrime;
using Fingerprint = std::array<std::uint32_t, kPoints>;

inline constexpr int kMaxRootClasses = 64;
inline constexpr std::size_t kMaxFunctionClasses = 512;
using FunctionSet = std::bitset<kMaxFunctionClasses>;

// One value of an uninterpreted function: an operator at one argument.
struct FunctionClass {
  ir::OpKind op;
  double num, den;  // of the argument, in half units
  int den_id;
  std::uint64_t roots;
  UnitSet units;
};

class FormalDomain {
 public:
  // Degrees count half units: a variable has degree 2, its square root 1. Saturating.
  struct Scalar {
    Fingerprint value{};
    double num = 0, den = 0;
    int den_id = 0;           // equal ids: the same denominator; 0: none
    std::uint64_t roots = 0;  // bit c: depends on the root of class c
    UnitSet units;
    FunctionSet functions;  // values of uninterpreted functions it depends on
  };

  FormalDomain(const ir::Signature& signature, const UnitMap& units, std::uint64_t seed,
               std::uint32_t prime_a, std::uint32_t prime_b);

  Scalar variable(int unit);
  Scalar constant(const ir::Constant& c, const ir::Extents& extents);
  Scalar apply(ir::OpKind op, const Scalar& a);
  Scalar apply(ir::OpKind op, const Scalar& a, const Scalar& b);
  Scalar round(ir::DType, const Scalar& a) const { return a; }
  ir::DType elem() const { return ir::DType::kF32; }

  // The calls since the last take, in order of evaluation.
  std::vector<int> take_calls();
  const std::vector<RootClass>& classes() const { return classes_; }
  std::size_t distinct_radicands() const { return distinct_; }
  double largest_radicand_degree() const { return largest_radicand_; }
  bool too_many_roots() const { return too_many_; }
  const std::vector<FunctionClass>& functions() const { return functions_; }
  bool too_many_functions() const { return too_many_functions_; }

 private:
  struct Representative {
    Fingerprint radicand, root;
    double num, den;
    int den_id, reciprocal_id;
  };
  Scalar add(ir::OpKind op, const Scalar& a, const Scalar& b);
  Scalar multiply(const Scalar& a, const Scalar& b);
  Scalar reciprocal(const Scalar& a);
  Scalar root(bool reciprocal, const Scalar& a);
  Scalar function(ir::OpKind op, const Scalar& a);
  int classify(const Scalar& radicand, Fingerprint& root);
  int pair_id(int a, int b);
  int reciprocal_id(const Scalar& a);
  Fingerprint random_fingerprint();
  std::uint32_t draw(std::size_t point);
  // The common ratio a/b at all points of each prime, when there is one and it is a square.
  bool proportional(const Fingerprint& a, const Fingerprint& b, Fingerprint& root_of_ratio);

  const UnitMap& units_;
  std::mt19937_64 random_;
  std::vector<ir::FieldDomain> fields_;  // one per point: attributes differ
  std::map<std::pair<int, int>, int> pairs_;
  std::map<std::pair<Fingerprint, int>, int> reciprocals_;
  int next_id_ = 1;
  std::vector<int> calls_;
  std::vector<RootClass> classes_;
  std::vector<Representative> representatives_;
  std::size_t distinct_ = 0;
  double largest_radicand_ = 2;
  bool too_many_ = false;
  std::map<std::pair<ir::OpKind, Fingerprint>, std::pair<std::size_t, Fingerprint>>
      known_functions_;
  std::vector<FunctionClass> functions_;
  bool too_many_functions_ = false;
};

}  // namespace tenon::verifier
