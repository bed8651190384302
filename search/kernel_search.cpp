#include "search/kernel_search.h"

#include <algorithm>

#include "ir/error.h"
#include "search/kernel_cost.h"
#include "search/symmetry.h"

namespace tenon::search {

namespace {

// May the library read it? Two axes, stored in the workload's dtype.
bool library_operand(const Space& space, const ir::Program& program, ClassId c) {
  const Expression& e = space.at(c);
  if (e.axes.size() != 2) return false;
  if (e.input >= 0)
    return program.signature.inputs[static_cast<std::size_t>(e.input)].dtype == ir::DType::kElem;
  if (space.is_output(c)) {
    for (std::size_t o = 0; o < space.outputs().size(); ++o)
      if (space.outputs()[o] == c) return program.signature.outputs[o].dtype == ir::DType::kElem;
  }
  return space.is_prepared(c) || space.is_intermediate(c);
}

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
        numbers_(choices, exchanges) {
    std::vector<std::size_t> position = tensor_positions(space);
    for (ClassId c : space.classes())
      if (space.is_output(c)) outputs_.set(position[static_cast<std::size_t>(c)]);
    readers_.resize(kMaxTensors);
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const TensorSet& reads = choices_[i].reads;
      plain_.push_back(is_plain(space, choices_[i].kernel));
      if (reads.none()) sources_.push_back(i);
      for (std::size_t t = reads._Find_first(); t < kMaxTensors; t = reads._Find_next(t))
        readers_[t].push_back(i);
    }
  }

  // Graphs of one kernel first, then of two, and so on: the cheap ones bound the others' cost.
  KernelResult run() {
    for (depth_ = 1; depth_ <= bounds_.max_kernels; ++depth_) {
      result_.cut_by_kernels = false;
      extend({}, {}, {}, costs_.nothing());
    }
    drop_dear_graphs();
    return std::move(result_);
  }

 private:
  // `available`: written so far; `unread`: intermediates nothing has read yet; `computed`: by
  // any kernel so far.
  void extend(const TensorSet& available, const TensorSet& unread, const TensorSet& computed,
              const Cost& cost) {
    if (stop_() || result_.cut_by_graphs) return;
    ++result_.visited;
    if (unread.none() && (outputs_ & ~available).none()) {
      if (static_cast<int>(kernels_.size()) == depth_) finish(cost);
      return;
    }
    int left = depth_ - static_cast<int>(kernels_.size());
    if (left <= 0) {
      result_.cut_by_kernels = true;
      return;
    }
    // The last kernel reads all that is unread.
    if (left == 1 && unread.any()) {
      for (std::size_t i : readers_[unread._Find_first()])
        append(i, available, unread, computed, cost);
      if (!rules_.on(RuleId::kBounds) || depth_ == bounds_.max_kernels)
        result_.cut_by_kernels = true;
      return;
    }
    for (std::size_t i : sources_) append(i, available, unread, computed, cost);
    for (std::size_t t = available._Find_first(); t < kMaxTensors; t = available._Find_next(t))
      for (std::size_t i : readers_[t])
        if ((choices_[i].reads & available)._Find_first() == t)
          append(i, available, unread, computed, cost);
  }

  void append(std::size_t i, const TensorSet& available, const TensorSet& unread,
              const TensorSet& computed, const Cost& cost) {
    const Choice& next = choices_[i];
    int left = depth_ - static_cast<int>(kernels_.size());
    if ((next.reads & ~available).any() || (next.writes & available).any()) return;
    if (!kernels_.empty() && rules_.on(RuleId::kOrder)) {
      const Choice& previous = choices_[static_cast<std::size_t>(kernels_.back())];
      if ((next.reads & previous.writes).none() && static_cast<int>(i) < kernels_.back()) {
        result_.pruned.add(RuleId::kOrder);
        return;
      }
    }
    // A tensor in memory is not computed again by another kernel.
    bool twice = (next.computes & available).any() || (next.writes & computed).any();
    if (twice && rules_.on(RuleId::kEquivalence)) {
      result_.pruned.add(RuleId::kEquivalence);
      return;
    }
    TensorSet now_unread = (unread | (next.writes & ~outputs_)) & ~next.reads;
    bool unfinished = now_unread.any() || (outputs_ & ~available & ~next.writes).any();
    if (left == 1 && unfinished) {
      result_.cut_by_kernels = true;
      if (rules_.on(RuleId::kBounds)) {
        result_.pruned.add(RuleId::kBounds);
        return;
      }
    }
    Cost now = cost;
    now += costs_.of(static_cast<int>(i));
    if (rules_.on(RuleId::kCost) && is_dear(now, all_plain() && plain_[i])) {
      result_.pruned.add(RuleId::kCost);
      return;
    }
    kernels_.push_back(static_cast<int>(i));
    extend(available | next.writes, now_unread, computed | next.computes, now);
    kernels_.pop_back();
  }

