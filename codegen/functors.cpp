#include "codegen/functors.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/codegen.h"
#include "ir/family.h"

namespace tenon::codegen {

namespace {

using ir::ValueId;

const char* kFunction = "static __device__ __forceinline__";

// m * 4096LL + k, leaving out what is zero or one.
std::string offset(const std::string& r, std::int64_t stride_r, const std::string& c,
                   std::int64_t stride_c) {
  auto term = [](const std::string& name, std::int64_t stride) {
    if (stride == 0) return std::string();
    return stride == 1 ? name : fmt::format("{} * {}LL", name, stride);
  };
  std::string text;
  for (const std::string& t : {term(r, stride_r), term(c, stride_c)})
    if (!t.empty()) text += " + " + t;
  return text;
}

std::set<ValueId> rows_used(const KernelContext& context, const std::vector<ValueId>& values) {
  std::vector<ValueId> list = ir::row_values_of(*context.facts, values, *context.workload);
  return {list.begin(), list.end()};
}

// Leaves inside an element's chain: row values, the source's element, the other inputs' runs.
Expression::Leaf element_leaf(const KernelContext& context, const Walk& walk,
                              const std::set<ValueId>& rows) {
  return [&context, &walk, rows](ValueId v) -> std::optional<std::string> {
    if (rows.count(v)) return fmt::format("row.v{}", v);
    if (!context.facts->flow.graph.is_input(v)) return std::nullopt;
    if (v == walk.source) return "x";
    const std::string& name = context.inputs[static_cast<std::size_t>(v)];
    bool run = context.stride(v, walk.c_dim) != 0 && walk.c_dim >= 0;
    return run ? fmt::format("in.{}.at(j)", name) : fmt::format("in.{}", name);
  };
}

// Inputs of the chains that arrive neither as `x` nor as row values.
std::vector<int> other_inputs(const KernelContext& context, const Walk& walk,
                              const std::vector<ValueId>& values) {
  std::set<int> found;
  for (ValueId v : values)
    for (int i : context.facts->inputs_of(v))
      if (i != walk.source && !context.facts->is_row_value(i)) found.insert(i);
  return {found.begin(), found.end()};
}

// source, strides, Others and load of a chain.
std::string chain_members(const KernelContext& context, const Walk& walk,
                          const std::vector<ValueId>& values) {
  std::string text;
  bool has = walk.source >= 0;
  std::string type = has ? type_name(context.type(context.input(walk.source))) : "float";
  text += fmt::format("  using Source = {};\n", type);
  text += fmt::format("  static constexpr bool kHasSource = {};\n", has);
  text += fmt::format("  static constexpr long long kRowStride = {}, kColumnStride = {};\n",
                      has && walk.r_dim >= 0 ? context.stride(walk.source, walk.r_dim) : 0,
                      has && walk.c_dim >= 0 ? context.stride(walk.source, walk.c_dim) : 0);
  text += fmt::format(
      "  {} const Source* source(const Args& args) {{ return {}; }}\n", kFunction,
      has ? "args." + context.inputs[static_cast<std::size_t>(walk.source)] : "nullptr");

  std::string fields, loads;
  for (int i : other_inputs(context, walk, values)) {
    const std::string& name = context.inputs[static_cast<std::size_t>(i)];
    std::string element = type_name(context.type(context.input(i)));
    std::int64_t stride_r = walk.r_dim >= 0 ? context.stride(i, walk.r_dim) : 0;
    std::int64_t stride_c = walk.c_dim >= 0 ? context.stride(i, walk.c_dim) : 0;
    std::string at = "args." + name +
                     offset(context.coordinate(i, walk.r_dim, walk.r), stride_r,
                            context.coordinate(i, walk.c_dim, walk.c), stride_c);
    if (stride_c == 0) {
      fields += fmt::format(" float {};", name);
      loads += fmt::format("    in.{} = load_one({}, valid > 0);\n", name, at);
    } else {
      fields += fmt::format(" Run<{}, V> {};", element, name);
      loads +=
          fmt::format("    in.{} = load_run<{}, V>({}, valid, {});\n", name, element, at, stride_c);
    }
  }
  text += fmt::format("  template <int V>\n  struct Others {{{} }};\n", fields);
  text += fmt::format(
      "  template <int V>\n  {} Others<V> load(const Args& args, int {}, int {}, int valid) {{\n"
      "    Others<V> in;\n{}    return in;\n  }}\n",
      kFunction, walk.r, walk.c, loads);
  return text;
}

std::string apply_function(const KernelContext& context, const Walk& walk, ValueId value,
                           const std::string& row_name) {
  Expression e(context, element_leaf(context, walk, rows_used(context, {value})));
  std::string result = e.emit(value);
  return fmt::format(
      "  template <class In>\n  {} float apply(const {}& row, const In& in, float x, int j) {{\n"
      "{}    return {};\n  }}\n",
      kFunction, row_name, e.statements("    "), result);
}

std::string target_members(const KernelContext& context, const ir::Tensor& tensor,
                           const std::string& member, int c_dim) {
  const ir::Workload& workload = *context.workload;
  std::string type = type_name(context.type(tensor));
  std::int64_t row =
      context.facts->row < 0 ? 0 : ir::stride_of(tensor, context.facts->row, workload);
  std::int64_t column = c_dim < 0 ? 0 : ir::stride_of(tensor, c_dim, workload);
  return fmt::format(
      "  using Target = {};\n"
      "  static constexpr long long kTargetRowStride = {}, kTargetColumnStride = {};\n"
      "  {} Target* target(const Args& args) {{ return args.{}; }}\n",
      type, row, column, kFunction, member);
}

}  // namespace

int inner_dim(const KernelContext& context, const ir::Tensor& tensor) {
  for (const ir::Axis& axis : tensor.axes)
    if (axis.dim != context.facts->row) return axis.dim;
  return -1;
}

int output_source(const KernelContext& context, const ir::Dataflow::Output& output, int c_dim) {
  int best = -1;
  for (int i : context.facts->inputs_of(output.value)) {
    if (c_dim < 0 || context.stride(i, c_dim) == 0 || context.facts->is_periodic(i)) continue;
    if (best < 0 || context.input(i).axes.size() > context.input(best).axes.size()) best = i;
  }
  return best;
}

std::string row_struct(const KernelContext& context, const std::string& name,
                       const std::vector<ValueId>& values) {
  const ir::KernelFacts& facts = *context.facts;
  std::vector<ValueId> members = ir::row_values_of(facts, values, *context.workload);
  Expression e(context, [&](ValueId v) -> std::optional<std::string> {
    int sum = facts.sum_of(v);
    if (sum >= 0) return fmt::format("sums[{}]", sum);
    if (!facts.flow.graph.is_input(v)) return std::nullopt;
    std::int64_t stride = facts.row < 0 ? 0 : context.stride(v, facts.row);
    return fmt::format("load_one(args.{}{})", context.inputs[static_cast<std::size_t>(v)],
                       offset(context.coordinate(v, facts.row, "m"), stride, "", 0));
  });
  std::string fields, results;
  for (ValueId v : members) {
    fields += fmt::format("  float v{};\n", v);
    results += (results.empty() ? "" : ", ") + e.emit(v);
  }
  return fmt::format(
      "struct {0} {{\n{1}"
      "  {2} {0} make(const Args& args, int m, const float* sums) {{\n{3}    return {{{4}}};\n  "
      "}}\n"
      "}};\n",
      name, fields, kFunction, e.statements("    "), results);
}

std::string pass_struct(const KernelContext& context, const std::string& name,
                        const ir::SumPass& pass, const std::string& row_name, bool cached) {
  const ir::KernelFacts& facts = *context.facts;
  std::vector<ValueId> operands;
  for (int i = 0; i < pass.count; ++i)
    operands.push_back(facts.sums[static_cast<std::size_t>(pass.first + i)].operand);
  Walk walk{facts.row, pass.dim, "m", "k", pass.source};

  std::set<ValueId> rows = rows_used(context, operands);
  bool plain = rows.empty() && other_inputs(context, walk, operands).empty();
  Expression e(context, element_leaf(context, walk, rows));
  std::vector<std::string> terms;
  for (ValueId v : operands) terms.push_back(e.emit(v));
  std::string body = e.statements("    ");
  for (std::size_t i = 0; i < terms.size(); ++i)
    body += fmt::format("    s[{}] += {};\n", i, terms[i]);

  std::string text = fmt::format("struct {} {{\n", name);
  text += fmt::format("  static constexpr int kFirst = {}, kCount = {}, kExtent = {};\n",
                      pass.first, pass.count, context.extent(pass.dim));
  text += fmt::format("  static constexpr bool kCached = {};\n", cached);
  text += fmt::format("  using Row = {};\n", row_name);
  text += chain_members(context, walk, operands);
  if (plain) {
    // The elements of the source alone decide.
    text += fmt::format("  {} void accumulate(float (&s)[kCount], float x) {{\n{}  }}\n", kFunction,
                        body);
    body = "    accumulate(s, x);\n";
  }
  text += fmt::format(
      "  template <class In>\n"
      "  {} void accumulate(float (&s)[kCount], const Row& row, const In& in, float x, int j) {{\n"
      "{}  }}\n}};\n",
      kFunction, body);
  return text;
}

std::string operand_struct(const KernelContext& context, const std::string& name,
                           const ir::Operand& operand, const Walk& walk,
                           const std::string& row_name, bool uses_rows, bool transposed) {
  const ir::KernelFacts& facts = *context.facts;
  if (row_name == "NoRow" && !rows_used(context, {operand.value}).empty())
    throw Rejected("an operand along the columns uses a sum or a scalar input");
  ir::DType tile = context.tensor_cores ? context.elem() : ir::DType::kF32;
  bool staged = walk.source >= 0 && context.type(context.input(walk.source)) == tile;
  bool identity = staged && ir::strip(facts.flow, operand.value, context.elem()) == walk.source;

  std::string text = fmt::format("struct {} {{\n", name);
  text += fmt::format("  static constexpr bool kStaged = {}, kIdentity = {};\n", staged, identity);
  text += fmt::format("  static constexpr bool kUsesRows = {}, kTransposed = {};\n", uses_rows,
                      transposed);
  text += chain_members(context, walk, {operand.value});
  text += apply_function(context, walk, operand.value, row_name);
  return text + "};\n";
}

std::string output_struct(const KernelContext& context, const std::string& name,
                          const ir::Dataflow::Output& output, const std::string& member,
                          const std::string& row_name, int source, bool cached) {
  int c_dim = inner_dim(context, output.tensor);
  Walk walk{context.facts->row, c_dim, "m", "n", source};
  std::string text = fmt::format("struct {} {{\n", name);
  text += fmt::format("  static constexpr int kExtent = {};\n", context.extent(c_dim));
  text += fmt::format("  static constexpr bool kCached = {};\n", cached);
  text += fmt::format("  using Row = {};\n", row_name);
  text += target_members(context, output.tensor, member, c_dim);
  text += chain_members(context, walk, {output.value});
  text += apply_function(context, walk, output.value, row_name);
  return text + "};\n";
}

std::string row_output_struct(const KernelContext& context, const std::string& name,
                              const ir::Dataflow::Output& output, const std::string& member,
                              const std::string& row_name) {
  std::set<ValueId> rows = rows_used(context, {output.value});
  Expression e(context, [&](ValueId v) -> std::optional<std::string> {
    if (rows.count(v)) return fmt::format("row.v{}", v);
    return std::nullopt;
  });
  std::string result = e.emit(output.value);
  return fmt::format(
      "struct {} {{\n  using Row = {};\n{}  {} float value(const Row& row) {{\n{}    "
      "return {};\n  }}\n}};\n",
      name, row_name, target_members(context, output.tensor, member, -1), kFunction,
      e.statements("    "), result);
}

std::string epilogue_struct(const KernelContext& context, const std::string& name,
                            const ir::Dataflow::Output& output, const std::string& member) {
  const ir::KernelFacts& facts = *context.facts;
  std::set<ValueId> rows = rows_used(context, {output.value});
  Expression e(context, [&](ValueId v) -> std::optional<std::string> {
    if (rows.count(v)) return fmt::format("row.v{}", v);
    int product = facts.product_of(v);
    if (product >= 0)
      return fmt::format("acc{}", facts.products.size() == 1 ? "" : std::to_string(product));
    if (!facts.flow.graph.is_input(v)) return std::nullopt;
    std::int64_t stride_m = facts.row < 0 ? 0 : context.stride(v, facts.row);
    return fmt::format(
        "load_one(args.{}{})", context.inputs[static_cast<std::size_t>(v)],
        offset(context.coordinate(v, facts.row, "m"), stride_m,
               context.coordinate(v, facts.column, "n"), context.stride(v, facts.column)));
  });
  std::string result = e.emit(output.value);
  std::string accumulators;
  for (std::size_t p = 0; p < facts.products.size(); ++p)
    accumulators += facts.products.size() == 1 ? "float acc, " : fmt::format("float acc{}, ", p);

  std::string row_name = name + "Row";
  std::string text = row_struct(context, row_name, {output.value});
  text +=
      fmt::format("struct {} {{\n  using Args = KernelArgs;\n  using Row = {};\n", name, row_name);
  text += target_members(context, output.tensor, member, facts.column);
  text += fmt::format(
      "  {} Row row(const Args& args, int m, const float* sums) {{ return Row::make(args, m, "
      "sums); }}\n",
      kFunction);
  text += fmt::format(
      "  {} float apply(const Args& args, const Row& row, {}int m, int n) {{\n{}    return {};\n  "
      "}}\n}};\n",
      kFunction, accumulators, e.statements("    "), result);
  return text;
}

}  // namespace tenon::codegen
