#include "search/expression.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/evaluate.h"

namespace tenon::search {

namespace {

// The data of a value with its axes in the order of their dims.
std::vector<std::uint32_t> sorted_data(const FieldValues& v) {
  ir::Axes sorted = v.axes;
  std::sort(sorted.begin(), sorted.end());
  if (sorted == v.axes) return v.data;
  std::vector<std::int64_t> extents;
  for (const ir::Axis& axis : sorted)
    extents.push_back(v.extents[static_cast<std::size_t>(ir::find_dim(v.axes, axis.dim))]);
  std::vector<std::int64_t> strides = ir::detail::strides_along(v.axes, v.extents, sorted);
  std::vector<std::uint32_t> data;
  for (ir::detail::Odometer at(extents); !at.done(); at.next())
    data.push_back(v.data[static_cast<std::size_t>(ir::detail::dot(strides, at.index()))]);
  return data;
}

std::uint64_t hash_points(const std::vector<FieldValues>& points) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  auto mix = [&](std::uint64_t x) {
    h ^= x + 0x9e3779b97f4a7c15ULL;
    h *= 0xbf58476d1ce4e5b9ULL;
    h ^= h >> 29;
  };
  for (const FieldValues& v : points) {
    mix(dims_of(v.axes));
    for (std::uint32_t x : sorted_data(v)) mix(x);
  }
  return h;
}

bool same_points(const std::vector<FieldValues>& a, const std::vector<FieldValues>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (dims_of(a[i].axes) != dims_of(b[i].axes) || sorted_data(a[i]) != sorted_data(b[i]))
      return false;
  return true;
}

// Axes in the order of the operand that has all of them.
std::optional<ir::Axes> nested_axes(const Expression& a, const Expression& b) {
  if ((a.dims | b.dims) == a.dims) return a.axes;
  if ((a.dims | b.dims) == b.dims) return b.axes;
  return std::nullopt;
}

std::optional<ir::Axes> product_axes(const Expression& a, const Expression& b, ir::DimId dim) {
  if (!(a.dims & b.dims & bit(dim))) return std::nullopt;
  // An operand with no axis of its own makes a sum of pointwise products, spelled as such.
  if (!(a.dims & ~b.dims) || !(b.dims & ~a.dims)) return std::nullopt;
  ir::Axes axes;
  for (const ir::Axis& axis : a.axes)
    if (axis.dim != dim) axes.push_back(axis);
  for (const ir::Axis& axis : b.axes)
    if (!(a.dims & bit(axis.dim))) axes.push_back(axis);
  return axes;
}

}  // namespace

DimSet dims_of(const ir::Axes& axes) {
  DimSet dims = 0;
  for (const ir::Axis& axis : axes) dims |= bit(axis.dim);
  return dims;
}

ir::Graph one_node(const Operation& operation, const ir::Axes& a, const ir::Axes* b) {
  ir::Graph graph;
  ir::ValueId va = graph.input("a", a);
  ir::ValueId vb = b ? graph.input("b", *b) : ir::kNoValue;
  switch (ir::info(operation.op).op_class) {
    case ir::OpClass::kReduction:
      graph.sum(va, operation.dim);
      break;
    case ir::OpClass::kProduct:
      graph.matmul(va, vb, operation.dim);
      break;
    case ir::OpClass::kShape: {
      ir::Axes axes;
      for (ir::DimId d = 0; d < 64; ++d)
        if (operation.dims & bit(d)) axes.push_back({d, ir::kFull});
      graph.broadcast(va, axes);
      break;
    }
    default:
      if (b)
        graph.binary(operation.op, va, vb);
      else
        graph.unary(operation.op, va);
  }
  return graph;
}

