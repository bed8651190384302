// What GPU tests share: the device (or a skip), fixtures embedded in the binary, candidates.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "ir/mugraph.h"
#include "ir/workload.h"
#include "measure/measure.h"
#include "runtime/device.h"

namespace tenon::test {

// cuda:0, or null where there is none (or no NVRTC to compile with); `why` then holds a sentence.
std::unique_ptr<runtime::Device> open_gpu(std::string* why);

std::vector<std::string> embedded_fixtures();  // names of the rmsnorm_linear µGraphs
ir::MuGraph embedded_fixture(const std::string& name);

// The source as it is compiled under compute-sanitizer. racecheck follows one lane where the lanes
// of a warp meet before it arrives for all: under that tool every lane arrives
// (codegen/device/ptx/mbarrier.cuh; scripts/gpu_sanitize.sh sets $TENON_RACECHECK).
codegen::Source as_tools_want(codegen::Source source);

// The µGraph compiled under a schedule. Throws codegen::Rejected; a failed compile throws
// std::runtime_error with its log.
measure::Candidate compile(const ir::MuGraph& graph, const ir::Schedule& schedule,
                           const ir::Workload& workload, const ir::Target& target);

// For every kernel of the µGraph the families that can lower it, each with its first, middle and
// last legal schedule: one schedule of the µGraph for each.
std::vector<ir::Schedule> sample_schedules(const ir::MuGraph& graph, const ir::Workload& workload,
                                           const ir::Target& target);

}  // namespace tenon::test

// Skips the test where there is no GPU.
#define TENON_REQUIRE_GPU(device)                    \
  std::string tenon_why;                             \
  auto device = ::tenon::test::open_gpu(&tenon_why); \
  if (!device) GTEST_SKIP() << tenon_why
