// The pruning rules and why each is sound.
#include <fmt/format.h>

#include "ir/error.h"
#include "search/ruleset.h"

namespace tenon::search {

const std::vector<Rule>& rules() {
  static const std::vector<Rule> table = {
      {"order",
       "Exact. Operators are appended in increasing order of (later operand, earlier operand, "
       "operator), kernels that do not read their predecessor in increasing order. Every DAG has "
       "exactly one such order, the one that always takes the smallest operator that is ready: an "
       "operator made ready by the newest value names that value, so it exceeds all before it. "
       "Only repetitions of a graph are removed.",
       true},
      {"equivalence",
       "Exact. A value that equals one already in the kernel, by its values at random points of "
       "two prime fields, with the same maps, adds nothing that the other could not do; nor does "
       "computing a tensor that another kernel of the graph stores. A finished graph with two "
       "equal values is not a member of the space, so only extensions of graphs that would be "
       "refused at the end are removed. Fused and unfused forms differ in kernels or maps and both "
       "stay.",
       true},
      {"expression",
       "Exact, relative to the algebra. A value stays only if, cut as the kernel cuts it, it can "
       "go on to a storable value by operators between classes that occur in some expression equal "
       "to the program: the closure of the program under the laws of search/rewrite.h, completed "
       "by every operator of the vocabulary that makes one such class of others at the random "
       "points. What it removes contains a value that no expression in the closure contains.",
       true},
      {"maps",
       "Exact. Operators whose tiles do not fit are refused at once: whole and cut axes of one dim "
       "do not meet, a value of the loop does not meet an accumulated one, a block's share of a "
       "dim is not reduced unless the dim is a split of the loop. A finished µGraph with such an "
       "operator fails ir::validate or computes a partial sum.",
       true},
      {"bounds",
       "Exact. An operator takes at most two values and makes one, so it lowers the number of "
       "unused values by one at most; a value is at least its distance in operators away from "
       "something storable. A kernel that needs more operators than are left, or a kernel graph "
       "that needs more kernels, cannot be finished within the bound.",
       true},
      {"ends",
       "Exact, where the expression and order rules are on. Two values that nothing uses yet must "
       "flow to one store or to two that a kernel may hold together. In the first case their paths "
       "join in an operator of two operands, one reached from each: neither can be made from the "
       "other, since both are there already. If the closure has no such operator and no such pair "
       "of stores, no finished kernel contains both. Likewise a value that later operators can "
       "only "
       "combine with loads or literals must be used by the next operators or never, because the "
       "canonical order has passed those operators.",
       true},
      {"goal",
       "Exact, where all rules above are on (if one is off, so is this). Kernels are made from a "
       "set of stores back to loads: the highest value still needed is loaded, or made by one of "
       "the operators of the closure. Every value of a kernel that can be finished leads to one of "
       "its stores, so each such kernel is met, once: its values are resolved in one order. What "
       "is not met are partial kernels with a value that no store needs.",
       true},
      {"thread",
       "Dominance. Kernels with the same cut, loads, operands of reductions and products, and "
       "stores differ only in how pointwise values in between are spelled. They are one thread "
       "graph up to equal results; the one with the least work is kept, on a tie the program's own "
       "spelling.",
       false},
      {"hoist",
       "Dominance. A kernel that reduces what parameters alone make does at every run what prepare "
       "does once: the kernel that loads the prepared result reads less and computes less.",
       false},
      {"grid",
       "Dominance. If every stored value has a dim that the kernel neither reduces nor shares out, "
       "the kernel that does share it out contains this one as the case of one block along it.",
       false},
      {"loop",
       "Dominance. A kernel that reduces a whole dim, no value after the reduction having the dim, "
       "is the kernel that loops over the dim in the case of one step.",
       false},
      {"cut",
       "Dominance. A value that only ever goes on, by operators of one operand or with a constant, "
       "to a value of the same axes is not stored: storing the latter moves as much and leaves "
       "less "
       "to each reader. Nor is one that pointwise operators make of values with fewer axes: those "
       "are less to move. Of parameters, what only parameters join is not prepared, but its "
       "result.",
       false},
      {"inline",
       "Dominance. A kernel of pointwise operators only, whose readers are custom kernels, writes "
       "and reads back what its readers compute from its inputs at no extra traffic.",
       false},
      {"fuse",
       "Dominance. A kernel that reads a tensor with the maps with which the kernel before wrote "
       "it, and is its only reader, can be joined with it: the tensor stays in the block, and one "
       "launch, one write and one read go.",
       false},
      {"cost",
       "Dominance. Costs are counted by part (search/kernel_cost.h): launches, tensors moved by "
       "their dims, operators by kind, the dims they run over and whether blocks repeat them, "
       "serial and split reductions, waiting phases, cancelling differences, prepared tensors. A "
       "kernel graph is dropped if another one is in no part dearer and in some part cheaper: for "
       "every weighting of the parts by positive numbers, so on every device and at every extent "
       "for which the parts add up, the other costs less, and the cheapest is always kept. Of "
       "equals the one with less work on vectors, then the program's own spelling, stays. A part "
       "of a graph costs no more than the whole, so a part that is dearer than a finished graph "
       "is dropped with all that would follow.",
       false},
      {"uniform",
       "Dominance, for costs that add up over kernels and products of equal extents. Where an "
       "exchange of two outputs leaves the program as it is (three products of one X), a kernel "
       "graph that treats them differently costs the mean of the two that treat both alike, so one "
       "of those is no dearer. At different extents the argument holds up to how the better kernel "
       "changes with the extent.",
       false},
  };
  return table;
}

RuleSet::RuleSet(const std::vector<std::string>& off) {
  on_.fill(true);
  for (const std::string& name : off) {
    bool known = false;
    for (std::size_t i = 0; i < rules().size(); ++i)
      if (rules()[i].name == name) {
        on_[i] = false;
        known = true;
      }
    if (!known) {
      std::string names;
      for (const Rule& rule : rules()) names += (names.empty() ? "" : ", ") + rule.name;
      throw UserError("rule", name, names);
    }
  }
}

}  // namespace tenon::search
