// Float64 evaluation of program and µGraph on the same inputs: confirms a counterexample, and
// backs an agreement found over another domain.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/domain.h"
#include "verifier/scaled_dims.h"

namespace tenon::verifier {

using RealValues = ir::Values<double>;

// Where two lists of outputs differ: the first element, or -1.
struct Element {
  int output = -1;
  std::int64_t flat = -1;
  bool found() const { return output >= 0; }
};

struct RealInputs {
  std::vector<RealValues> values;
  ir::AttributeValues attributes;
};

struct Replay {
  bool comparable = false;  // the program's result is finite at these inputs
  Element difference;       // found: they differ by more than rounding can explain
  std::vector<RealValues> program, graph;
};

// Standard normal inputs (their magnitudes, where the program takes roots of them), attributes
// uniform on [1/2, 2] (far from 0, so that an attribute
// that is missing shows).
RealInputs random_reals(const ir::Program& program, const ir::Extents& extents, std::uint64_t seed);

Replay replay(const ir::Program& program, const ir::MuGraph& graph, const ScaledDims& dims,
              const RealInputs& inputs);

// Replays at `points` random inputs where the program is finite; stops at a difference.
struct Agreement {
  int compared = 0;   // points compared; 0: the program has no finite result at random inputs
  RealInputs inputs;  // of the difference
  Replay replay;      // of the difference
  bool differs() const { return replay.difference.found(); }
};
Agreement compare_at_random(const ir::Program& program, const ir::MuGraph& graph,
                            const ScaledDims& dims, std::uint64_t seed, int points);

// "y[1, 3]".
std::string element_name(const ir::Signature& signature, const ir::Extents& extents,
                         const Element& element);

// JSON of a counterexample: dims, partition, attributes, inputs, both results, the element.
std::string counterexample_json(const ir::Signature& signature, const ScaledDims& dims,
                                const RealInputs& inputs, const Replay& replay);

}  // namespace tenon::verifier
