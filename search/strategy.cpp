#include "search/strategy.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>

#include "ir/error.h"
#include "search/neighbours.h"
#include "search/tree_strategy.h"

namespace tenon::search {

namespace {

// One schedule of every µGraph whose estimate is not hopeless first, so that no form worth it goes
// untried; then all others by estimate.
class EstimateOrder : public Strategy {
 public:
  explicit EstimateOrder(const ScheduleSpace& space) {
    double best = std::numeric_limits<double>::infinity();
    for (const auto& ranked : space.ranked)
      for (const RankedSchedule& r : ranked) best = std::min(best, r.estimated_us);
    auto turn = [&](std::size_t graph, std::size_t rank) {
      if (rank > 0) return kLater;
      if (graph < space.first.size() && space.first[graph]) return kFirst;
      return space.ranked[graph][0].estimated_us <= kHopeless * best ? kRound : kLater;
    };
    for (std::size_t g = 0; g < space.ranked.size(); ++g)
      for (std::size_t i = 0; i < space.ranked[g].size(); ++i)
        order_.push_back(
            {turn(g, i), {g, space.ranked[g][i].schedule, space.ranked[g][i].estimated_us}});
    std::stable_sort(order_.begin(), order_.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.turn, a.proposal.estimated_us) <
             std::pair(b.turn, b.proposal.estimated_us);
    });
  }
  std::optional<Proposal> next() override {
    if (at_ == order_.size()) return std::nullopt;
    return order_[at_++].proposal;
  }
  void observe(const Proposal&, std::optional<double>) override {}
  std::size_t remaining() const override { return order_.size() - at_; }
  bool first_round() const { return at_ < order_.size() && order_[at_].turn != kLater; }

 private:
  // The model is off by far less than this.
  static constexpr double kHopeless = 2.5;
  enum Turn { kFirst, kRound, kLater };
  struct Entry {
    Turn turn;
    Proposal proposal;
  };
  std::vector<Entry> order_;
  std::size_t at_ = 0;
};

// The estimates' order, and beside it what surrounds the fastest measured: the model tells forms
// and tiles apart, but not schedules that differ in details by a few percent.
class Neighbours : public Strategy {
 public:
  explicit Neighbours(ScheduleSpace space) : space_(std::move(space)), estimates_(space_) {}

  std::optional<Proposal> next() override {
    // One by estimate for every three near the best: what the model misjudged has its turn.
    const bool by_estimate = estimates_.first_round() || turn_++ % 4 == 3;
    if (!by_estimate)
      if (auto found = near()) return found;
    while (auto found = estimates_.next())
      if (tried_.insert({found->graph, found->schedule}).second) return found;
    return near();
  }

  void observe(const Proposal& proposal, std::optional<double> us) override {
    if (us) measured_.emplace(*us, proposal);
  }

  std::size_t remaining() const override { return estimates_.remaining() + queue_.size(); }

 private:
  // Slower ones than this are not a place to look around.
  static constexpr double kNear = 1.15;
  // Parents that are expanded before the next best are asked for again.
  static constexpr std::size_t kParents = 8;

  std::optional<Proposal> near() {
    for (;;) {
      while (!queue_.empty()) {
        Proposal proposal = std::move(queue_.front());
        queue_.pop_front();
        if (tried_.insert({proposal.graph, proposal.schedule}).second) return proposal;
      }
      if (!expand_next()) return std::nullopt;
    }
  }

  // Puts the neighbours of the best that was not expanded yet in the queue.
  bool expand_next() {
    std::size_t rank = 0;
    for (const auto& [us, proposal] : measured_) {
      if (rank++ == kParents || us > measured_.begin()->first * kNear) return false;
      if (!expanded_.insert({proposal.graph, proposal.schedule}).second) continue;
      expand(proposal);
      return true;
    }
    return false;
  }

  void expand(const Proposal& parent) {
    std::vector<Kernel>& kernels = kernels_of(parent.graph);
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const ir::KernelSchedule& old = parent.schedule.kernels[i];
      for (ir::KernelSchedule& changed :
           neighbours(kernels[i].view, old, space_of(kernels[i], old.family), *space_.workload,
                      *space_.target)) {
        Proposal next = parent;
        next.schedule.kernels[i] = std::move(changed);
        next.estimated_us = estimate_us(*space_.graphs[next.graph], next.schedule, *space_.workload,
                                        *space_.target);
        queue_.push_back(std::move(next));
      }
    }
  }

  struct Kernel {
    ir::KernelView view;
    std::map<std::string, std::vector<ir::KernelSchedule>> spaces;  // by family
  };
  std::vector<Kernel>& kernels_of(std::size_t graph) {
    auto [it, fresh] = kernels_.try_emplace(graph);
    if (fresh)
      for (std::size_t k = 0; k < space_.graphs[graph]->kernels.size(); ++k)
        it->second.push_back({ir::view(*space_.graphs[graph], k), {}});
    return it->second;
  }
  const std::vector<ir::KernelSchedule>& space_of(Kernel& kernel, const std::string& family) {
    auto [it, fresh] = kernel.spaces.try_emplace(family);
    if (fresh)
      it->second = ir::enumerate_schedules(kernel.view, family, *space_.workload, *space_.target);
    return it->second;
  }

  using Key = std::pair<std::size_t, ir::Schedule>;
  ScheduleSpace space_;
  EstimateOrder estimates_;
  std::multimap<double, Proposal> measured_;
  std::set<Key> tried_, expanded_;
  std::deque<Proposal> queue_;
  std::map<std::size_t, std::vector<Kernel>> kernels_;
  std::size_t turn_ = 0;
};

}  // namespace

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names = {"neighbours", "estimate", "tree", "exhaustive"};
  return names;
}

std::unique_ptr<Strategy> make_strategy(const std::string& name, ScheduleSpace space) {
  if (name == "neighbours") return std::make_unique<Neighbours>(std::move(space));
  // Exhaustive is the same order over a space without a limit, and without a budget.
  if (name == "estimate" || name == "exhaustive") return std::make_unique<EstimateOrder>(space);
  if (name == "tree") return make_tree_strategy(std::move(space));
  std::string accepted;
  for (const std::string& n : strategy_names()) accepted += (accepted.empty() ? "" : ", ") + n;
  throw UserError("--strategy", name, accepted);
}

}  // namespace tenon::search
