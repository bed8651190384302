#include "ir/layout.h"

#include <algorithm>
#include <sstream>

#include "ir/error.h"

namespace tenon::ir {

namespace {

std::string dims_of(const Signature& signature, const Axes& axes) {
  std::string text;
  for (const Axis& axis : axes) text += (text.empty() ? "" : ",") + signature.dims[axis.dim];
  return text;
}

Axes reordered(const Signature& signature, const Axes& axes, const std::string& layout,
               const std::string& order) {
  const std::string accepted = "the axes " + dims_of(signature, axes) + " in any order";
  Axes out;
  std::istringstream names(order);
  for (std::string name; std::getline(names, name, ',');) {
    auto it = std::find_if(axes.begin(), axes.end(),
                           [&](const Axis& axis) { return signature.dims[axis.dim] == name; });
    if (it == axes.end() || find_dim(out, it->dim) >= 0)
      throw UserError("layout", layout, accepted);
    out.push_back(*it);
  }
  if (out.size() != axes.size()) throw UserError("layout", layout, accepted);
  return out;
}

}  // namespace

Program with_layout(const Program& program, const std::string& layout) {
  const std::size_t equals = layout.find('=');
  const std::string name = layout.substr(0, equals);
  std::string inputs;
  for (const ProgramInput& in : program.signature.inputs)
    inputs += (inputs.empty() ? "" : ", ") + in.name;
  Program out;
  out.signature = program.signature;
  auto input = std::find_if(out.signature.inputs.begin(), out.signature.inputs.end(),
                            [&](const ProgramInput& in) { return in.name == name; });
  if (equals == std::string::npos || input == out.signature.inputs.end())
    throw UserError("layout", layout, "INPUT=DIM,DIM…, the input being one of " + inputs);
  input->axes = reordered(out.signature, input->axes, layout, layout.substr(equals + 1));
  for (const ProgramInput& in : out.signature.inputs) out.graph.input(in.name, in.axes);
  // Axes of values are inferred again; outputs stay stored as they were declared.
  for (const Node& node : program.graph.nodes()) out.graph.append(node);
  for (std::size_t o = 0; o < out.signature.outputs.size(); ++o)
    if (!(out.graph.axes(out.signature.outputs[o].value) == out.signature.output_axes[o]))
      throw UserError("layout", layout,
                      "an order that leaves output " + out.signature.outputs[o].name + " as it is");
  validate(out);
  return out;
}

}  // namespace tenon::ir