  bool all_plain() const {
    return std::all_of(kernels_.begin(), kernels_.end(),
                       [&](int k) { return plain_[static_cast<std::size_t>(k)]; });
  }

  // Kernels only add cost, so a part of a graph that is dearer than a whole one is a dear graph's.
  // The unfused form, against which others are measured, competes only with its like.
  bool is_dear(const Cost& cost, bool plain) const {
    for (std::size_t g = 0; g < graph_costs_.size(); ++g)
      if ((!plain || graph_plain_[g]) && cheaper(graph_costs_[g], cost)) return true;
    return false;
  }

  void drop_dear_graphs() {
    if (!rules_.on(RuleId::kCost)) return;
    std::vector<std::vector<int>> kept;
    for (std::size_t i = 0; i < result_.graphs.size(); ++i) {
      const Cost& mine = graph_costs_[i];
      auto rank = [&](std::size_t g) {
        return std::tuple(!graph_plain_[g], graph_costs_[g].small, graph_costs_[g].foreign, g);
      };
      bool dear = is_dear(mine, graph_plain_[i]);
      for (std::size_t other = 0; other < result_.graphs.size() && !dear; ++other)
        dear = other != i && same_parts(graph_costs_[other], mine) && rank(other) < rank(i);
      if (dear)
        result_.pruned.add(RuleId::kCost);
      else
        kept.push_back(std::move(result_.graphs[i]));
    }
    result_.graphs = std::move(kept);
  }

  // Late form of the equivalence rule.
  bool computes_twice() const {
    TensorSet written;
    for (int k : kernels_) written |= choices_[static_cast<std::size_t>(k)].writes;
    for (int k : kernels_) {
      const Choice& c = choices_[static_cast<std::size_t>(k)];
      if ((c.computes & written & ~c.writes).any()) return true;
    }
    return false;
  }

  void finish(const Cost& cost) {
    if (computes_twice()) return;
    std::vector<const Choice*> graph;
    for (int k : kernels_) graph.push_back(&choices_[static_cast<std::size_t>(k)]);
    const bool plain = all_plain();
    if (!plain && rules_.on(RuleId::kInline) && has_inlinable_tensor(space_, graph, bounds_)) {
      result_.pruned.add(RuleId::kInline);
      return;
    }
    if (!plain && rules_.on(RuleId::kFuse) && has_fusible_kernels(space_, graph, bounds_)) {
      result_.pruned.add(RuleId::kFuse);
      return;
    }
    if (rules_.on(RuleId::kUniform) && !numbers_.uniform(kernels_)) {
      result_.pruned.add(RuleId::kUniform);
      return;
    }
    if (result_.graphs.size() >= bounds_.max_graphs) {
      result_.cut_by_graphs = true;
      return;
    }
    result_.graphs.push_back(kernels_);
    graph_costs_.push_back(cost);
    graph_plain_.push_back(plain);
  }

  const Space& space_;
  const std::vector<Choice>& choices_;
  const RuleSet& rules_;
  const KernelBounds& bounds_;
  const std::function<bool()>& stop_;
  CostTable costs_;
  KernelNumbers numbers_;
  TensorSet outputs_;
  std::vector<std::size_t> sources_;               // kernels that read no other's tensor
  std::vector<std::vector<std::size_t>> readers_;  // by tensor
  int depth_ = 0;
  std::vector<int> kernels_;
  std::vector<Cost> graph_costs_;  // of result_.graphs
  std::vector<bool> plain_;        // by choice
  std::vector<bool> graph_plain_;  // of result_.graphs: the unfused form
  KernelResult result_;
};

}  // namespace