ExpressionTable::ExpressionTable(const ir::Program& program, const std::vector<Sample>& samples)
    : samples_(samples) {
  const ir::Graph& graph = program.graph;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    Expression e;
    e.axes = graph.inputs()[i].axes;
    e.dims = dims_of(e.axes);
    e.parameter_only = program.signature.inputs[i].role == ir::Role::kParameter;
    e.input = static_cast<int>(i);
    for (const Sample& s : samples_) e.points.push_back(s.inputs[i]);
    program_values_.push_back(insert(std::move(e)));
  }
  for (const ir::Node& node : graph.nodes()) {
    auto at = [&](ir::ValueId v) {
      return v == ir::kNoValue ? kNoClass : program_values_[static_cast<std::size_t>(v)];
    };
    if (node.op == ir::OpKind::kCast) {
      program_values_.push_back(at(node.a));
      continue;
    }
    if (node.op == ir::OpKind::kConst) {
      program_values_.push_back(constant(node.constant));
      continue;
    }
    Operation operation{node.op, at(node.a), at(node.b), node.dim, 0};
    if (node.op == ir::OpKind::kBroadcast) operation.dims = dims_of(node.axes);
    if (operation.op == ir::OpKind::kMul && operation.a == operation.b)
      operation = {ir::OpKind::kSquare, operation.a, kNoClass, 0, 0};
    ClassId id = make(operation);
    if (id == kNoClass && operation.op == ir::OpKind::kMatmul) {
      ClassId product = make({ir::OpKind::kMul, operation.a, operation.b, 0, 0});
      if (product != kNoClass) id = make({ir::OpKind::kSum, product, kNoClass, operation.dim, 0});
    }
    TENON_CHECK(id != kNoClass, "an operator of the program has a normal spelling");
    normalize(operation);
    program_operations_[operation] = true;
    program_values_.push_back(id);
  }
  for (const ir::ProgramOutput& out : program.signature.outputs)
    outputs_.push_back(program_values_[static_cast<std::size_t>(out.value)]);
}

bool ExpressionTable::in_program(const Operation& operation) const {
  Operation normal = operation;
  normalize(normal);
  return program_operations_.count(normal) > 0;
}

ClassId ExpressionTable::constant(const ir::Constant& c) {
  Expression e;
  e.is_constant = e.parameter_only = true;
  e.constant = c;
  for (const Sample& s : samples_) e.points.push_back({{}, {}, {s.domain.constant(c, s.extents)}});
  ClassId known = lookup(e.points);
  return known != kNoClass ? known : insert(std::move(e));
}

void ExpressionTable::normalize(Operation& operation) const {
  bool product = ir::info(operation.op).op_class == ir::OpClass::kProduct;
  if ((product || ir::info(operation.op).commutative) && operation.b < operation.a)
    std::swap(operation.a, operation.b);
  if (ir::info(operation.op).op_class != ir::OpClass::kReduction && !product) operation.dim = 0;
}

std::optional<ir::Axes> ExpressionTable::result_axes(const Operation& operation) const {
  const Expression& a = (*this)[operation.a];
  switch (ir::info(operation.op).op_class) {
    case ir::OpClass::kPointwise: {
      if (ir::info(operation.op).arity == 1) return a.axes;
      if (operation.op == ir::OpKind::kMul && operation.a == operation.b) return std::nullopt;
      return nested_axes(a, (*this)[operation.b]);
    }
    case ir::OpClass::kReduction: {
      if (!(a.dims & bit(operation.dim))) return std::nullopt;
      ir::Axes axes;
      for (const ir::Axis& axis : a.axes)
        if (axis.dim != operation.dim) axes.push_back(axis);
      return axes;
    }
    case ir::OpClass::kProduct:
      return product_axes(a, (*this)[operation.b], operation.dim);
    case ir::OpClass::kShape: {
      if ((a.dims & ~operation.dims) || a.dims == operation.dims) return std::nullopt;
      ir::Axes axes;
      for (ir::DimId d = 0; d < 64; ++d)
        if (operation.dims & bit(d)) axes.push_back({d, ir::kFull});
      return axes;
    }
    default:
      return std::nullopt;
  }
}

std::optional<std::vector<FieldValues>> ExpressionTable::evaluate(
    const Operation& operation) const {
  const Expression& a = (*this)[operation.a];
  const Expression* b = operation.b == kNoClass ? nullptr : &(*this)[operation.b];
  ir::Graph graph = one_node(operation, a.axes, b ? &b->axes : nullptr);
  std::vector<FieldValues> points;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    std::vector<FieldValues> operands = {a.points[i]};
    if (b) operands.push_back(b->points[i]);
    std::optional<FieldValues> v = apply(graph, samples_[i], std::move(operands));
    if (!v) return std::nullopt;
    points.push_back(std::move(*v));
  }
  return points;
}

