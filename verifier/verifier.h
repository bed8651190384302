// Evidence that a µGraph equals its program.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/mugraph.h"
#include "ir/program.h"
#include "verifier/scaled_dims.h"

namespace tenon::verifier {

enum class Verdict : std::uint8_t {
  kPass,     // random, numeric: accepted (never a proof)
  kProved,   // z3: no counterexample at the stated dims; induction: none at any
  kRefuted,  // a counterexample was found, and confirmed
  kUnknown,  // the method gave up; the reason says why
  kTimeout,
  kUnsupported,  // outside what the method can express
};
std::string name(
    Verdict verdict);  // "pass", "proved", "refuted", "unknown", "timeout", "unsupported"
Verdict verdict_from_name(const std::string& text);

struct Evidence {
  std::string method;  // "random", "z3", "induction", "numeric"
  Verdict verdict = Verdict::kUnknown;
  std::string reason;          // one sentence; for a refutation what differs where
  std::string figures;         // JSON object: dims, primes, trials, seeds, bound, limits …
  std::string counterexample;  // JSON: inputs on which program and µGraph differ, both results
  double seconds = 0;
};

struct RandomOptions {
  std::uint64_t seed = 0;
  int trials = 3;           // per prime, at least
  double bound_log2 = -60;  // repeat until the false-accept bound is below 2^this
  // Extents, and parts of each dim, to test at; by default two choices of the test's own.
  std::vector<ScaledDims> at = {};
};
// Prime-field test at dims that are pairwise distinct, ragged, and keep every grid and loop
// dim at two or more steps, or at those that the options name (unsupported where an extent is
// not within 1 … 31). docs/verification.md states the bound.
Evidence random_test(const ir::Program& program, const ir::MuGraph& graph,
                     const RandomOptions& options);

struct Z3Options {
  int timeout_ms = 10000;
  int memory_mb = 1024;
  std::string dump_file;               // non-empty: the query is saved there (SMT-LIB 2)
  std::function<void()> before_query;  // called once terms are built; tests make it fail
};
// Bounded proof at small dims that keep the structure.
Evidence z3_check(const ir::Program& program, const ir::MuGraph& graph, const Z3Options& options);
// Unbounded proof, for every extent and partition, by induction over the loop ("induction").
// Proves or gives up; it never refutes.
Evidence induction_check(const ir::Program& program, const ir::MuGraph& graph,
                         const Z3Options& options);

}  // namespace tenon::verifier
