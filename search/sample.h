// Random points over prime fields at which expressions are told apart.
//
// Two samples, each at its own pairwise distinct extents and over its own prime, so that a
// constant made of extents (1/k) does not coincide with a number or with another dim's. Equal
// expressions agree at every point; different ones of degree d agree by chance with
// probability at most d/p per sample (Schwartz–Zippel), p near 2^31.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/domain.h"
#include "ir/program.h"

namespace tenon::search {

using FieldValues = ir::Values<std::uint32_t>;

struct Sample {
  ir::Extents extents;
  ir::FieldDomain domain;
  std::vector<FieldValues> inputs;   // of the program, in signature order
  std::vector<FieldValues> outputs;  // what the program makes of them
};

// Draws inputs from `seed` until every value of the program is defined (arguments of roots
// are residues, divisors nonzero). Throws UserError when no such point turns up.
std::vector<Sample> make_samples(const ir::Program& program, std::uint64_t seed);

// The value of one operator over whole tensors; nothing where it is undefined at the sample.
std::optional<FieldValues> apply(const ir::Graph& one_node, const Sample& sample,
                                 std::vector<FieldValues> operands);

}  // namespace tenon::search
