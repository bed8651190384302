// Kernel graphs, kernel by kernel: first all of one kernel, then of two, and so on.
//
// What begins with one kernel is one branch. Branches run in parallel and know of one another only
// what earlier waves found, so that what each visits does not depend on the number of threads.
#include <tbb/parallel_for.h>

#include <algorithm>
#include <map>

#include "search/kernel_cost.h"
#include "search/parallel.h"
#include "search/symmetry.h"

namespace tenon::search {

namespace {

// Branches that know nothing of one another.
constexpr std::size_t kWave = 64;

// Finished kernel graphs with their costs, and what bounds the costs of those to come. The unfused
// form, against which others are measured, competes only with its like.
struct Found {
  KernelResult result;
  std::vector<Cost> costs;  // of result.graphs
  std::vector<char> plain;  // of result.graphs: the unfused form
  CostFront front, plain_front;

  void add(std::vector<int> graph, const Cost& cost, bool is_plain) {
    result.graphs.push_back(std::move(graph));
    costs.push_back(cost);
    plain.push_back(is_plain);
    front.add(cost);
    if (is_plain) plain_front.add(cost);
  }
  bool beats(const Cost& cost, bool is_plain) const {
    return (is_plain ? plain_front : front).beats(cost);
  }
};

class KernelWalk {
 public:
  KernelWalk(const Space& space, const std::vector<Choice>& choices, const RuleSet& rules,
             const KernelBounds& bounds, const std::vector<Exchange>& exchanges,
             const std::function<bool()>& stop)
      : space_(space),
        choices_(choices),
        rules_(rules),
        bounds_(bounds),
        stop_(stop),
        costs_(space, choices),
        numbers_(choices, exchanges),
        position_(tensor_positions(space)),
        readers_(kMaxTensors),
        writers_(kMaxTensors),
        plain_(choices.size()) {
    for (ClassId c : space.classes())
      if (space.is_output(c)) outputs_.set(position_[static_cast<std::size_t>(c)]);
    tbb::parallel_for(std::size_t{0}, choices_.size(),
                      [&](std::size_t i) { plain_[i] = is_plain(space, choices_[i].kernel); });
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      sets_.push_back({choices_[i].reads, choices_[i].writes, choices_[i].computes});
      const TensorSet& reads = choices_[i].reads;
      if (reads.none()) sources_.push_back(i);
      for (std::size_t t = reads._Find_first(); t < kMaxTensors; t = reads._Find_next(t))
        readers_[t].push_back(i);
      const TensorSet& writes = choices_[i].writes;
      for (std::size_t t = writes._Find_first(); t < kMaxTensors; t = writes._Find_next(t))
        writers_[t].push_back(i);
    }
    find_least_costs();
  }

  KernelResult run() {
    for (int depth = 1; depth <= bounds_.max_kernels; ++depth) {
      found_.result.cut_by_kernels = false;
      ++found_.result.visited;
      for (std::size_t from = 0; from < sources_.size() && !found_.result.cut_by_graphs;
           from += kWave)
        run_wave(depth, from, std::min(sources_.size(), from + kWave));
    }
    drop_dear_graphs();
    return std::move(found_.result);
  }

 private:
  class Branch;
  // Of a choice, by themselves: they are looked at far more often than all else of it.
  struct Sets {
    TensorSet reads, writes, computes;
  };

  void run_wave(int depth, std::size_t from, std::size_t to);

  // What writing a tensor, or reading it, costs at least.
  void find_least_costs() {
    writing_.assign(kMaxTensors, costs_.nothing());
    reading_ = writing_;
    std::vector<char> written(kMaxTensors, 0), read = written;
    auto lower = [&](std::vector<Cost>& least, std::vector<char>& known, const TensorSet& set,
                     const Cost& cost) {
      for (std::size_t t = set._Find_first(); t < kMaxTensors; t = set._Find_next(t)) {
        if (!known[t]) least[t] = cost;
        known[t] = 1;
        for (std::size_t i = 0; i < cost.parts.size(); ++i)
          least[t].parts[i] = std::min(least[t].parts[i], cost.parts[i]);
      }
    };
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      lower(writing_, written, choices_[i].writes, costs_.of(i));
      lower(reading_, read, choices_[i].reads, costs_.of(i));
    }
  }

  void drop_dear_graphs() {
    if (!rules_.on(RuleId::kCost)) return;
    std::vector<std::vector<int>>& graphs = found_.result.graphs;
    // Of equals the first by its kernels, in whatever order the graphs were met.
    auto rank = [&](std::size_t g) {
      return std::tuple(!found_.plain[g], found_.costs[g].small, found_.costs[g].foreign,
                        graphs[g].size(), graphs[g]);
    };
    std::map<std::vector<std::int16_t>, std::size_t> best;  // of equals
    for (std::size_t g = 0; g < graphs.size(); ++g) {
      auto [it, fresh] = best.try_emplace(found_.costs[g].parts, g);
      if (!fresh && rank(g) < rank(it->second)) it->second = g;
    }
    std::vector<std::vector<int>> kept;
    for (std::size_t g = 0; g < graphs.size(); ++g) {
      if (found_.beats(found_.costs[g], found_.plain[g]) || best.at(found_.costs[g].parts) != g)
        found_.result.pruned.add(RuleId::kCost);
      else
        kept.push_back(std::move(graphs[g]));
    }
    graphs = std::move(kept);
  }

