// The algebraic structure of a program and a µGraph at given dims: degrees, square roots and
// what they depend on. All that the bound of docs/verification.md is computed from.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ir/evaluate.h"
#include "verifier/scaled_dims.h"
#include "verifier/units.h"

namespace tenon::verifier {

// Radicands that are equal up to a constant factor: one square root to adjoin.
struct RootClass {
  int level = 0;        // 0: no root in the radicand; else 1 + the largest level in it
  UnitSet units;        // what the radicand depends on
  int target = -1;      // the unit redrawn when the radicand is no square
  bool linear = false;  // the radicand has degree 1 and the target is a single element
};

struct Structure {
  // Per square root taken, in the order of evaluation: its class; -1 for a constant radicand.
  std::vector<int> program_calls, graph_calls;
  std::vector<RootClass> classes;
  std::vector<int> draw_limit;  // by unit: how often it may be drawn; 1 where it is never redrawn
  // Over all output elements, the largest log2 of degree × draws and what it is made of.
  double log2_degree = 0;
  double log2_draws = 0;
  // … and of the chance, times the prime, that two different arguments of one function that it
  // depends on coincide; -infinity without functions.
  double log2_coincidence = -std::numeric_limits<double>::infinity();
  int roots = 0;              // square roots that element depends on, free ones left out
  double log2_collision = 0;  // of the chance that two distinct radicands were taken for one
  std::string problem;        // why there is no bound; empty when there is one
};

// log2 of 2^a + 2^b; either may be -infinity.
double log2_sum(double a, double b);

// Evaluates both over formal rational functions, values of uninterpreted functions being further
// variables. Throws ir::Undefined when a constant divisor is zero.
Structure analyse(const ir::Program& program, const ir::MuGraph& graph, const ScaledDims& dims,
                  const UnitMap& units, std::uint64_t seed, std::uint32_t prime_a,
                  std::uint32_t prime_b);

}  // namespace tenon::verifier
