#include "search/spelling.h"

#include <optional>
#include <unordered_map>
#include <utility>

namespace tenon::search {

namespace {

struct Hash {
  std::size_t operator()(const std::vector<std::int64_t>& words) const {
    std::uint64_t h = 1469598103934665603u;  // FNV-1a, a word at a time
    for (std::int64_t word : words) h = (h ^ static_cast<std::uint64_t>(word)) * 1099511628211u;
    return h ^ (h >> 32);
  }
};

}  // namespace

void merge_spellings(const Space& space, std::vector<KernelForm>& forms, PruneCounts& pruned) {
  if (forms.size() < 2) return;
  using Rank = std::pair<std::uint64_t, long>;
  std::vector<std::optional<Rank>> ranks(forms.size());
  auto rank = [&](std::size_t i) {
    if (ranks[i]) return *ranks[i];
    long foreign = 0;
    for (const BlockOp& op : forms[i].ops) foreign += !space.in_program(op.operation);
    ranks[i] = Rank(cost(space, forms[i]), foreign);
    return *ranks[i];
  };
  std::unordered_map<std::vector<std::int64_t>, std::size_t, Hash> best(forms.size());
  std::vector<char> kept(forms.size(), 0);
  for (std::size_t i = 0; i < forms.size(); ++i) {
    auto [it, fresh] = best.try_emplace(contents(forms[i]), i);
    kept[i] = fresh;
    if (fresh) continue;
    pruned.add(RuleId::kThread);
    const std::size_t other = it->second;
    if (rank(i) > rank(other) || (rank(i) == rank(other) && !(forms[i] < forms[other]))) continue;
    kept[other] = 0;
    kept[i] = 1;
    it->second = i;
  }
  std::size_t n = 0;
  for (std::size_t i = 0; i < forms.size(); ++i) {
    if (!kept[i]) continue;
    if (n != i) forms[n] = std::move(forms[i]);
    ++n;
  }
  forms.resize(n);
}

}  // namespace tenon::search
