// Layouts: the order in which a tensor's axes lie in memory, the last one contiguous.
#pragma once

#include <string>

#include "ir/program.h"

namespace tenon::ir {

// The program with input `name` stored in another order of its axes, as "w=n,k" for weights kept
// [n, k] (PyTorch's nn.Linear) where the program has them [k, n]. The mathematics is the same,
// the identity is not: a program in another layout is another workload. Throws UserError that
// names what is unknown, missing or twice there.
Program with_layout(const Program& program, const std::string& layout);

}  // namespace tenon::ir
