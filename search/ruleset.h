// The pruning rules, by name: which are on.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "search/search.h"

namespace tenon::search {

enum class RuleId : std::size_t {
  // Exact: the set of final µGraphs is the same without them.
  kOrder,
  kEquivalence,
  kExpression,
  kMaps,
  kBounds,
  kEnds,
  kGoal,
  // Dominance: each drops µGraphs for which one that is no dearer is kept.
  kThread,
  kHoist,
  kGrid,
  kLoop,
  kCut,
  kInline,
  kFuse,
  kCost,
  kUniform,
  kCount,
};
inline constexpr std::size_t kRuleCount = static_cast<std::size_t>(RuleId::kCount);

class RuleSet {
 public:
  // Throws UserError for a name that is no rule's.
  explicit RuleSet(const std::vector<std::string>& off);
  bool on(RuleId rule) const { return on_[static_cast<std::size_t>(rule)]; }

 private:
  std::array<bool, kRuleCount> on_{};
};

// How often each rule pruned; one per worker, summed at the end.
struct PruneCounts {
  std::array<std::uint64_t, kRuleCount> by_rule{};
  void add(RuleId rule, std::uint64_t n = 1) { by_rule[static_cast<std::size_t>(rule)] += n; }
  void operator+=(const PruneCounts& other) {
    for (std::size_t i = 0; i < kRuleCount; ++i) by_rule[i] += other.by_rule[i];
  }
};

}  // namespace tenon::search
