#include "ir/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ir/error.h"

namespace tenon::ir {
namespace {

constexpr std::int64_t kMaxExtent = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;

Extents bind_dims(const Signature& signature, const std::map<std::string, std::int64_t>& dims) {
  const std::string known = fmt::format("{}", fmt::join(signature.dims, ", "));
  for (const auto& [name, extent] : dims) {
    if (std::find(signature.dims.begin(), signature.dims.end(), name) == signature.dims.end()) {
      throw UserError("dim", name, fmt::format("the dims of {}: {}", signature.program, known));
    }
  }
  Extents extents;
  for (const std::string& name : signature.dims) {
    const auto found = dims.find(name);
    if (found == dims.end()) {
      throw UserError(
          fmt::format("dim {} has no extent; {} needs {}", name, signature.program, known));
    }
    if (found->second < 1 || found->second > kMaxExtent) {
      throw UserError("dim " + name, std::to_string(found->second), "1 to 2147483647");
    }
    extents.push_back(found->second);
  }
  return extents;
}

void check_elements(const std::string& tensor, const Axes& axes, const Workload& workload) {
  std::int64_t elements = 1;
  for (const Axis& axis : axes) {
    // Both factors are below 2^41 and 2^31: the product may exceed 64 bits.
    if (__builtin_mul_overflow(elements, workload.extents[axis.dim], &elements) ||
        elements > kMaxElements) {
      std::string shape;
      for (const Axis& a : axes) {
        shape += fmt::format("{}{}={}", shape.empty() ? "" : ", ",
                             workload.program.signature.dims[a.dim], workload.extents[a.dim]);
      }
      throw UserError(fmt::format("{} has more than 2^40 elements at {}", tensor, shape));
    }
  }
}

void check_sizes(const Workload& workload) {
  const Signature& signature = workload.program.signature;
  for (const ProgramInput& input : signature.inputs) {
    check_elements("input " + input.name, input.axes, workload);
  }
  const Graph& graph = workload.program.graph;
  for (const ProgramOutput& output : signature.outputs) {
    check_elements("output " + output.name, graph.axes(output.value), workload);
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    check_elements(fmt::format("value %{}", i), graph.nodes()[i].axes, workload);
  }
}

std::map<std::string, double> bind_attributes(const Signature& signature,
                                              const std::map<std::string, double>& given) {
  std::map<std::string, double> bound;
  for (const auto& [name, value] : signature.attributes) bound[name] = value.to_double();
  for (const auto& [name, value] : given) {
    const auto found = bound.find(name);
    if (found == bound.end()) {
      std::vector<std::string> known;
      for (const auto& [attribute, fallback] : signature.attributes) known.push_back(attribute);
      throw UserError("attribute", name,
                      known.empty() ? signature.program + " has none"
                                    : fmt::format("{}", fmt::join(known, ", ")));
    }
    // The kernels compute in fp32: what is no positive fp32 number cannot be honoured.
    const auto rounded = static_cast<float>(value);
    if (!(std::isfinite(rounded) && rounded > 0)) {
      throw UserError("attribute " + name, fmt::format("{}", value),
                      "a positive number that fp32 can hold");
    }
    found->second = value;
  }
  return bound;
}

}  // namespace

Workload make_workload(const Program& program, const std::map<std::string, std::int64_t>& dims,
                       DType dtype, const std::map<std::string, double>& attributes) {
  validate(program);
  if (dtype == DType::kElem) throw UserError("dtype", "T", "bf16, fp16, fp32");
  Workload workload;
  workload.program = program;
  workload.dtype = dtype;
  workload.extents = bind_dims(program.signature, dims);
  workload.attributes = bind_attributes(program.signature, attributes);
  check_sizes(workload);
  return workload;
}

std::string print(const Workload& workload) {
  const Signature& signature = workload.program.signature;
  std::string text = signature.program;
  for (std::size_t i = 0; i < signature.dims.size(); ++i) {
    text += fmt::format(" {}={}", signature.dims[i], workload.extents[i]);
  }
  text += fmt::format(" {}", name(workload.dtype));
  for (const auto& [attribute, value] : workload.attributes)
    text += fmt::format(" {}={}", attribute, value);
  if (workload.keep_weights) text += " keep-weights";
  return text;
}

std::string key(const Workload& workload, const std::string& dynamic_dim) {
  const Signature& signature = workload.program.signature;
  // nlohmann::json sorts the keys and writes numbers in one way: the text is canonical.
  nlohmann::json dims = nlohmann::json::object();
  for (std::size_t i = 0; i < signature.dims.size(); ++i) {
    if (signature.dims[i] != dynamic_dim) dims[signature.dims[i]] = workload.extents[i];
  }
  nlohmann::json attributes = nlohmann::json::object();
  for (const auto& [attribute, value] : workload.attributes) attributes[attribute] = value;
  const nlohmann::json object = {{"program", signature.program},
                                 {"program_id", identity(workload.program)},
                                 {"dims", dims},
                                 {"dtype", name(workload.dtype)},
                                 {"attributes", attributes}};
  return object.dump();
}

std::int64_t extent(const Workload& workload, const std::string& dim) {
  const std::vector<std::string>& dims = workload.program.signature.dims;
  const auto found = std::find(dims.begin(), dims.end(), dim);
  if (found == dims.end()) {
    throw UserError("dim", dim, fmt::format("{}", fmt::join(dims, ", ")));
  }
  return workload.extents[static_cast<std::size_t>(found - dims.begin())];
}

}  // namespace tenon::ir
