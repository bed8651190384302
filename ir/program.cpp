#include "ir/program.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "ir/error.h"
#include "ir/graph_text.h"
#include "ir/program_check.h"
#include "ir/sha256.h"

namespace tenon::ir {
namespace {

using Where = ProgramProblem::Where;
using Problem = std::optional<ProgramProblem>;

Problem problem(Where where, std::size_t index, std::string message) {
  return ProgramProblem{where, index, {}, std::move(message)};
}

// Full axes of declared, distinct dims.
bool axes_fit(const Axes& axes, const Signature& signature) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].dim >= signature.dims.size() || axes[i].part != kFull) return false;
    if (find_dim(axes, axes[i].dim) != static_cast<int>(i)) return false;
  }
  return true;
}

Problem check_names(const Signature& signature) {
  if (!is_name(signature.program)) {
    return problem(Where::kProgram, 0,
                   fmt::format("the program's name {} is not a name", quote(signature.program)));
  }
  if (signature.dims.size() > kMaxDims)
    return problem(Where::kProgram, 0, fmt::format("more than {} dims", kMaxDims));
  std::set<std::string> scalars;
  for (std::size_t i = 0; i < signature.dims.size(); ++i) {
    const std::string& dim = signature.dims[i];
    if (!is_name(dim))
      return problem(Where::kDim, i, fmt::format("dim {} is not a name", quote(dim)));
    if (!scalars.insert(dim).second)
      return problem(Where::kDim, i, fmt::format("dim '{}' is declared twice", dim));
  }
  for (const auto& [name, value] : signature.attributes) {
    std::string message;
    if (!is_name(name)) message = fmt::format("attribute {} is not a name", quote(name));
    if (!scalars.insert(name).second) message = fmt::format("attribute '{}' is also a dim", name);
    if (value.num <= 0 || value.den <= 0)
      message = fmt::format("attribute '{}' is not positive", name);
    if (!message.empty()) return ProgramProblem{Where::kAttribute, 0, name, message};
  }
  return std::nullopt;
}

Problem check_inputs(const Program& program, std::set<std::string>& tensors) {
  const Signature& signature = program.signature;
  if (signature.inputs.empty()) return problem(Where::kProgram, 0, "the program has no input");
  if (signature.inputs.size() != program.graph.inputs().size()) {
    return problem(Where::kProgram, 0, "the graph's inputs are not those of the signature");
  }
  for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
    const ProgramInput& input = signature.inputs[i];
    const GraphInput& value = program.graph.inputs()[i];
    if (!is_name(input.name))
      return problem(Where::kInput, i, fmt::format("input {} is not a name", quote(input.name)));
    if (!tensors.insert(input.name).second) {
      return problem(Where::kInput, i, fmt::format("input '{}' is declared twice", input.name));
    }
    if (!axes_fit(input.axes, signature) || value.name != input.name || value.axes != input.axes) {
      return problem(Where::kInput, i,
                     fmt::format("input '{}' has axes that are not declared dims", input.name));
    }
  }
  return std::nullopt;
}

Problem check_nodes(const Program& program) {
  const Signature& signature = program.signature;
  const std::vector<Node>& nodes = program.graph.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    if (node.op == OpKind::kAccumulated) {
      return problem(Where::kNode, i, "an accumulator's result stands outside of a block graph");
    }
    bool fits = axes_fit(node.axes, signature);
    for (const auto& [dim, exponent] : node.constant.dims)
      fits = fits && dim < signature.dims.size();
    for (const auto& [name, exponent] : node.constant.attributes)
      fits = fits && signature.attributes.count(name) != 0;
    if (!fits) return problem(Where::kNode, i, "a value uses what the program does not declare");
  }
  return std::nullopt;
}

Problem check_outputs(const Program& program, std::set<std::string>& tensors) {
  const Signature& signature = program.signature;
  if (signature.outputs.empty()) return problem(Where::kProgram, 0, "the program has no output");
  if (signature.outputs.size() != signature.output_axes.size()) {
    return problem(Where::kProgram, 0, "the outputs' axes are missing");
  }
  for (std::size_t i = 0; i < signature.outputs.size(); ++i) {
    const ProgramOutput& output = signature.outputs[i];
    if (!is_name(output.name))
      return problem(Where::kOutput, i, fmt::format("output {} is not a name", quote(output.name)));
    if (!tensors.insert(output.name).second) {
      return problem(Where::kOutput, i, fmt::format("output '{}' is declared twice", output.name));
    }
    if (output.value < 0 || output.value >= program.graph.value_count()) {
      return problem(Where::kOutput, i, fmt::format("output '{}' has no value", output.name));
    }
    if (program.graph.axes(output.value) != signature.output_axes[i]) {
      return problem(Where::kOutput, i,
                     fmt::format("output '{}' has other axes than its value", output.name));
    }
  }
  return std::nullopt;
}

// Everything declared must take part: a program that says more than it computes is
// more likely a slip than a wish.
Problem check_used(const Program& program) {
  const Signature& signature = program.signature;
  const Graph& graph = program.graph;
  std::vector<bool> values(static_cast<std::size_t>(graph.value_count()));
  std::set<DimId> dims;
  std::set<std::string> attributes;
  auto use = [&](ValueId v) {
    if (v != kNoValue) values[static_cast<std::size_t>(v)] = true;
  };
  for (const ProgramInput& input : signature.inputs) {
    for (const Axis& axis : input.axes) dims.insert(axis.dim);
  }
  for (const Node& node : graph.nodes()) {
    use(node.a);
    use(node.b);
    for (const Axis& axis : node.axes) dims.insert(axis.dim);
    for (const auto& [dim, exponent] : node.constant.dims) dims.insert(dim);
    for (const auto& [name, exponent] : node.constant.attributes) attributes.insert(name);
  }
  for (const ProgramOutput& output : signature.outputs) use(output.value);
  for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
    if (!values[i])
      return problem(Where::kInput, i,
                     fmt::format("input '{}' is not used", signature.inputs[i].name));
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (!values[signature.inputs.size() + i]) {
      return problem(Where::kNode, i,
                     fmt::format("value %{} ({}) is not used", i, info(graph.nodes()[i].op).name));
    }
  }
  for (std::size_t i = 0; i < signature.dims.size(); ++i) {
    if (dims.count(static_cast<DimId>(i)) == 0) {
      return problem(Where::kDim, i, fmt::format("dim '{}' is not used", signature.dims[i]));
    }
  }
  for (const auto& [name, value] : signature.attributes) {
    if (attributes.count(name) == 0) {
      return ProgramProblem{Where::kAttribute, 0, name,
                            fmt::format("attribute '{}' is not used", name)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ProgramProblem> find_problem(const Program& program) {
  std::set<std::string> tensors;
  Problem found = check_names(program.signature);
  if (!found) found = check_inputs(program, tensors);
  if (!found) found = check_nodes(program);
  if (!found) found = check_outputs(program, tensors);
  if (!found) found = check_used(program);
  return found;
}

void validate(const Program& program) {
  if (const Problem found = find_problem(program)) {
    throw UserError(fmt::format("program {}: {}", program.signature.program, found->message));
  }
}

std::string identity(const Program& program) { return sha256_hex(print(program)); }

}  // namespace tenon::ir
