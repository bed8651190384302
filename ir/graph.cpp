#include "ir/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"

namespace tenon::ir {

namespace {

void check_distinct(const Axes& axes, const std::string& what) {
  for (std::size_t i = 0; i < axes.size(); ++i)
    for (std::size_t j = i + 1; j < axes.size(); ++j)
      if (axes[i].dim == axes[j].dim)
        throw UserError(fmt::format(
            "{} has the same dim on two axes; the dims of a value must be distinct", what));
}

// Where `axes` has `axis`; throws when it has the dim under another tiling.
bool contains(const Axes& axes, const Axis& axis) {
  int i = find_dim(axes, axis.dim);
  if (i < 0) return false;
  if (axes[static_cast<std::size_t>(i)].part != axis.part)
    throw UserError("operands tile a dim differently; tile it alike or reduce it first");
  return true;
}

bool contains_all(const Axes& axes, const Axes& other) {
  bool all = true;
  for (const Axis& axis : other) all = contains(axes, axis) && all;
  return all;
}

Axes without(const Axes& axes, DimId dim) {
  Axes rest;
  for (const Axis& axis : axes)
    if (axis.dim != dim) rest.push_back(axis);
  return rest;
}

}  // namespace

ValueId Graph::input(std::string name, Axes axes) {
  TENON_CHECK(nodes_.empty(), "inputs come before nodes");
  check_distinct(axes, "input " + name);
  inputs_.push_back({std::move(name), std::move(axes)});
  return static_cast<ValueId>(inputs_.size()) - 1;
}

const Axes& Graph::axes(ValueId v) const {
  check_value(v);
  return is_input(v) ? inputs_[static_cast<std::size_t>(v)].axes : node(v).axes;
}

void Graph::check_value(ValueId v) const {
  TENON_CHECK(v >= 0 && v < value_count(), fmt::format("value {} of {}", v, value_count()));
}

ValueId Graph::push(Node node) {
  nodes_.push_back(std::move(node));
  return value_count() - 1;
}

ValueId Graph::constant(Constant c) {
  Node node;
  node.op = OpKind::kConst;
  node.constant = std::move(c);
  return push(std::move(node));
}

ValueId Graph::unary(OpKind op, ValueId a) {
  const OpInfo& row = info(op);
  if (row.op_class != OpClass::kPointwise || row.arity != 1)
    throw UserError("operator", std::string(row.name), "a pointwise operator of one operand");
  Node node;
  node.op = op;
  node.a = a;
  node.axes = axes(a);
  return push(std::move(node));
}

ValueId Graph::binary(OpKind op, ValueId a, ValueId b) {
  const OpInfo& row = info(op);
  if (row.op_class != OpClass::kPointwise || row.arity != 2)
    throw UserError("operator", std::string(row.name), "a pointwise operator of two operands");
  const Axes& axes_a = axes(a);
  const Axes& axes_b = axes(b);
  Node node;
  node.op = op;
  node.a = a;
  node.b = b;
  if (contains_all(axes_a, axes_b))
    node.axes = axes_a;
  else if (contains_all(axes_b, axes_a))
    node.axes = axes_b;
  else
    throw UserError(fmt::format(
        "operands of {} each have an axis that the other lacks; broadcast one first", row.name));
  return push(std::move(node));
}

ValueId Graph::sum(ValueId a, DimId dim) {
  if (find_dim(axes(a), dim) < 0)
    throw UserError("sum is over a dim that its operand does not have");
  Node node;
  node.op = OpKind::kSum;
  node.a = a;
  node.dim = dim;
  node.axes = without(axes(a), dim);
  return push(std::move(node));
}

ValueId Graph::matmul(ValueId a, ValueId b, DimId dim) {
  const Axes& axes_a = axes(a);
  const Axes& axes_b = axes(b);
  int in_a = find_dim(axes_a, dim);
  int in_b = find_dim(axes_b, dim);
  if (in_a < 0 || in_b < 0)
    throw UserError("matmul is over a dim that one of its operands does not have");
  Node node;
  node.op = OpKind::kMatmul;
  node.a = a;
  node.b = b;
  node.dim = dim;
  node.axes = without(axes_a, dim);
  for (const Axis& axis : axes_b)
    if (!contains(axes_a, axis) && axis.dim != dim) node.axes.push_back(axis);
  return push(std::move(node));
}

ValueId Graph::broadcast(ValueId a, Axes axes) {
  check_distinct(axes, "broadcast");
  if (!contains_all(axes, this->axes(a)))
    throw UserError("broadcast must keep every axis of its operand");
  Node node;
  node.op = OpKind::kBroadcast;
  node.a = a;
  node.axes = std::move(axes);
  return push(std::move(node));
}

ValueId Graph::cast(ValueId a, DType dtype) {
  Node node;
  node.op = OpKind::kCast;
  node.a = a;
  node.dtype = dtype;
  node.axes = axes(a);
  return push(std::move(node));
}

ValueId Graph::accumulated(int accumulator, int result, Axes axes) {
  check_distinct(axes, "accumulator result");
  Node node;
  node.op = OpKind::kAccumulated;
  node.accumulator = static_cast<std::int16_t>(accumulator);
  node.result = static_cast<std::int16_t>(result);
  node.axes = std::move(axes);
  return push(std::move(node));
}

ValueId Graph::append(const Node& node) {
  switch (node.op) {
    case OpKind::kConst:
      return constant(node.constant);
    case OpKind::kSum:
      return sum(node.a, node.dim);
    case OpKind::kMatmul:
      return matmul(node.a, node.b, node.dim);
    case OpKind::kBroadcast:
      return broadcast(node.a, node.axes);
    case OpKind::kCast:
      return cast(node.a, node.dtype);
    case OpKind::kAccumulated:
      return accumulated(node.accumulator, node.result, node.axes);
    default:
      break;
  }
  return info(node.op).arity == 1 ? unary(node.op, node.a) : binary(node.op, node.a, node.b);
}

bool operator==(const GraphInput& a, const GraphInput& b) {
  return a.name == b.name && a.axes == b.axes;
}

// Fields that an operator does not have are ignored.
bool operator==(const Node& a, const Node& b) {
  if (a.op != b.op || a.a != b.a || a.b != b.b || a.axes != b.axes) return false;
  switch (a.op) {
    case OpKind::kConst:
      return a.constant == b.constant;
    case OpKind::kSum:
    case OpKind::kMatmul:
      return a.dim == b.dim;
    case OpKind::kCast:
      return a.dtype == b.dtype;
    case OpKind::kAccumulated:
      return a.accumulator == b.accumulator && a.result == b.result;
    default:
      return true;
  }
}

}  // namespace tenon::ir
