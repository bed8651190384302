// Dims scaled down so that the structure of a µGraph stays: every grid and loop dim keeps two
// or more parts of two or more elements, the last part is short (ragged), and dims are pairwise
// distinct, so that an operator over the wrong dim, or a part of the wrong size, shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/evaluate.h"
#include "ir/mugraph.h"

namespace tenon::verifier {

struct ScaledDims {
  ir::Extents extents;
  ir::Partition partition;
};

// Prime factors of every extent stay below the residues that primes.h guarantees.
inline constexpr std::int64_t kLargestExtent = 31;

// How the block graphs of a µGraph tile a dim.
struct DimUse {
  bool grid = false;  // some block graph's grid has it
  bool loop = false;  // some block graph's loop has it
  bool both = false;  // one block graph has it in both: a share is cut again into steps
};
std::vector<DimUse> dim_uses(const ir::MuGraph& graph);

// Do `grid` × `loop` parts of `extent` keep the structure as above? With `whole_steps`, a
// last part as long as the others is accepted.
bool keeps_structure(std::int64_t extent, std::int64_t grid, std::int64_t loop, const DimUse& use,
                     bool whole_steps);

// The smallest pairwise distinct dims with two parts each, and with three steps of each loop where
// `earlier` is given; what the proof runs at.
// No dim has the extent it has in `earlier`: a constant that happens to fit one setting, such as
// 1/2 for 1/k, fails in the other. No value when there are more dims than can be told apart
// cheaply.
std::optional<ScaledDims> smallest_dims(const std::vector<DimUse>& uses, const ScaledDims* earlier);

// Small pairwise distinct dims drawn with `seed`, with `grid` and `loop` parts. No dim has the
// extent it has in `earlier` (a constant that happens to fit one setting fails in the other).
// `smallest`: the least extents, given out in an order drawn with the seed.
std::optional<ScaledDims> random_dims(const std::vector<DimUse>& uses, std::int64_t grid,
                                      std::int64_t loop, std::uint64_t seed,
                                      const ScaledDims* earlier, bool smallest);

// An upper estimate of the scalar operations of an evaluation; +Inf when it overflows.
double work(const ir::Program& program, const ScaledDims& dims);
double work(const ir::MuGraph& graph, const ScaledDims& dims);

// JSON objects {"m": 5, …} and {"grid": {…}, "loop": {…}}.
std::string extents_json(const ir::Signature& signature, const ir::Extents& extents);
std::string partition_json(const ir::Signature& signature, const ir::Partition& partition);

// Why program and µGraph cannot be compared at all; empty when they can.
std::string signature_mismatch(const ir::Signature& program, const ir::Signature& graph);

}  // namespace tenon::verifier
