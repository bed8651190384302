// Which inputs of a program have to be nonnegative for its roots to exist.
#pragma once

#include <vector>

#include "ir/program.h"

namespace tenon::ir {

// By input: does its value itself, through sums, products with others, quotients and casts, go
// under a square root, as the running variance of a BatchNorm does? Inputs that are squared first
// (an RMSNorm's, a LayerNorm's) are not. Test inputs for these are drawn nonnegative; nothing is
// proved from it.
std::vector<bool> inputs_under_roots(const Program& program);

}  // namespace tenon::ir
