// One case of the program fuzzer: a random program, what the search makes of it, and the host
// device's answer.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::test {

struct FuzzCase {
  bool ok = false;
  std::string problem;    // one sentence and the program's text; empty when ok
  int graphs = 0;         // distinct µGraphs that the search found
  int run = 0;            // of them verified, and launched on the host
  bool compared = false;  // false: the program is too ill-conditioned for its own reference
};

FuzzCase fuzz(std::uint64_t seed);

}  // namespace tenon::test
