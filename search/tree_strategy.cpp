#include "search/tree_strategy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace tenon::search {

namespace {

// A path through the tree: µGraph, then for every kernel its family and the parameters that shape
// it, each one level. Schedules that share a path are one leaf's, in the order of estimate.
const char* const kLevels[] = {"tile_m", "cluster", "columns", "weights", "share",     "ping_pong",
                               "tile_n", "splits",  "stream",  "split_k", "statistics"};

std::vector<std::string> path_of(std::size_t graph, const ir::Schedule& schedule) {
  std::vector<std::string> path{std::to_string(graph)};
  for (const ir::KernelSchedule& kernel : schedule.kernels) {
    path.push_back(kernel.family);
    for (const char* level : kLevels) path.push_back(std::to_string(kernel.get(level, -1)));
  }
  return path;
}

struct Node {
  std::map<std::string, std::unique_ptr<Node>> children;
  std::vector<Proposal> untried;  // of a leaf, last is next
  std::size_t below = 0;          // untried in the whole subtree
  std::size_t visits = 0;
  double rewards = 0;
  double prior = 0;  // estimate of its cheapest schedule, µs
};

// UCT: a child's mean reward, and what it might yet hold. The reward of a schedule is the ratio of
// the best time so far to its own, so that it lies between 0 and 1 whatever the shape.
class Tree : public Strategy {
 public:
  explicit Tree(ScheduleSpace space) {
    root_.prior = std::numeric_limits<double>::infinity();
    for (std::size_t g = 0; g < space.ranked.size(); ++g) {
      // From the dearest, so that the cheapest is at each leaf's end.
      for (auto r = space.ranked[g].rbegin(); r != space.ranked[g].rend(); ++r)
        insert({g, r->schedule, r->estimated_us});
    }
  }

  std::optional<Proposal> next() override {
    if (root_.below == 0) return std::nullopt;
    Node* node = &root_;
    std::vector<Node*> trail{node};
    while (!node->children.empty()) {
      Node* chosen = nullptr;
      double most = -1;
      for (auto& [name, child] : node->children) {
        if (child->below == 0) continue;
        const double value = promise(*node, *child);
        if (value > most) {
          most = value;
          chosen = child.get();
        }
      }
      node = chosen;
      trail.push_back(node);
    }
    Proposal proposal = std::move(node->untried.back());
    node->untried.pop_back();
    // A visit counts from now on, so that proposals in flight spread over the tree.
    for (Node* n : trail) {
      --n->below;
      ++n->visits;
    }
    return proposal;
  }

  void observe(const Proposal& proposal, std::optional<double> us) override {
    if (!us || !(*us > 0)) return;
    best_us_ = std::min(best_us_, *us);
    const double reward = best_us_ / *us;
    Node* node = &root_;
    node->rewards += reward;
    for (const std::string& step : path_of(proposal.graph, proposal.schedule)) {
      auto it = node->children.find(step);
      if (it == node->children.end()) return;
      node = it->second.get();
      node->rewards += reward;
    }
  }

  std::size_t remaining() const override { return root_.below; }

 private:
  static constexpr double kExploration = 0.15;

  void insert(Proposal proposal) {
    Node* node = &root_;
    const double us = proposal.estimated_us;
    auto meet = [&](Node& n) {
      ++n.below;
      n.prior = n.below == 1 ? us : std::min(n.prior, us);
    };
    meet(*node);
    for (const std::string& step : path_of(proposal.graph, proposal.schedule)) {
      std::unique_ptr<Node>& child = node->children[step];
      if (!child) child = std::make_unique<Node>();
      node = child.get();
      meet(*node);
    }
    node->untried.push_back(std::move(proposal));
  }

  double promise(const Node& parent, const Node& child) const {
    // Before its first visit a child is worth what the cost model says of it.
    const double model = parent.prior / std::max(child.prior, 1e-9);
    const double mean = (child.rewards + model) / (static_cast<double>(child.visits) + 1);
    return mean + kExploration * std::sqrt(std::log(static_cast<double>(parent.visits) + 1) /
                                           (static_cast<double>(child.visits) + 1));
  }

  Node root_;
  double best_us_ = std::numeric_limits<double>::infinity();
};

}  // namespace

std::unique_ptr<Strategy> make_tree_strategy(ScheduleSpace space) {
  return std::make_unique<Tree>(std::move(space));
}

}  // namespace tenon::search
