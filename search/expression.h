// Expressions over whole tensors, up to equality in the reals: classes of equal values, each
// with the operators that make it out of other classes.
//
// Values are told apart by what they are at random points (search/sample.h), so that equal
// expressions fall into one class however they are written. Casts are not operators here: the
// search works on the algebraic skeleton and search/lower.h puts the rounding back.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "ir/program.h"
#include "search/sample.h"

namespace tenon::search {

using ClassId = int;
inline constexpr ClassId kNoClass = -1;
using DimSet = std::uint64_t;

inline DimSet bit(ir::DimId dim) { return DimSet{1} << dim; }
DimSet dims_of(const ir::Axes& axes);

// One operator over classes, in its normal spelling: operands of commutative operators and of
// products are ordered by class; a square is not spelled as mul(a, a), nor a sum of products
// (one operand's axes all in the other's) as a matmul.
struct Operation {
  ir::OpKind op = ir::OpKind::kConst;
  ClassId a = kNoClass;
  ClassId b = kNoClass;
  ir::DimId dim = 0;  // kSum, kMatmul
  DimSet dims = 0;    // kBroadcast: of the result
  // A reduction of deviations from the mean of an operand, gathered about a running mean
  // (ir/online_accumulator.h). Only block graphs have it; see Space::online.
  bool online = false;
  friend auto operator<=>(const Operation&, const Operation&) = default;
};

struct Expression {
  ir::Axes axes;  // all kFull, in storage order
  DimSet dims = 0;
  bool parameter_only = false;           // depends on no activation; constants too
  bool is_constant = false;              // depends on no input
  std::optional<ir::Constant> constant;  // a literal
  int input = -1;                        // index in the signature
  std::vector<FieldValues> points;       // one per sample
  std::vector<Operation> ways;           // operators that make it, in the order of their finding
};

class ExpressionTable {
 public:
  ExpressionTable(const ir::Program& program, const std::vector<Sample>& samples);

  int size() const { return static_cast<int>(classes_.size()); }
  const Expression& operator[](ClassId id) const { return classes_[static_cast<std::size_t>(id)]; }
  const std::vector<ClassId>& outputs() const { return outputs_; }
  // The class of each value of the program's graph.
  const std::vector<ClassId>& program_values() const { return program_values_; }
  // Whether the program itself spells this operator.
  bool in_program(const Operation& operation) const;

  ClassId constant(const ir::Constant& c);
  // The class that `operation` makes, created if new; the operation becomes one of its ways.
  // kNoClass where shapes forbid it, it is not in normal spelling, or it is undefined.
  ClassId make(const Operation& operation);
  // The same without creating anything: kNoClass also where no such class exists.
  ClassId find(const Operation& operation) const;
  // Shape rules and normal spelling alone; says the axes of the result.
  std::optional<ir::Axes> result_axes(const Operation& operation) const;
  // Records that `operation` makes class `id`.
  void add_way(ClassId id, const Operation& operation);
  void normalize(Operation& operation) const;

 private:
  std::optional<std::vector<FieldValues>> evaluate(const Operation& operation) const;
  ClassId lookup(const std::vector<FieldValues>& points) const;
  ClassId insert(Expression expression);
  ClassId fold(const Operation& operation);
  Operation oriented(const Operation& given) const;

  const std::vector<Sample>& samples_;
  std::deque<Expression> classes_;  // references stay valid as it grows
  std::multimap<std::uint64_t, ClassId> by_hash_;
  std::map<Operation, ClassId> made_;
  std::vector<ClassId> outputs_;
  std::vector<ClassId> program_values_;
  std::map<Operation, bool> program_operations_;
};

// A graph of the one operator over operands of the given classes; its last value is the result.
ir::Graph one_node(const Operation& operation, const ir::Axes& a, const ir::Axes* b);

}  // namespace tenon::search
