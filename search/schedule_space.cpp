#include "search/schedule_space.h"

#include <algorithm>
#include <queue>
#include <set>

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

}  // namespace

std::vector<RankedSchedule> schedules(const ir::MuGraph& graph, const ir::Workload& workload,
                                      const ir::Target& target, std::size_t limit,
                                      std::string* why_empty) {
  std::vector<std::vector<Choice>> kernels;
  for (std::size_t i = 0; i < graph.kernels.size(); ++i) {
    ir::KernelView kernel = ir::view(graph, i);
    kernels.push_back(choices(kernel, workload, target));
    if (kernels.back().empty()) {
      if (why_empty) ir::families_for(kernel, workload, target, why_empty);
      return {};
    }
  }
  return cheapest(kernels, limit == 0 ? kMaxSchedules : limit);
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
