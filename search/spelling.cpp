#include "search/spelling.h"

#include <map>
#include <utility>

namespace tenon::search {

void merge_spellings(const Space& space, std::vector<KernelForm>& forms, PruneCounts& pruned) {
  if (forms.size() < 2) return;
  auto rank = [&](const KernelForm& form) {
    long foreign = 0;
    for (const BlockOp& op : form.ops) foreign += !space.in_program(op.operation);
    return std::pair(cost(space, form), foreign);
  };
  std::map<std::vector<std::int64_t>, std::size_t> best;
  for (std::size_t i = 0; i < forms.size(); ++i) {
    auto [it, fresh] = best.try_emplace(contents(forms[i]), i);
    if (fresh) continue;
    pruned.add(RuleId::kThread);
    auto mine = rank(forms[i]);
    auto theirs = rank(forms[it->second]);
    if (mine < theirs || (mine == theirs && forms[i] < forms[it->second])) it->second = i;
  }
  if (best.size() == forms.size()) return;
  std::vector<KernelForm> kept;
  kept.reserve(best.size());
  for (const auto& [content, i] : best) kept.push_back(std::move(forms[i]));
  forms = std::move(kept);
}

}  // namespace tenon::search
