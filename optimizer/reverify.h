// Runs the evidence for a stored plan again: `tenon db check --reverify`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/database.h"
#include "ir/workload.h"
#include "verifier/verifier.h"

namespace tenon::optimizer {

struct ReverifyOptions {
  std::uint64_t seed = 0;  // another one than before tests at other dims and inputs
  int z3_timeout_ms = 10000;
  // Where the numeric test runs; empty or a device of another class than the plan's: it is not
  // repeated, and the report says so.
  std::string device;
};

struct Reverification {
  // "random", "z3", "induction" and, where it could be repeated, "numeric".
  std::vector<verifier::Evidence> evidence;
  // One sentence for each method that stands worse than it is stored: it passed or was proved
  // then and does not now; or it is refuted now, whatever it was.
  std::vector<std::string> worse;
  std::string not_repeated;  // why the numeric test was not; empty when it was
  bool holds() const { return worse.empty(); }
};

// Parses the stored program, µGraph and plan and runs every method on them anew; nothing is
// written. What cannot be read (a text that no longer parses) is one of `worse`, not an exception.
Reverification reverify(const cache::Stored& stored, const ReverifyOptions& options);

// The workload that a stored row describes. Throws UserError when the row is malformed.
ir::Workload workload_of(const cache::WorkloadRow& row);

}  // namespace tenon::optimizer
