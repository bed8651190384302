// µGraph + schedule -> CUDA C++ -> cubin, and the launch plan that runs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/mugraph.h"
#include "ir/plan.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "ir/workload.h"

namespace tenon::codegen {

// The µGraph or schedule cannot be lowered to this target; the message says why. Data, not
// an error of the user's: candidates rejected so are counted by reason.
class Rejected : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Source {
  std::string text;                  // CUDA C++; the µGraph is a comment at its top
  std::vector<std::string> entries;  // extern "C" kernels in it
};

struct Generated {
  ir::LaunchPlan plan;          // modules[i].cubin_sha256 still empty
  std::vector<Source> sources;  // one per module of the plan
};

// Throws Rejected. For the host target there are no sources: the plan's launches are kHost.
Generated generate(const ir::MuGraph& graph, const ir::Schedule& schedule,
                   const ir::Workload& workload, const ir::Target& target);

struct KernelResources {
  std::string entry;
  int registers = 0;
  int static_shared_bytes = 0;
  int spill_bytes = 0;  // spill stores + loads
  int stack_bytes = 0;
};

struct Compiled {
  bool ok = false;
  std::string log;      // whole compiler log; on failure what went wrong
  std::string cubin;    // bytes
  std::string sha256;   // of the cubin
  std::string ptx;      // only when asked for
  std::string options;  // NVRTC options used, one string
  std::string nvrtc_version;
  std::string source_sha256;
  std::vector<KernelResources> resources;
  double seconds = 0;
};

// Is NVRTC to be had here? `why` says what was looked for.
bool nvrtc_available(std::string* why = nullptr);
std::string nvrtc_version();  // "13.0"; throws DeviceError where there is none

// Compiles one source for target.name with NVRTC (opened at run time). Never throws for bad
// source: a failure is `ok == false` with the log. Throws DeviceError without NVRTC.
// Thread-safe. TENON_DUMP_DIR: source, PTX and cubin are written there.
Compiled compile(const Source& source, const ir::Target& target, bool want_ptx = false);

}  // namespace tenon::codegen