bool is_plain(const Space& space, const KernelChoice& kernel) {
  auto prepared = [&](ClassId c) { return space.is_prepared(c); };
  if (kernel.library) return !prepared(kernel.library->a) && !prepared(kernel.library->b);
  const KernelForm& form = *kernel.form;
  for (const Load& load : form.loads)
    if (prepared(load.cls)) return false;
  int products = 0;
  for (const BlockOp& op : form.ops) products += op.operation.op == ir::OpKind::kMatmul;
  if (products == 0) return true;
  if (products > 1 || form.frame.split) return false;
  auto loaded = [&](int v) { return v < static_cast<int>(form.loads.size()); };
  for (const BlockOp& op : form.ops) {
    if (op.operation.op == ir::OpKind::kMatmul) {
      if (!loaded(op.a) || !loaded(op.b)) return false;
      continue;
    }
    if (ir::info(op.operation.op).op_class != ir::OpClass::kPointwise || op.b < 0) return false;
    // One operand is the result so far, the other a parameter.
    int other = loaded(op.a) ? op.a : op.b;
    if (!loaded(other) || !space.at(form.cls(other)).parameter_only) return false;
    if (loaded(op.a) && loaded(op.b)) return false;
  }
  return true;
}

std::vector<std::size_t> tensor_positions(const Space& space) {
  std::vector<std::size_t> position;
  std::size_t count = 0;
  for (ClassId c : space.classes()) {
    position.resize(static_cast<std::size_t>(c) + 1, kMaxTensors);
    if (!space.is_goal(c)) continue;
    if (count >= kMaxTensors)
      throw UserError("the program has more than 256 subexpressions that could be stored");
    position[static_cast<std::size_t>(c)] = count++;
  }
  return position;
}

std::vector<LibraryForm> library_forms(const Space& space, const ir::Program& program) {
  std::vector<LibraryForm> forms;
  for (const Way& way : space.ways()) {
    const Operation& o = way.operation;
    if (o.op != ir::OpKind::kMatmul || o.online || !space.is_goal(way.result)) continue;
    if (!library_operand(space, program, o.a) || !library_operand(space, program, o.b)) continue;
    if (!library_operand(space, program, way.result)) continue;
    // Rows of the result are rows of the first operand, contiguous along the summed dim.
    ir::DimId row = space.at(way.result).axes[0].dim;
    ClassId first = space.at(o.a).dims & bit(row) ? o.a : o.b;
    if (space.at(first).axes[0].dim != row) continue;
    forms.push_back({o.a, o.b, way.result, o.dim});
  }
  std::sort(forms.begin(), forms.end());
  return forms;
}

std::vector<Choice> choices(const Space& space, std::vector<KernelForm> forms,
                            const std::vector<LibraryForm>& libraries) {
  std::vector<std::size_t> position = tensor_positions(space);
  auto add = [&](TensorSet& set, ClassId c) {
    if (space.is_goal(c)) set.set(position[static_cast<std::size_t>(c)]);
  };
  std::sort(forms.begin(), forms.end());
  std::vector<Choice> out;
  for (KernelForm& form : forms) {
    Choice choice;
    for (const Load& load : form.loads) add(choice.reads, load.cls);
    for (const BlockOp& op : form.ops) add(choice.computes, op.cls);
    for (int v : form.stores) add(choice.writes, form.cls(v));
    choice.kernel.form = std::move(form);
    out.push_back(std::move(choice));
  }
  for (const LibraryForm& form : libraries) {
    Choice choice;
    add(choice.reads, form.a);
    add(choice.reads, form.b);
    add(choice.writes, form.out);
    choice.computes = choice.writes;
    choice.kernel.library = form;
    out.push_back(std::move(choice));
  }
  return out;
}

KernelResult kernel_graphs(const Space& space, const std::vector<Choice>& choices,
                           const RuleSet& rules, const KernelBounds& bounds,
                           const std::vector<Exchange>& exchanges,
                           const std::function<bool()>& stop) {
  return KernelWalk(space, choices, rules, bounds, exchanges, stop).run();
}

}  // namespace tenon::search
