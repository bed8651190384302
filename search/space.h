// What the search may combine: the classes that can occur in an expression equal to the
// program, the operators between them, the tensors a kernel can load and what it may store.
#pragma once

#include <map>
#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "search/expression.h"
#include "search/ruleset.h"

namespace tenon::search {

// One operator on a pair of classes (b = kNoClass for one operand) and the class it makes.
struct Way {
  Operation operation;
  ClassId result = kNoClass;
  bool admitted = false;  // occurs in some expression equal to the program
};

// What a reduction about a running mean makes of `x`: its mean along a dim, the sum of its squared
// deviations, or the product of its deviations with `other`.
struct Online {
  enum Kind : std::uint8_t { kMean, kSquares, kProduct } kind = kMean;
  Operation operation;  // sum(x) or matmul(x, other), marked online
  ClassId x = kNoClass;
  ClassId other = kNoClass;
  ClassId result = kNoClass;
};

// All that the operators of the vocabulary make of two classes.
struct PairWays {
  std::vector<Way> ways;
  std::uint32_t foreign = 0;  // how many of the vocabulary's make nothing that is admitted
};

class Space {
 public:
  // `table` is saturated; it grows further only where the expression rule is off.
  Space(ExpressionTable& table, const RuleSet& rules);

  const Expression& at(ClassId c) const;
  bool is_reachable(ClassId c) const {
    return c >= 0 && c < static_cast<ClassId>(reachable_.size()) &&
           reachable_[static_cast<std::size_t>(c)];
  }
  const std::vector<ClassId>& classes() const { return classes_; }  // reachable, ascending
  const std::vector<Way>& ways() const { return ways_; }            // admitted
  // Safe to call from several threads.
  const PairWays& between(ClassId a, ClassId b);
  // Reductions about a running mean; their operations are among the ways too.
  const std::vector<Online>& online() const { return online_; }
  const Online& online(const Operation& operation, ClassId result) const;
  ClassId class_count() const { return static_cast<ClassId>(reachable_.size()); }
  // The class of a value of the program's graph.
  ClassId program_class(ir::ValueId v) const {
    return table_.program_values()[static_cast<std::size_t>(v)];
  }
  Operation normal(Operation operation) const {
    table_.normalize(operation);
    return operation;
  }
  // Does the program itself spell it so? (Among equals the search keeps the program's own.)
  bool in_program(const Operation& operation) const { return table_.in_program(operation); }

  // Program outputs, one entry per output of the signature.
  const std::vector<ClassId>& outputs() const { return table_.outputs(); }
  bool is_output(ClassId c) const { return is_output_[static_cast<std::size_t>(c)]; }
  // May it be stored between kernels?
  bool is_intermediate(ClassId c) const { return is_intermediate_[static_cast<std::size_t>(c)]; }
  bool is_goal(ClassId c) const { return is_reachable(c) && (is_output(c) || is_intermediate(c)); }
  // Made by the prepare graph, where loaded: of parameters only, not itself an input.
  bool is_prepared(ClassId c) const { return is_prepared_[static_cast<std::size_t>(c)]; }
  // Dims over which some admitted operator reduces.
  DimSet reduced_dims() const { return reduced_dims_; }
  std::uint64_t cut_intermediates() const { return cut_intermediates_; }

 private:
  void choose_vocabulary();
  void complete();
  void find_online();
  void add_online(Online::Kind kind, ClassId x, ClassId other, ir::DimId dim, ClassId result);
  void choose_tensors(const RuleSet& rules);
  bool spread(ClassId c) const;
  bool spread_anew(ClassId c) const;
  // What spread() said, by class; classes are entered before their operands are asked for, as not
  // spread, so that sums of sums cost no more than their classes.
  mutable std::map<ClassId, bool> spread_;
  bool descends(ClassId from, ClassId to) const;
  void compute_descendants();
  std::unique_ptr<PairWays> compute(ClassId a, ClassId b, bool create);
  void consider(PairWays& out, const Operation& operation, bool create);

  std::size_t place(ClassId a, ClassId b) const {
    return static_cast<std::size_t>(a) * (reachable_.size() + 1) + static_cast<std::size_t>(b + 1);
  }

  ExpressionTable& table_;
  bool closed_;  // only admitted operators are wanted: the table does not grow
  std::vector<bool> reachable_;
  std::vector<ClassId> classes_;
  std::vector<Way> ways_;
  std::vector<Online> online_;
  std::vector<ir::OpKind> unary_, binary_;
  std::vector<ir::DimId> sum_dims_, product_dims_;
  std::vector<DimSet> broadcast_dims_;
  std::vector<std::vector<bool>> descendants_;
  std::vector<bool> is_output_, is_intermediate_, is_prepared_;
  DimSet reduced_dims_ = 0;
  std::uint64_t cut_intermediates_ = 0;
  std::vector<std::unique_ptr<PairWays>> known_;  // closed: by class and second class (or none)
  std::unordered_map<std::uint64_t, std::unique_ptr<PairWays>> pairs_;  // not closed
  mutable std::shared_mutex mutex_;
};

}  // namespace tenon::search