  const Space& space_;
  const std::vector<Choice>& choices_;
  const RuleSet& rules_;
  const KernelBounds& bounds_;
  const std::function<bool()>& stop_;
  std::vector<Sets> sets_;  // by choice
  CostTable costs_;
  KernelNumbers numbers_;
  std::vector<std::size_t> position_;
  TensorSet outputs_;
  std::vector<std::size_t> sources_;               // kernels that read no other's tensor
  std::vector<std::vector<std::size_t>> readers_;  // by tensor
  std::vector<std::vector<std::size_t>> writers_;  // by tensor
  std::vector<char> plain_;                        // by choice
  std::vector<Cost> writing_, reading_;            // by tensor
  Found found_;                                    // by the waves that have ended
};

// Graphs of `depth` kernels that begin with one kernel.
class KernelWalk::Branch {
 public:
  Branch(const KernelWalk& walk, int depth)
      : w_(walk),
        depth_(depth),
        costs_(static_cast<std::size_t>(depth) + 2, walk.costs_.nothing()) {}

  Found run(std::size_t first) {
    append(first, {}, {}, {});
    return std::move(found_);
  }

 private:
  // `available`: written so far; `unread`: intermediates nothing has read yet; `computed`: by
  // any kernel so far.
  void extend(const TensorSet& available, const TensorSet& unread, const TensorSet& computed) {
    if (w_.stop_() || found_.result.cut_by_graphs) return;
    ++found_.result.visited;
    if (unread.none() && (w_.outputs_ & ~available).none()) {
      if (left() == 0) finish();
      return;
    }
    if (left() <= 0) {
      found_.result.cut_by_kernels = true;
      return;
    }
    if (left() == 1 && append_last(available, unread, computed)) return;
    // A source does not read its predecessor: in order it comes after it.
    auto source = w_.sources_.begin();
    if (w_.rules_.on(RuleId::kOrder))
      source =
          std::upper_bound(source, w_.sources_.end(), static_cast<std::size_t>(kernels_.back()));
    for (; source != w_.sources_.end(); ++source) append(*source, available, unread, computed);
    for (std::size_t t = available._Find_first(); t < kMaxTensors; t = available._Find_next(t))
      for (std::size_t i : w_.readers_[t])
        if ((w_.sets_[i].reads & available)._Find_first() == t)
          append(i, available, unread, computed);
  }

  // The last kernel reads all that is unread and writes all that is unwritten: of the kernels that
  // do so with one tensor only few remain.
  bool append_last(const TensorSet& available, const TensorSet& unread, const TensorSet& computed) {
    const bool bounds = w_.rules_.on(RuleId::kBounds);
    if (!bounds && unread.none()) return false;
    const std::vector<std::size_t>* kernels = nullptr;
    auto choose = [&](const std::vector<std::size_t>& these) {
      if (!kernels || these.size() < kernels->size()) kernels = &these;
    };
    for (std::size_t t = unread._Find_first(); t < kMaxTensors; t = unread._Find_next(t))
      choose(w_.readers_[t]);
    const TensorSet unwritten = w_.outputs_ & ~available;
    if (bounds)
      for (std::size_t t = unwritten._Find_first(); t < kMaxTensors; t = unwritten._Find_next(t))
        choose(w_.writers_[t]);
    for (std::size_t i : *kernels) append(i, available, unread, computed);
    if (!bounds || depth_ == w_.bounds_.max_kernels) found_.result.cut_by_kernels = true;
    return true;
  }

  void append(std::size_t i, const TensorSet& available, const TensorSet& unread,
              const TensorSet& computed) {
    const Sets& next = w_.sets_[i];
    PruneCounts& pruned = found_.result.pruned;
    if ((next.reads & ~available).any() || (next.writes & available).any()) return;
    if (!kernels_.empty() && w_.rules_.on(RuleId::kOrder)) {
      const Sets& previous = w_.sets_[static_cast<std::size_t>(kernels_.back())];
      if ((next.reads & previous.writes).none() && static_cast<int>(i) < kernels_.back()) {
        pruned.add(RuleId::kOrder);
        return;
      }
    }
    // A tensor in memory is not computed again by another kernel.
    bool twice = (next.computes & available).any() || (next.writes & computed).any();
    if (twice && w_.rules_.on(RuleId::kEquivalence)) {
      pruned.add(RuleId::kEquivalence);
      return;
    }
    const TensorSet now_unread = (unread | (next.writes & ~w_.outputs_)) & ~next.reads;
    const TensorSet unwritten = w_.outputs_ & ~available & ~next.writes;
    if (left() == 1 && (now_unread.any() || unwritten.any())) {
      found_.result.cut_by_kernels = true;
      if (w_.rules_.on(RuleId::kBounds)) {
        pruned.add(RuleId::kBounds);
        return;
      }
    }
    const std::size_t n = kernels_.size() + 1;
    costs_[n] = costs_[n - 1];
    costs_[n] += w_.costs_.of(i);
    if (w_.rules_.on(RuleId::kCost) &&
        is_dear(costs_[n], now_unread, unwritten, all_plain() && w_.plain_[i])) {
      pruned.add(RuleId::kCost);
      return;
    }
    kernels_.push_back(static_cast<int>(i));
    extend(available | next.writes, now_unread, computed | next.computes);
    kernels_.pop_back();
  }

