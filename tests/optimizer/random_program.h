// Random small programs over the whole operator table.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::test {

// The text form of program number `seed`: dims among m, k, n; three to eight steps of one to five
// operators; every output depends on an activation and has m as its first axis. What
// goes under a root or into a divisor is positive.
std::string random_program(std::uint64_t seed);

}  // namespace tenon::test
