#include "search/schedule_space.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <string_view>

#include "ir/error.h"
#include "search/cost_model.h"

namespace tenon::search {

namespace {

struct Choice {
  ir::KernelSchedule schedule;
  double us = 0;
};

// All legal schedules of one kernel over all families, cheapest first.
std::vector<Choice> choices(const ir::KernelView& kernel, const ir::Workload& workload,
                            const ir::Target& target) {
  std::vector<Choice> out;
  for (const ir::FamilySpec& family : ir::families())
    for (ir::KernelSchedule& s : ir::enumerate_schedules(kernel, family.name, workload, target)) {
      double us = kernel_cost(kernel, s, workload, target).total_us();
      out.push_back({std::move(s), us});
    }
  std::sort(out.begin(), out.end(), [](const Choice& a, const Choice& b) {
    return a.us != b.us ? a.us < b.us : a.schedule < b.schedule;
  });
  return out;
}

// The cheapest combinations of one choice a kernel, in order: a best-first walk of the lattice
// of index tuples, whose costs only grow away from (0, 0, …).
std::vector<RankedSchedule> cheapest(const std::vector<std::vector<Choice>>& kernels,
                                     std::size_t limit) {
  using Tuple = std::vector<std::size_t>;
  auto cost = [&](const Tuple& at) {
    double us = 0;
    for (std::size_t i = 0; i < at.size(); ++i) us += kernels[i][at[i]].us;
    return us;
  };
  using Entry = std::pair<double, Tuple>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  std::set<Tuple> seen;
  Tuple first(kernels.size(), 0);
  open.push({cost(first), first});
  seen.insert(first);
  std::vector<RankedSchedule> out;
  while (!open.empty() && out.size() < limit) {
    auto [us, at] = open.top();
    open.pop();
    RankedSchedule ranked;
    ranked.estimated_us = us;
    for (std::size_t i = 0; i < at.size(); ++i)
      ranked.schedule.kernels.push_back(kernels[i][at[i]].schedule);
    out.push_back(std::move(ranked));
    for (std::size_t i = 0; i < at.size(); ++i) {
      Tuple next = at;
      if (++next[i] < kernels[i].size() && seen.insert(next).second) open.push({cost(next), next});
    }
  }
  return out;
}

// Parameters that shape a kernel; schedules that agree in them differ in details only.
const char* const kShaping[] = {"tile_m",     "tile_n",    "splits",  "stream",    "split_k",
                                "rows",       "columns",   "cluster", "cluster_m", "share",
                                "statistics", "ping_pong", "weights", "warps",     "algorithm",
                                "group",      "consumers"};

// `limit` of `ranked` in which no outline comes again before every other has had its turn.
std::vector<RankedSchedule> spread(std::vector<RankedSchedule> ranked, std::size_t limit,
                                   const std::vector<bool>& weighs) {
  if (ranked.size() <= limit) return ranked;
  std::map<std::string, std::size_t> turns;
  std::vector<std::pair<std::size_t, std::size_t>> order;  // turn, index in `ranked`
  for (std::size_t i = 0; i < ranked.size(); ++i)
    order.emplace_back(turns[schedule_outline(ranked[i].schedule, weighs)]++, i);
  std::sort(order.begin(), order.end());
  order.resize(limit);
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<RankedSchedule> out;
  for (const auto& [turn, i] : order) out.push_back(std::move(ranked[i]));
  return out;
}

// How many of the cheapest `spread` looks at, for each that it returns.
constexpr std::size_t kSpread = 24;

}  // namespace

bool has_product(const ir::KernelView& kernel) {
  return kernel.library || !kernel.facts || !kernel.facts->products.empty();
}

std::string schedule_outline(const ir::Schedule& schedule, const std::vector<bool>& weighs) {
  std::string text;
  for (std::size_t i = 0; i < schedule.kernels.size(); ++i) {
    const ir::KernelSchedule& kernel = schedule.kernels[i];
    text += kernel.family + ";";
    if (!weighs[i]) continue;
    for (const char* name : kShaping)
      // "group" shapes rows kernels only; elsewhere it is an order of tiles.
      if (kernel.family == "rows" || std::string_view(name) != "group")
        text += std::to_string(kernel.get(name, -1)) + ",";
  }
  return text;
}

std::vector<RankedSchedule> schedules(const ir::MuGraph& graph, const ir::Workload& workload,
                                      const ir::Target& target, std::size_t limit,
                                      std::string* why_empty) {
  std::vector<std::vector<Choice>> kernels;
  std::vector<bool> weighs;
  for (std::size_t i = 0; i < graph.kernels.size(); ++i) {
    ir::KernelView kernel = ir::view(graph, i);
    weighs.push_back(has_product(kernel));
    kernels.push_back(choices(kernel, workload, target));
    if (kernels.back().empty()) {
      if (why_empty) ir::families_for(kernel, workload, target, why_empty);
      return {};
    }
  }
  if (std::find(weighs.begin(), weighs.end(), true) == weighs.end())
    weighs.assign(weighs.size(), true);
  if (limit == 0) return cheapest(kernels, kMaxSchedules);
  return spread(cheapest(kernels, limit * kSpread), limit, weighs);
}

double estimate_us(const ir::MuGraph& graph, const ir::Schedule& schedule,
                   const ir::Workload& workload, const ir::Target& target) {
  TENON_CHECK(schedule.kernels.size() == graph.kernels.size(), "one schedule for each kernel");
  double us = 0;
  for (std::size_t i = 0; i < graph.kernels.size(); ++i) {
    ir::KernelView kernel = ir::view(graph, i);
    if (auto reason = ir::illegal(kernel, schedule.kernels[i], workload, target))
      throw UserError("kernel " + kernel.name + ": " + *reason);
    us += kernel_cost(kernel, schedule.kernels[i], workload, target).total_us();
  }
  return us;
}

}  // namespace tenon::search