  int left() const { return depth_ - static_cast<int>(kernels_.size()); }

  bool all_plain() const {
    return std::all_of(kernels_.begin(), kernels_.end(),
                       [&](int k) { return w_.plain_[static_cast<std::size_t>(k)]; });
  }

  // Kernels only add cost, so a part of a graph that is dearer than a whole one is a dear graph's;
  // so is one that is dearer with what writes an output, or reads a tensor, that is left to do.
  bool is_dear(const Cost& cost, const TensorSet& unread, const TensorSet& unwritten, bool plain) {
    auto dear = [&](const Cost& c) { return w_.found_.beats(c, plain) || found_.beats(c, plain); };
    if (unread.none() && unwritten.none()) return dear(cost);
    Cost& least = costs_.back();
    least = cost;
    auto need = [&](const std::vector<Cost>& costs, const TensorSet& set) {
      for (std::size_t t = set._Find_first(); t < kMaxTensors; t = set._Find_next(t))
        for (std::size_t p = 0; p < cost.parts.size(); ++p)
          least.parts[p] = std::max(least.parts[p],
                                    static_cast<std::int16_t>(cost.parts[p] + costs[t].parts[p]));
    };
    need(w_.writing_, unwritten);
    need(w_.reading_, unread);
    least.sum = 0;
    for (std::int16_t part : least.parts) least.sum += part;
    return dear(least);
  }

  // Late form of the equivalence rule.
  bool computes_twice() const {
    TensorSet written;
    for (int k : kernels_) written |= w_.choices_[static_cast<std::size_t>(k)].writes;
    return std::any_of(kernels_.begin(), kernels_.end(), [&](int k) {
      const Choice& c = w_.choices_[static_cast<std::size_t>(k)];
      return (c.computes & written & ~c.writes).any();
    });
  }

  void finish() {
    if (computes_twice()) return;
    std::vector<const Choice*> graph;
    for (int k : kernels_) graph.push_back(&w_.choices_[static_cast<std::size_t>(k)]);
    const bool plain = all_plain();
    PruneCounts& pruned = found_.result.pruned;
    if (!plain && w_.rules_.on(RuleId::kInline) &&
        has_inlinable_tensor(w_.space_, w_.position_, graph, w_.bounds_)) {
      pruned.add(RuleId::kInline);
      return;
    }
    if (!plain && w_.rules_.on(RuleId::kFuse) &&
        has_fusible_kernels(w_.space_, graph, w_.bounds_)) {
      pruned.add(RuleId::kFuse);
      return;
    }
    if (w_.rules_.on(RuleId::kUniform) && !w_.numbers_.uniform(kernels_)) {
      pruned.add(RuleId::kUniform);
      return;
    }
    if (w_.found_.result.graphs.size() + found_.result.graphs.size() >= w_.bounds_.max_graphs) {
      found_.result.cut_by_graphs = true;
      return;
    }
    found_.add(kernels_, costs_[kernels_.size()], plain);
  }

  const KernelWalk& w_;
  const int depth_;
  std::vector<int> kernels_;
  std::vector<Cost> costs_;  // of the first n kernels; the last is for is_dear
  Found found_;
};

void KernelWalk::run_wave(int depth, std::size_t from, std::size_t to) {
  std::vector<Found> found(to - from);
  in_turn(found.size(),
          [&](std::size_t b) { found[b] = Branch(*this, depth).run(sources_[from + b]); });
  KernelResult& all = found_.result;
  for (Found& branch : found) {
    all.visited += branch.result.visited;
    all.pruned += branch.result.pruned;
    all.cut_by_kernels = all.cut_by_kernels || branch.result.cut_by_kernels;
    all.cut_by_graphs = all.cut_by_graphs || branch.result.cut_by_graphs;
    for (std::size_t g = 0; g < branch.result.graphs.size(); ++g) {
      if (all.graphs.size() >= bounds_.max_graphs) {
        all.cut_by_graphs = true;
        break;
      }
      found_.add(std::move(branch.result.graphs[g]), branch.costs[g], branch.plain[g]);
    }
  }
}

}  // namespace

KernelResult kernel_graphs(const Space& space, const std::vector<Choice>& choices,
                           const RuleSet& rules, const KernelBounds& bounds,
                           const std::vector<Exchange>& exchanges,
                           const std::function<bool()>& stop) {
  return KernelWalk(space, choices, rules, bounds, exchanges, stop).run();
}

}  // namespace tenon::search
