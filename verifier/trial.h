// Evaluation over one prime field at random inputs, redrawn until the square roots exist.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "ir/domain.h"
#include "verifier/structure.h"

namespace tenon::verifier {

using FieldValues = ir::Values<std::uint32_t>;

// Thrown to leave an evaluation once its last square root was seen.
struct LastRootSeen {};

// ir::FieldDomain with a record instead of an exception: which root calls (counted in order
// of evaluation) had a radicand that is no square, and whether a divisor was zero.
class TrialDomain {
 public:
  using Scalar = std::uint32_t;
  TrialDomain(std::uint32_t prime, std::map<std::string, std::uint32_t> attributes,
              std::uint64_t function_key)
      : field_(prime, std::move(attributes), function_key) {}

  Scalar constant(const ir::Constant& c, const ir::Extents& extents);
  Scalar apply(ir::OpKind op, Scalar a);
  Scalar apply(ir::OpKind op, Scalar a, Scalar b);
  Scalar round(ir::DType, Scalar a) const { return a; }
  ir::DType elem() const { return ir::DType::kF32; }

  // Throws LastRootSeen after call number `calls`; 0: never.
  void stop_after(std::size_t calls) { stop_after_ = calls; }
  const std::vector<bool>& squares() const { return squares_; }  // by call
  bool divided_by_zero() const { return divided_by_zero_; }

 private:
  ir::FieldDomain field_;
  std::vector<bool> squares_;
  bool divided_by_zero_ = false;
  std::size_t stop_after_ = 0;
};

// Random inputs and attributes over a prime field, unit by unit.
class FieldInputs {
 public:
  FieldInputs(const ir::Signature& signature, const ScaledDims& dims, const UnitMap& units,
              std::uint32_t prime, std::uint64_t seed);
  void draw_all();
  void draw(int unit);
  const std::vector<FieldValues>& values() const { return values_; }
  const std::map<std::string, std::uint32_t>& attributes() const { return attributes_; }

 private:
  std::uint32_t uniform(std::uint32_t low);

  const UnitMap& units_;
  std::uint32_t prime_;
  std::mt19937_64 random_;
  std::vector<FieldValues> values_;
  std::vector<std::vector<int>> unit_of_;  // by input, by element
  std::map<std::string, std::uint32_t> attributes_;
};

struct Trial {
  bool defined = false;  // both could be evaluated
  std::vector<FieldValues> program, graph;
  std::vector<FieldValues> inputs;
  std::map<std::string, std::uint32_t> attributes;
};

inline constexpr int kRestarts = 4;  // fresh inputs after a division by zero or too many draws

Trial run_trial(const ir::Program& program, const ir::MuGraph& graph, const ScaledDims& dims,
                const UnitMap& units, const Structure& structure, std::uint32_t prime,
                std::uint64_t seed);

// Are the radicands independent modulo squares over this prime (no product of some of them is
// a square)? Then adjoining their roots is a tower of quadratic extensions, as the bound
// needs. `true` is a certificate: the quadratic characters of the radicands at random points
// are linearly independent vectors over GF(2).
bool roots_independent(const ir::Program& program, const ir::MuGraph& graph, const ScaledDims& dims,
                       const UnitMap& units, const Structure& structure, std::uint32_t prime,
                       std::uint64_t seed);

}  // namespace tenon::verifier
