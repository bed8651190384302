// µGraphs and programs that code generation is tested on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/family.h"
#include "ir/mugraph.h"
#include "ir/schedule.h"
#include "ir/workload.h"

namespace tenon::codegen::testing {

struct Fixture {
  std::string name;
  ir::MuGraph graph;
  ir::Program program;
};

// Names of all fixtures that can be lowered.
const std::vector<std::string>& fixture_names();
// Parses and validates one. "rmsnorm_one_pass" … from tests/ir, the rest from here.
Fixture fixture(const std::string& name);

// With extents of the dims that the program has ("l" is 48).
ir::Workload workload(const Fixture& fixture, std::int64_t m, std::int64_t k, std::int64_t n,
                      ir::DType dtype);

// The default schedule of every kernel.
ir::Schedule default_schedule(const Fixture& fixture, const ir::Workload& workload,
                              const ir::Target& target);

// A µGraph of rmsnorm_linear's signature from its kernels' text.
ir::MuGraph rmsnorm_graph(const std::string& kernels);

}  // namespace tenon::codegen::testing
