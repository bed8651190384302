// The kernels whose sources are mutated: every µGraph fixture under schedules of every family,
// chosen so that little of their code lies idle: rings are shorter than what passes through them,
// blocks take several tiles, the last tile and the last step are ragged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/mugraph.h"
#include "ir/workload.h"

namespace tenon::test {

struct MutationCase {
  const char* fixture;
  std::int64_t m, k, n;
  const char* schedule;  // text form
  std::size_t mutants;   // how many are wanted
};
const std::vector<MutationCase>& mutation_cases();

ir::Workload workload_of(const MutationCase& c);
std::string name(const MutationCase& c);

}  // namespace tenon::test
