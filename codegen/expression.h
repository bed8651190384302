// Scalar CUDA expressions from pointwise chains.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/kernel_facts.h"
#include "ir/workload.h"

namespace tenon::codegen {

// What generated code of one kernel refers to.
struct KernelContext {
  const ir::KernelFacts* facts = nullptr;
  const ir::Workload* workload = nullptr;
  std::vector<std::string> inputs;  // C++ member of Args for each input
  bool tensor_cores = false;        // products on 16-bit tiles

  std::int64_t extent(int dim) const {
    return dim < 0 ? 1 : workload->extents[static_cast<std::size_t>(dim)];
  }
  // The coordinate `name` along `dim` as input `i` has it: one that repeats along merged rows takes
  // it modulo its extent.
  std::string coordinate(int i, int dim, const std::string& name) const {
    if (dim < 0 || !facts->is_periodic(i) || dim != facts->flow.merge->first) return name;
    return "(" + name + " % " + std::to_string(extent(facts->flow.merge->second)) + ")";
  }
  ir::DType elem() const { return workload->dtype; }
  const ir::Tensor& input(int i) const { return facts->flow.inputs[static_cast<std::size_t>(i)]; }
  std::int64_t stride(int i, int dim) const { return ir::stride_of(input(i), dim, *workload); }
  ir::DType type(const ir::Tensor& tensor) const { return ir::bind(tensor.dtype, elem()); }
};

// "Bf16", "Fp16", "float" (codegen/device/portable/element.cuh).
std::string type_name(ir::DType dtype);

// A float literal that reads back as the nearest float of `value`.
std::string literal(double value);

// Emits statements that compute values, each once, from the leaves that `leaf` names.
class Expression {
 public:
  // Text of a value that needs no computing, or nothing.
  using Leaf = std::function<std::optional<std::string>(ir::ValueId)>;
  Expression(const KernelContext& context, Leaf leaf) : context_(context), leaf_(std::move(leaf)) {}

  // The text of `v`: a name or a literal; throws InternalError when a leaf is missing.
  std::string emit(ir::ValueId v);
  // The statements so far, one a line, each indented by `indent`.
  std::string statements(const std::string& indent) const;

 private:
  std::string constant(const ir::Constant& c) const;

  const KernelContext& context_;
  Leaf leaf_;
  std::map<ir::ValueId, std::string> names_;
  std::vector<std::string> lines_;
};

}  // namespace tenon::codegen
