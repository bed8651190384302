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
// and tiles apart, but not schedules that differ in details by a few percent. Places to look
// around are told apart by what shapes them (schedule_outline): of those that differ in details
// only, the fastest stands for all, or a search would spend itself on ties.
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
    if (!us || !(*us > 0)) return;
    const std::vector<Kernel>& kernels = kernels_of(proposal.graph);
    std::vector<bool> weighs;
    for (const Kernel& kernel : kernels) weighs.push_back(has_product(kernel.view));
    Place& place =
        places_[std::to_string(proposal.graph) + ":" + schedule_outline(proposal.schedule, weighs)];
    if (place.us == 0 || *us < place.us) {
      place.us = *us;
      place.fastest = proposal;
    }
    best_us_ = best_us_ == 0 ? *us : std::min(best_us_, *us);
  }

  std::size_t remaining() const override { return estimates_.remaining() + queue_.size(); }

 private:
  // Slower ones than this are not a place to look around.
  static constexpr double kNear = 1.15;
  // A place is looked around again when its fastest has become faster by this part.
  static constexpr double kGain = 0.005;

  struct Place {
    double us = 0, expanded_us = 0;  // of its fastest, and of the one it was last looked around at
    Proposal fastest;
  };

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

  // Puts in the queue the neighbours of the fastest place that was not looked around yet.
  bool expand_next() {
    Place* best = nullptr;
    for (auto& [outline, place] : places_) {
      const bool known = place.expanded_us > 0 && !(place.us < (1 - kGain) * place.expanded_us);
      if (known || place.us > kNear * best_us_) continue;
      if (!best || place.us < best->us) best = &place;
    }
    if (!best) return false;
    best->expanded_us = best->us;
    expand(best->fastest);
    return true;
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
  std::map<std::string, Place> places_;
  double best_us_ = 0;
  std::set<Key> tried_;
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