ClassId ExpressionTable::lookup(const std::vector<FieldValues>& points) const {
  auto [first, last] = by_hash_.equal_range(hash_points(points));
  for (auto it = first; it != last; ++it)
    if (same_points((*this)[it->second].points, points)) return it->second;
  return kNoClass;
}

ClassId ExpressionTable::insert(Expression expression) {
  ClassId id = size();
  by_hash_.emplace(hash_points(expression.points), id);
  classes_.push_back(std::move(expression));
  return id;
}

void ExpressionTable::add_way(ClassId id, const Operation& operation) {
  std::vector<Operation>& ways = classes_[static_cast<std::size_t>(id)].ways;
  if (std::find(ways.begin(), ways.end(), operation) == ways.end()) ways.push_back(operation);
  made_[operation] = id;
}

// The order of a product's operands is the order of its result's axes: that of another value
// with the same axes, if there is one, so that the two can be stored and combined alike.
Operation ExpressionTable::oriented(const Operation& given) const {
  if (given.op != ir::OpKind::kMatmul) return given;
  Operation swapped = given;
  std::swap(swapped.a, swapped.b);
  std::optional<ir::Axes> axes = result_axes(given);
  std::optional<ir::Axes> other = result_axes(swapped);
  if (!axes || !other) return given;
  for (const Expression& e : classes_) {
    if (e.axes == *axes) return given;
    if (e.axes == *other) return swapped;
  }
  return given;
}

// Literals multiplied or divided are a literal.
ClassId ExpressionTable::fold(const Operation& operation) {
  if (operation.b == kNoClass) return kNoClass;
  const std::optional<ir::Constant>& a = (*this)[operation.a].constant;
  const std::optional<ir::Constant>& b = (*this)[operation.b].constant;
  bool divide = operation.op == ir::OpKind::kDiv;
  if (!a || !b || (operation.op != ir::OpKind::kMul && !divide)) return kNoClass;
  if (divide && b->coefficient.num == 0) return kNoClass;
  ir::Constant c = *a;
  ir::Rational other = b->coefficient;
  if (divide) other = ir::Rational::make(other.den, other.num);
  c.coefficient = c.coefficient * other;
  int sign = divide ? -1 : 1;
  for (const auto& [dim, e] : b->dims)
    if ((c.dims[dim] += sign * e) == 0) c.dims.erase(dim);
  for (const auto& [name, e] : b->attributes)
    if ((c.attributes[name] += sign * e) == 0) c.attributes.erase(name);
  return constant(c);
}

ClassId ExpressionTable::make(const Operation& given) {
  Operation operation = given;
  normalize(operation);
  auto it = made_.find(operation);
  if (it != made_.end()) return it->second;
  ClassId id = fold(operation);
  if (id == kNoClass) {
    const Operation spelled = oriented(given);
    std::optional<ir::Axes> axes = result_axes(spelled);
    if (!axes) return made_[operation] = kNoClass;
    std::optional<std::vector<FieldValues>> points = evaluate(spelled);
    if (!points) return made_[operation] = kNoClass;
    id = lookup(*points);
    if (id == kNoClass) {
      Expression e;
      e.axes = *axes;
      e.dims = dims_of(e.axes);
      const Expression& a = (*this)[operation.a];
      e.parameter_only = a.parameter_only;
      e.is_constant = a.is_constant;
      if (operation.b != kNoClass) {
        e.parameter_only = e.parameter_only && (*this)[operation.b].parameter_only;
        e.is_constant = e.is_constant && (*this)[operation.b].is_constant;
      }
      e.points = std::move(*points);
      id = insert(std::move(e));
    }
    if (!(*this)[id].constant && id != operation.a && id != operation.b) add_way(id, operation);
  }
  return made_[operation] = id;
}

ClassId ExpressionTable::find(const Operation& given) const {
  Operation operation = given;
  normalize(operation);
  auto it = made_.find(operation);
  if (it != made_.end()) return it->second;
  if (!result_axes(operation)) return kNoClass;
  std::optional<std::vector<FieldValues>> points = evaluate(operation);
  return points ? lookup(*points) : kNoClass;
}

}  // namespace tenon::search
