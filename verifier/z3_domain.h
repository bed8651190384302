// Real arithmetic as Z3 terms, for the evaluator. Z3 itself stays behind a forward
// declaration; scalars are indices into the terms of the state.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "ir/evaluate.h"

namespace tenon::verifier {

struct Z3State;

// Thrown while terms are built: the time or memory limit of the call was reached.
class Z3Limit : public std::runtime_error {
 public:
  Z3Limit(bool timeout, const std::string& what) : std::runtime_error(what), timeout_(timeout) {}
  bool timeout() const { return timeout_; }

 private:
  bool timeout_;
};

// Square roots and quotients become atoms, one per distinct argument (in Z3's sum-of-monomials
// normal form): √a is s with s ≥ 0 and s² = a, 1/√a is r with r > 0 and r²·a = 1, 1/d is q
// with q·d = 1. A function's value is an atom of its operator and argument: equal arguments, equal
// values, and its range, are all that is known of it; silu(a) is a·sigmoid(a). Casts are the
// identity. Every term also has a float64 value at one random point, at which arguments that
// may be equal are recognized.
class Z3Domain {
 public:
  struct Scalar {
    std::int32_t id = -1;  // -1: an element that was never written
  };
  explicit Z3Domain(Z3State& state) : state_(state) {}

  // `near`: its value at the random point.
  Scalar variable(const std::string& name, double near);
  Scalar constant(const ir::Constant& c, const ir::Extents& extents);
  Scalar apply(ir::OpKind op, Scalar a);
  Scalar apply(ir::OpKind op, Scalar a, Scalar b);
  Scalar round(ir::DType, Scalar a) const { return a; }
  ir::DType elem() const { return ir::DType::kF32; }

 private:
  Z3State& state_;
};

}  // namespace tenon::verifier
