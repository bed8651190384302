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

std::int64_t row_elements(const Axes& axes, const Workload& workload) {
  std::int64_t elements = 1;
  for (std::size_t i = 1; i < axes.size(); ++i) elements *= workload.extents[axes[i].dim];
  return elements;
}

std::int64_t row_stride(const std::string& name, const Axes& axes, const Workload& workload) {
  const auto given = workload.row_strides.find(name);
  return given == workload.row_strides.end() ? row_elements(axes, workload) : given->second;
}

Workload with_row_stride(Workload workload, const std::string& name, std::int64_t stride) {
  const Signature& s = workload.program.signature;
  std::map<std::string, Axes> tensors;
  for (const ProgramInput& in : s.inputs)
    if (in.role == Role::kActivation) tensors[in.name] = in.axes;
  for (const ProgramOutput& out : s.outputs)
    tensors[out.name] = workload.program.graph.axes(out.value);
  std::vector<std::string> accepted;
  for (const auto& [tensor, axes] : tensors)
    if (axes.size() >= 2 && s.dims[axes[0].dim] == "m") accepted.push_back(tensor);
  if (std::find(accepted.begin(), accepted.end(), name) == accepted.end())
    throw UserError("tensor of a row stride", name,
                    accepted.empty() ? s.program + " has no activation or output with rows"
                                     : fmt::format("{}", fmt::join(accepted, ", ")));
  const std::int64_t row = row_elements(tensors[name], workload);
  if (stride < row || stride > kMaxExtent ||
      stride > kMaxElements / workload.extents[tensors[name][0].dim])
    throw UserError("row stride of " + name, std::to_string(stride),
                    fmt::format("{}, the elements of a row, to 2147483647, and 2^40 in all", row));
  workload.row_strides.erase(name);
  if (stride != row) workload.row_strides[name] = stride;
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
  for (const auto& [tensor, stride] : workload.row_strides)
    text += fmt::format(" rows of {} {} apart", tensor, stride);
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
  nlohmann::json object = {{"program", signature.program},
                           {"program_id", identity(workload.program)},
                           {"dims", dims},
                           {"dtype", name(workload.dtype)},
                           {"attributes", attributes}};
  // Named for what it is, since a miss tells the differing fields by name.
  for (const auto& [tensor, stride] : workload.row_strides)
    object["row_strides"]["row stride of " + tensor] = stride;
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
