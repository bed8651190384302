// The printing half of ir/graph_text.h.
#include <fmt/format.h>

#include "ir/error.h"
#include "ir/graph_text.h"

namespace tenon::ir {
namespace {

// base, or base^exponent
std::string power(const std::string& base, int exponent) {
  return exponent == 1 ? base : fmt::format("{}^{}", base, exponent);
}

}  // namespace

const std::string& dim_name(const Signature& signature, DimId dim) {
  TENON_CHECK(dim < signature.dims.size(), "a dim that the signature lacks");
  return signature.dims[dim];
}

std::string_view part_name(Part part) {
  switch (part) {
    case kGrid:
      return "grid";
    case kLoop:
      return "loop";
    case kGridLoop:
      return "grid+loop";
    default:
      return "full";
  }
}

std::string print_axes(const Axes& axes, const Signature& signature) {
  std::string text;
  for (const Axis& axis : axes) {
    if (!text.empty()) text += ", ";
    text += dim_name(signature, axis.dim);
    if (axis.part != kFull) text += fmt::format(": {}", part_name(axis.part));
  }
  return "[" + text + "]";
}

std::string print_type(DType dtype, const Axes& axes, const Signature& signature) {
  return std::string(name(dtype)) + print_axes(axes, signature);
}

std::string print_constant(const Constant& constant, const Signature& signature) {
  std::vector<std::string> above;
  std::vector<std::string> below;
  auto factor = [&](const std::string& base, int exponent) {
    TENON_CHECK(exponent != 0, "a constant holds a factor to the power 0");
    (exponent > 0 ? above : below).push_back(power(base, std::abs(exponent)));
  };
  for (const auto& [dim, exponent] : constant.dims) factor(dim_name(signature, dim), exponent);
  for (const auto& [attribute, exponent] : constant.attributes) factor(attribute, exponent);
  std::string text;
  if (constant.coefficient != Rational{1, 1} || above.empty()) text = to_text(constant.coefficient);
  // A fraction's denominator divides; what follows multiplies all the same.
  for (const std::string& f : above) text += (text.empty() ? "" : "*") + f;
  for (const std::string& f : below) text += "/" + f;
  return text;
}

ValueNames::ValueNames(const Graph& graph) {
  for (const GraphInput& input : graph.inputs()) inputs_.push_back(input.name);
}

ValueNames::ValueNames(const Graph& graph, std::vector<std::string> input_names)
    : inputs_(std::move(input_names)) {
  TENON_CHECK(inputs_.size() == graph.inputs().size(), "one name for each input");
}

std::string ValueNames::operator()(ValueId value) const {
  TENON_CHECK(value >= 0, "no value");
  const auto index = static_cast<std::size_t>(value);
  return index < inputs_.size() ? inputs_[index] : fmt::format("%{}", index - inputs_.size());
}

std::string print_operation(const Node& node, const ValueNames& names, const Signature& signature) {
  const OpInfo& row = info(node.op);
  std::string text;
  auto add = [&](const std::string& argument) { text += (text.empty() ? "" : ", ") + argument; };
  if (row.arity >= 1) add(names(node.a));
  if (row.arity >= 2) add(names(node.b));
  switch (row.op_class) {
    case OpClass::kConstant:
      add(print_constant(node.constant, signature));
      break;
    case OpClass::kReduction:
    case OpClass::kProduct:
      add(dim_name(signature, node.dim));
      break;
    case OpClass::kShape:
      add(print_axes(node.axes, signature));
      break;
    case OpClass::kRounding:
      add(std::string(name(node.dtype)));
      break;
    case OpClass::kPointwise:
      break;
  }
  return fmt::format("{}({})", row.name, text);
}

std::string print_signature(const Signature& signature) {
  std::string text;
  if (!signature.dims.empty()) text += fmt::format("dims {}\n", fmt::join(signature.dims, ", "));
  for (const auto& [attribute, value] : signature.attributes) {
    text += fmt::format("attribute {} = {}\n", attribute, to_text(value));
  }
  for (const ProgramInput& input : signature.inputs) {
    text +=
        fmt::format("input {}: {} {}\n", input.name, print_type(input.dtype, input.axes, signature),
                    input.role == Role::kParameter ? "parameter" : "activation");
  }
  return text;
}

}  // namespace tenon::ir
