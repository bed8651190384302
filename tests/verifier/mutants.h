// A generator of wrong µGraphs: every small edit of a right one's text that is still a well-formed
// µGraph of the same program.
#pragma once

#include <string>
#include <vector>

#include "ir/mugraph.h"

namespace tenon::verifier::testing {

struct Mutant {
  std::string edit;  // what was changed: "line 12: mul -> add"
  std::string text;
  ir::MuGraph graph;
};

// Distinct ones (by identity), none of them the original, in a fixed order.
std::vector<Mutant> mutants(const ir::MuGraph& original);

}  // namespace tenon::verifier::testing
