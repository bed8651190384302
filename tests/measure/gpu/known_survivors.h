// Source mutants that no launch can tell from the original, each with the reason. A mutant is
// excused only where the kind of edit, the function that it is in and the edit itself are those
// that the reason speaks of, and the case is one for which it holds.
#pragma once

#include <string>

#include "mutation_cases.h"
#include "source_mutants.h"

namespace tenon::test {

// The reason, or null. Some reasons are given at `last` only: when the edit has been tried in other
// kernels and with delays too.
const char* known_survivor(const MutationCase& c, const SourceMutant& mutant, bool last = false);

}  // namespace tenon::test
