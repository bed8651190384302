#include "search/kernel_search.h"

#include <algorithm>

#include "ir/error.h"

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
             const KernelBounds& bounds, const std::function<bool()>& stop)
      : space_(space), choices_(choices), rules_(rules), bounds_(bounds), stop_(stop) {
    std::vector<std::size_t> position = tensor_positions(space);
    for (ClassId c : space.classes())
      if (space.is_output(c)) outputs_.set(position[static_cast<std::size_t>(c)]);
  }

  KernelResult run() {
    extend({}, {}, {});
    return std::move(result_);
  }

 private:
  // `available`: written so far; `unread`: intermediates nothing has read yet; `computed`: by
  // any kernel so far.
  void extend(const TensorSet& available, const TensorSet& unread, const TensorSet& computed) {
    if (stop_() || result_.cut_by_graphs) return;
    ++result_.visited;
    if (unread.none() && (outputs_ & ~available).none()) {
      finish();
      return;
    }
    int left = bounds_.max_kernels - static_cast<int>(kernels_.size());
    if (left <= 0) {
      result_.cut_by_kernels = true;
      return;
    }
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const Choice& next = choices_[i];
      if ((next.reads & ~available).any() || (next.writes & available).any()) continue;
      if (!kernels_.empty() && rules_.on(RuleId::kOrder)) {
        const Choice& previous = choices_[static_cast<std::size_t>(kernels_.back())];
        if ((next.reads & previous.writes).none() && static_cast<int>(i) < kernels_.back()) {
          result_.pruned.add(RuleId::kOrder);
          continue;
        }
      }
      // A tensor in memory is not computed again by another kernel.
      bool twice = (next.computes & available).any() || (next.writes & computed).any();
      if (twice && rules_.on(RuleId::kEquivalence)) {
        result_.pruned.add(RuleId::kEquivalence);
        continue;
      }
      TensorSet now_unread = (unread | (next.writes & ~outputs_)) & ~next.reads;
      if (left == 1 && (now_unread.any() || (outputs_ & ~available & ~next.writes).any())) {
        result_.cut_by_kernels = true;
        if (rules_.on(RuleId::kBounds)) {
          result_.pruned.add(RuleId::kBounds);
          continue;
        }
      }
      kernels_.push_back(static_cast<int>(i));
      extend(available | next.writes, now_unread, computed | next.computes);
      kernels_.pop_back();
    }
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

  void finish() {
    if (computes_twice()) return;
    std::vector<const Choice*> graph;
    for (int k : kernels_) graph.push_back(&choices_[static_cast<std::size_t>(k)]);
    if (rules_.on(RuleId::kInline) && has_inlinable_tensor(space_, graph, bounds_)) {
      result_.pruned.add(RuleId::kInline);
      return;
    }
    if (rules_.on(RuleId::kFuse) && has_fusible_kernels(space_, graph, bounds_)) {
      result_.pruned.add(RuleId::kFuse);
      return;
    }
    if (result_.graphs.size() >= bounds_.max_graphs) {
      result_.cut_by_graphs = true;
      return;
    }
    result_.graphs.push_back(kernels_);
  }

  const Space& space_;
  const std::vector<Choice>& choices_;
  const RuleSet& rules_;
  const KernelBounds& bounds_;
  const std::function<bool()>& stop_;
  TensorSet outputs_;
  std::vector<int> kernels_;
  KernelResult result_;
};

}  // namespace

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
    if (o.op != ir::OpKind::kMatmul || !space.is_goal(way.result)) continue;
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
                           const std::function<bool()>& stop) {
  return KernelWalk(space, choices, rules, bounds, stop).run();
}

}  // namespace tenon::search
