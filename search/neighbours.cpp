#include "search/neighbours.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "ir/hopper_family.h"

namespace tenon::search {

namespace {

using ir::KernelSchedule;
using Values = std::vector<std::int64_t>;
using Patch = std::map<std::string, std::int64_t>;

// Values worth trying that enumeration leaves at one choice, or at a few.
const std::map<std::string, std::map<std::string, Values>>& known_values() {
  static const std::map<std::string, std::map<std::string, Values>> all = {
      {"small_m",
       {{"columns", {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024}},
        {"unit", {32, 64, 96, 128, 192, 256}},
        {"stages", {1, 2, 3, 4, 5, 6, 8, 10, 12}},
        {"cluster", {1, 2, 4, 8}},
        {"epilogue_warps", {1, 2, 4, 8}},
        {"partials", {1, 2, 3}},
        {"chains", {1, 2}},
        {"blocks_per_sm", {1, 2, 3}},
        {"early", {0, 1, 2, 3, 4, 6}},
        {"weights", {0, 1, 2, 3}},
        {"interleaved", {0, 1}},
        {"staged", {0, 1}},
        {"stats_first", {0, 1}},
        {"evict_first", {0, 1}}}},
      {"multicast",
       {{"tile_n", {16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 112, 128, 160, 192}},
        {"stages", {4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {"share", {1, 2, 4, 8}},
        {"early", {0, 1, 2, 4, 6, 8, 10}},
        {"evict_first", {0, 1}}}},
      {"gemm",
       {{"tile_n", {16,  24,  32,  40,  48,  56,  64,  72,  80,  88,  96,  104, 112, 120, 128, 136,
                    144, 152, 160, 168, 176, 184, 192, 200, 208, 216, 224, 232, 240, 248, 256}},
        {"stages", {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
        {"cluster_m", {1, 2}},
        {"cluster_n", {1, 2}},
        {"split_k", {2, 3, 4}},
        {"raster", {0, 1}},
        {"group", {1, 2, 4, 8, 11, 16, 32}},
        {"hint_x", {0, 1, 2}},
        {"hint_w", {0, 1, 2}},
        {"hint_y", {0, 1}},
        {"producer_registers", {40, 48, 56}},
        {"statistics", {2, 3, 4, 5}},
        {"slices", {4, 8, 12, 16, 32}},
        {"rotate", {0, 1, 2}},
        {"row_slots", {3, 6, 8}},
        {"promotion", {128, 256}},
        {"late_trigger", {0, 1}},
        {"stores", {0, 1}}}}};
  return all;
}

// Two values on either side of the current one.
Values beside(Values values, std::int64_t current) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  const auto below = std::lower_bound(values.begin(), values.end(), current);
  const auto above = std::upper_bound(values.begin(), values.end(), current);
  Values out(below - std::min<std::ptrdiff_t>(2, below - values.begin()), below);
  out.insert(out.end(), above, above + std::min<std::ptrdiff_t>(2, values.end() - above));
  return out;
}

// Parameters that follow from others after one of them has changed.
void follow(KernelSchedule& s, const std::string& changed, const ir::KernelView& kernel,
            const ir::Workload& workload) {
  if (s.family == "small_m" &&
      (changed == "columns" || changed == "cluster" || changed == "unit" || changed == "weights")) {
    auto form = ir::streamed_product(*kernel.facts, workload);
    if (!form) return;
    const std::int64_t columns = s.get("columns", 0), unit = s.get("unit", 1),
                       cluster = s.get("cluster", 1);
    if (columns < 1 || unit < 1) return;
    s.params["warps"] = (form->k + cluster * columns - 1) / (cluster * columns);
    const bool registers = s.get("weights", 0) == 2;
    // Room for staged X behind the early units, at least.
    const std::int64_t slot = std::max<std::int64_t>(1, unit * 16 / s.get("rows", 16));
    const std::int64_t least =
        s.get("staged", 1) ? s.get("early", 2) + (columns + slot - 1) / slot : 2;
    s.params["stages"] =
        registers ? columns / unit : std::max({std::int64_t{2}, 3 * columns / unit / 2, least});
    if (registers) s.params["staged"] = 0;
  }
  if (s.family == "gemm") {
    s.params["stages"] = 12;
    if (changed == "statistics" && s.get("statistics", 0) == 2) s.params["row_slots"] = 6;
    // Warps that read sums back need more registers than those that only start copies, and spill
    // with less.
    if (changed == "statistics" || changed == "tile_m" || changed == "consumers") {
      const std::int64_t source = s.get("statistics", 0);
      s.params["producer_registers"] = source == 3                  ? 56
                                       : source != 2                ? 40
                                       : s.get("ping_pong", 0) != 0 ? 48
                                                                    : 56;
    }
  }
  if (s.family == "multicast" && changed != "stages" && changed != "early") s.params["stages"] = 16;
}

// The schedule as it stands, or with the deepest ring that is legal.
std::optional<KernelSchedule> legal(KernelSchedule s, const ir::KernelView& kernel,
                                    const ir::Workload& workload, const ir::Target& target,
                                    bool ring_follows) {
  for (;;) {
    KernelSchedule candidate = ir::canonical_hopper(s);
    if (!ir::illegal(kernel, candidate, workload, target)) return candidate;
    auto stages = s.params.find("stages");
    if (!ring_follows || stages == s.params.end() || stages->second <= 1) return std::nullopt;
    --stages->second;
  }
}

// Changes of tile height carry the warpgroups that work on it.
std::vector<Patch> tile_shapes(const KernelSchedule& schedule) {
  std::vector<Patch> out;
  const ir::GemmParams p = ir::gemm_params(schedule);
  struct Shape {
    int tile_m, consumers, ping_pong;
  };
  for (const Shape& s : {Shape{64, 1, 0}, Shape{128, 1, 0}, Shape{128, 2, 0}, Shape{128, 2, 1},
                         Shape{192, 3, 0}, Shape{256, 2, 0}})
    if (s.tile_m != p.tile_m || s.consumers != p.consumers || s.ping_pong != p.ping_pong)
      out.push_back({{"tile_m", s.tile_m}, {"consumers", s.consumers}, {"ping_pong", s.ping_pong}});
  return out;
}

}  // namespace

std::vector<KernelSchedule> neighbours(const ir::KernelView& kernel, const KernelSchedule& schedule,
                                       const std::vector<KernelSchedule>& space,
                                       const ir::Workload& workload, const ir::Target& target) {
  std::map<std::string, Values> domain;
  auto known = known_values().find(schedule.family);
  if (known != known_values().end()) {
    domain = known->second;
  } else {
    for (const KernelSchedule& s : space)
      if (s.family == schedule.family)
        for (const auto& [name, value] : s.params) domain[name].push_back(value);
  }
  const KernelSchedule whole = ir::complete_hopper(schedule);
  std::vector<Patch> patches;
  for (const auto& [name, values] : domain)
    for (std::int64_t value : beside(values, whole.get(name, 0)))
      patches.push_back({{name, value}});
  if (schedule.family == "gemm")
    for (Patch& patch : tile_shapes(schedule)) patches.push_back(std::move(patch));

  const KernelSchedule self = ir::canonical_hopper(schedule);
  std::set<KernelSchedule> seen{self};
  std::vector<KernelSchedule> out;
  for (const Patch& patch : patches) {
    const std::string& changed = patch.begin()->first;
    KernelSchedule next = schedule;
    for (const auto& [name, value] : patch) next.params[name] = value;
    const bool ring_follows = ir::is_hopper_family(schedule.family) && changed != "stages";
    if (ring_follows) follow(next, changed, kernel, workload);
    if (auto found = legal(std::move(next), kernel, workload, target, ring_follows))
      if (seen.insert(*found).second) out.push_back(std::move(*found));
  }
  return out;
}

}  // namespace tenon::search
