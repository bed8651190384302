#include "delays.h"

#include <vector>

namespace tenon::test {

namespace {

// Every lane of a warp rests for the same time, so that it stays converged.
constexpr const char* kRest = R"cuda(
__device__ __forceinline__ void tenon_rest() {
  __nanosleep((threadIdx.x / 32 * 5 + blockIdx.x * 3) % 7 * 700);
}
__device__ __forceinline__ void tenon_long_rest() { __nanosleep(4000); }
// Before a barrier is made: what was in its place looks like one whose first phase is over.
__device__ __forceinline__ void tenon_late_barrier(unsigned barrier) {
  asm volatile(
      "{\n.reg .b64 state;\nmbarrier.init.shared.b64 [%0], 1;\n"
      "mbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(barrier) : "memory");
  __nanosleep(4000);
  asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
// Before the first share's state is written: it is complete long after the others have arrived.
__device__ __forceinline__ void tenon_late_share() {
  if (blockIdx.y == 0 && threadIdx.x >= 32) __nanosleep(50000);
}
// Before a row's sum is published: the first rows of every 64 are late.
__device__ __forceinline__ void tenon_late_rows(int row) {
  if (row % 64 < 8) __nanosleep(50000);
}
)cuda";

// Puts `text` behind the opening brace of every function `name`, given with its result's type.
void at_begin(std::string& source, const std::string& name, const std::string& text) {
  const std::string start = name + "(";
  for (std::size_t at = 0; (at = source.find(start, at)) != std::string::npos;) {
    const std::size_t brace = source.find('{', at);
    if (brace == std::string::npos) return;
    source.insert(brace + 1, " " + text);
    at = brace;
  }
}

// Puts `text` before the closing brace, the first at the beginning of a line.
void at_end(std::string& source, const std::string& name, const std::string& text) {
  const std::string start = "void " + name + "(";
  for (std::size_t at = 0; (at = source.find(start, at)) != std::string::npos;) {
    const std::size_t brace = source.find("\n}", at);
    if (brace == std::string::npos) return;
    source.insert(brace + 1, text + "\n");
    at = brace + text.size();
  }
}

}  // namespace

const char* name(Delay delay) { return delay == Delay::kLateCopies ? "late copies" : "slow warps"; }

std::string delayed(const std::string& flat, Delay delay) {
  std::string source = flat;
  if (delay == Delay::kLateCopies) {
    for (const char* copy : {"void tma_load_2d", "void bulk_load"})
      at_begin(source, copy, "tenon_long_rest();");
    at_begin(source, "void mbarrier_init", "tenon_late_barrier(barrier);");
  } else {
    for (const char* wait : {"mbarrier_wait", "mbarrier_wait_cluster", "cp_async_wait",
                             "partial_wait", "cluster_wait"})
      at_end(source, wait, "tenon_rest();");
    const std::string barrier = "__syncthreads();", slow = "__syncthreads(), tenon_rest();";
    for (std::size_t at = 0; (at = source.find(barrier, at)) != std::string::npos;
         at += slow.size())
      source.replace(at, barrier.size(), slow);
    at_begin(source, "bool merge_parts", "tenon_late_share();");
    at_begin(source, "void publish", "tenon_late_rows(row);");
  }
  return kRest + source;
}

}  // namespace tenon::test
