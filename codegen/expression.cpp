#include "codegen/expression.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "codegen/codegen.h"
#include "ir/family.h"

namespace tenon::codegen {

std::string type_name(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kBF16:
      return "Bf16";
    case ir::DType::kF16:
      return "Fp16";
    case ir::DType::kF32:
      return "float";
    case ir::DType::kElem:
      break;
  }
  TENON_CHECK(false, "an unbound element type reached code generation");
}

std::string literal(double value) {
  auto f = static_cast<float>(value);
  if (std::isnan(f)) return "__int_as_float(0x7fc00000)";
  if (std::isinf(f)) return f > 0 ? "__int_as_float(0x7f800000)" : "__int_as_float(0xff800000)";
  std::string text = fmt::format("{:.9g}", f);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

std::string Expression::constant(const ir::Constant& c) const {
  double value = c.coefficient.to_double();
  for (const auto& [name, power] : c.attributes)
    value *= std::pow(context_.workload->attributes.at(name), power);
  int dynamic = ir::dynamic_dim(*context_.workload);
  int dynamic_power = 0;
  for (const auto& [dim, power] : c.dims) {
    if (dim == dynamic)
      dynamic_power = power;
    else
      value *= std::pow(static_cast<double>(context_.extent(dim)), power);
  }
  std::string text = literal(value);
  for (int i = 0; i < std::abs(dynamic_power); ++i)
    text = fmt::format("({} {} static_cast<float>(args.m))", text, dynamic_power > 0 ? "*" : "/");
  return text;
}

std::string Expression::emit(ir::ValueId v) {
  const ir::Dataflow& flow = context_.facts->flow;
  v = ir::strip(flow, v, context_.elem());
  auto known = names_.find(v);
  if (known != names_.end()) return known->second;
  if (std::optional<std::string> leaf = leaf_(v)) return names_[v] = *leaf;
  TENON_CHECK(!flow.graph.is_input(v), "a chain reads an input that its place does not provide");
  const ir::Node& node = flow.graph.node(v);
  if (node.op == ir::OpKind::kConst) return names_[v] = constant(node.constant);

  std::string text;
  if (node.op == ir::OpKind::kCast) {
    text = fmt::format("round_to<{}>({})", type_name(ir::bind(node.dtype, context_.elem())),
                       emit(node.a));
  } else {
    const ir::OpInfo& row = ir::info(node.op);
    if (row.op_class != ir::OpClass::kPointwise || row.cuda.empty())
      throw Rejected(fmt::format("operator {} has no place in a chain", row.name));
    std::string a = emit(node.a);
    std::string b = node.b == ir::kNoValue ? "" : emit(node.b);
    for (char c : row.cuda) {
      if (!text.empty() && text.back() == '$') {
        text.pop_back();
        text += c == '0' ? a : b;
      } else {
        text += c;
      }
    }
  }
  std::string name = fmt::format("v{}", v);
  lines_.push_back(fmt::format("const float {} = {};", name, text));
  return names_[v] = name;
}

std::string Expression::statements(const std::string& indent) const {
  std::string text;
  for (const std::string& line : lines_) text += indent + line + "\n";
  return text;
}

}  // namespace tenon::codegen
