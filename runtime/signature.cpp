#include "runtime/signature.h"

#include <fmt/format.h>

namespace tenon::runtime {

namespace {

// Names are identifiers of the text form: nothing in them needs escaping.
std::string quoted(const std::string& name) { return "\"" + name + "\""; }

template <class Range, class Print>
std::string list(const Range& range, Print print) {
  std::string text;
  for (const auto& item : range) text += (text.empty() ? "" : ", ") + print(item);
  return text;
}

std::string axes_of(const ir::Axes& axes, const ir::Signature& signature) {
  return "[" + list(axes, [&](const ir::Axis& axis) { return quoted(signature.dims[axis.dim]); }) +
         "]";
}

std::string type_of(ir::DType dtype) {
  return dtype == ir::DType::kElem ? "T" : std::string(ir::name(dtype));
}

}  // namespace

std::string describe_signature(const ir::Program& program) {
  const ir::Signature& s = program.signature;
  const std::string attributes = list(s.attributes, [](const auto& attribute) {
    return fmt::format("{}: {}", quoted(attribute.first), attribute.second.to_double());
  });
  const std::string inputs = list(s.inputs, [&](const ir::ProgramInput& in) {
    return fmt::format(R"({{"name": {}, "role": "{}", "dtype": "{}", "axes": {}}})",
                       quoted(in.name),
                       in.role == ir::Role::kParameter ? "parameter" : "activation",
                       type_of(in.dtype), axes_of(in.axes, s));
  });
  const std::string outputs = list(s.outputs, [&](const ir::ProgramOutput& out) {
    return fmt::format(R"({{"name": {}, "dtype": "{}", "axes": {}}})", quoted(out.name),
                       type_of(out.dtype), axes_of(program.graph.axes(out.value), s));
  });
  return fmt::format(
      R"({{"program": {}, "dims": [{}], "attributes": {{{}}}, "inputs": [{}], "outputs": [{}]}})",
      quoted(s.program), list(s.dims, quoted), attributes, inputs, outputs);
}

}  // namespace tenon::runtime
