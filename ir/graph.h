// A DAG of operators over values with named axes: the body of a program, a prepare
// graph, the operators of a block graph, and the expressions of an accumulator.
//
// Values are numbered; inputs come first, every node's operands precede it. Nodes
// are only made through the factories below, which infer axes and reject malformed
// ones with UserError, so that a Graph that exists is well-formed.
#pragma once

#include <string>
#include <vector>

#include "ir/dim.h"
#include "ir/dtype.h"
#include "ir/op.h"

namespace tenon::ir {

using ValueId = std::int32_t;
inline constexpr ValueId kNoValue = -1;

struct Node {
  OpKind op = OpKind::kConst;
  ValueId a = kNoValue;
  ValueId b = kNoValue;
  DimId dim = 0;                  // kSum, kMatmul: the dim that is summed
  DType dtype = DType::kF32;      // kCast: the type rounded to
  Constant constant;              // kConst
  std::int16_t accumulator = -1;  // kAccumulated: index into the block graph's accumulators …
  std::int16_t result = 0;        // … and which of its results
  Axes axes;                      // of the result; inferred (kBroadcast: given)
};

struct GraphInput {
  std::string name;
  Axes axes;
};

class Graph {
 public:
  // All inputs must be added before the first node.
  ValueId input(std::string name, Axes axes);

  ValueId constant(Constant c);
  // Pointwise, arity 1 and 2. With two operands the axes of one must contain all
  // axes of the other (a constant has none); the result has the larger one's axes.
  ValueId unary(OpKind op, ValueId a);
  ValueId binary(OpKind op, ValueId a, ValueId b);
  ValueId sum(ValueId a, DimId dim);
  // Result axes: those of `a` without `dim`, then those of `b` that `a` lacks. Axes
  // other than `dim` that both have are batch axes.
  ValueId matmul(ValueId a, ValueId b, DimId dim);
  // `axes` must contain all axes of `a`, in any order.
  ValueId broadcast(ValueId a, Axes axes);
  ValueId cast(ValueId a, DType dtype);
  // Block graphs only: result `result` of accumulator `accumulator` with the given axes.
  ValueId accumulated(int accumulator, int result, Axes axes);
  // Appends a copy of `node` (operands already valid here) through the checked factories.
  ValueId append(const Node& node);

  const std::vector<GraphInput>& inputs() const { return inputs_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  int value_count() const { return static_cast<int>(inputs_.size() + nodes_.size()); }
  bool is_input(ValueId v) const { return v < static_cast<ValueId>(inputs_.size()); }
  const Axes& axes(ValueId v) const;
  // The node that defines `v`; `v` must not be an input.
  const Node& node(ValueId v) const { return nodes_[static_cast<std::size_t>(v) - inputs_.size()]; }

  friend bool operator==(const Graph&, const Graph&) = default;

 private:
  void check_value(ValueId v) const;
  ValueId push(Node node);

  std::vector<GraphInput> inputs_;
  std::vector<Node> nodes_;
};

bool operator==(const Node& a, const Node& b);
bool operator==(const GraphInput& a, const GraphInput& b);

}  // namespace tenon::ir
