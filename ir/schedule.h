// A schedule binds extents and resources of a µGraph's kernels, never meaning.
//
// Per kernel it names the lowering family and its integer parameters; which families
// exist, what their parameters mean and which values are legal is codegen/'s (for CUDA)
// and runtime/host's (for the host) business, and search/schedule_space enumerates them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tenon::ir {

struct KernelSchedule {
  std::string family;  // "rows", "contraction", "small_m", "gemm", "library", "host" …
  std::map<std::string, std::int64_t> params;  // "tile_m", "stages", …
  std::int64_t get(const std::string& name, std::int64_t fallback) const {
    auto it = params.find(name);
    return it == params.end() ? fallback : it->second;
  }
  friend bool operator==(const KernelSchedule&, const KernelSchedule&) = default;
  friend auto operator<=>(const KernelSchedule&, const KernelSchedule&) = default;
};

struct Schedule {
  std::vector<KernelSchedule> kernels;  // one per kernel of the µGraph, in order
  bool dependent_launch = false;        // programmatic dependent launch between launches
  friend bool operator==(const Schedule&, const Schedule&) = default;
  friend auto operator<=>(const Schedule&, const Schedule&) = default;
};

// "rows(threads=256); contraction(stages=3, tile_k=64, tile_m=64, tile_n=64) dependent".
// parse(print(s)) == s. Throws UserError.
std::string print(const Schedule& schedule);
Schedule parse_schedule(const std::string& text);
std::string identity(const Schedule& schedule);

}  // namespace tenon::ir
