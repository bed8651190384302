#include "codegen/lower.h"

#include <fmt/format.h>

#include <set>

#include "codegen/codegen.h"

namespace tenon::codegen {

namespace {

// A C++ identifier for a tensor's name that is not yet in `taken`.
std::string identifier(const std::string& name, std::set<std::string>& taken) {
  std::string base;
  for (char c : name) base += (c == '.') ? '_' : c;
  std::string text = base;
  for (int i = 2; !taken.insert(text).second; ++i) text = fmt::format("{}_{}", base, i);
  return text;
}

std::set<std::string> reserved_names() {
  return {"alignas",   "alignof",  "and",      "asm",      "auto",     "bool",      "break",
          "case",      "catch",    "char",     "class",    "const",    "constexpr", "continue",
          "decltype",  "default",  "delete",   "do",       "double",   "else",      "enum",
          "explicit",  "export",   "extern",   "false",    "float",    "for",       "friend",
          "goto",      "if",       "inline",   "int",      "long",     "mutable",   "namespace",
          "new",       "noexcept", "not",      "nullptr",  "operator", "or",        "private",
          "protected", "public",   "register", "return",   "short",    "signed",    "sizeof",
          "static",    "struct",   "switch",   "template", "this",     "throw",     "true",
          "try",       "typedef",  "typeid",   "typename", "union",    "unsigned",  "using",
          "virtual",   "void",     "volatile", "while",    "xor",      "wchar_t",   "Args",
          "m",         "block",    "partials", "counters", "args",     "row",       "in",
          "sums"};
}

// Whether rows or a constant follow the dynamic dim.
bool needs_m(const ir::KernelFacts& facts, int dynamic) {
  if (dynamic < 0) return false;
  if (facts.row == dynamic) return true;
  for (const ir::Node& node : facts.flow.graph.nodes())
    if (node.op == ir::OpKind::kConst &&
        node.constant.dims.count(static_cast<ir::DimId>(dynamic)) > 0)
      return true;
  return false;
}

}  // namespace

KernelWriter::KernelWriter(const ir::KernelFacts& facts, const ir::Workload& workload,
                           const LowerOptions& options, bool tensor_cores, bool workspace)
    : workload_(workload), options_(options) {
  context_.facts = &facts;
  context_.workload = &workload_;
  context_.tensor_cores = tensor_cores;
  std::set<std::string> taken = reserved_names();
  for (const ir::Tensor& tensor : facts.flow.inputs) {
    context_.inputs.push_back(identifier(tensor.name, taken));
    members_.push_back(
        {fmt::format("const {}*", type_name(context_.type(tensor))), context_.inputs.back()});
  }
  for (const ir::Dataflow::Output& out : facts.flow.outputs) {
    outputs_.push_back(identifier(out.tensor.name, taken));
    members_.push_back({fmt::format("{}*", type_name(context_.type(out.tensor))), outputs_.back()});
  }
  if (workspace) {
    members_.push_back({"float*", "partials"});
    members_.push_back({"unsigned*", "counters"});
  }
  takes_m_ = needs_m(facts, ir::dynamic_dim(workload));
  if (takes_m_) members_.push_back({"int", "m"});
}

std::string KernelWriter::args_struct() const {
  std::string text = "struct Args {\n";
  for (const Member& m : members_) text += fmt::format("  {} {};\n", m.type, m.name);
  return text + "};\nusing KernelArgs = Args;\n";
}

std::string KernelWriter::entry_function(const std::string& runner, int threads) const {
  std::string parameters, values;
  for (const Member& m : members_) {
    parameters += fmt::format("{}{} {}", parameters.empty() ? "" : ", ", m.type, m.name);
    values += fmt::format("{}{}", values.empty() ? "" : ", ", m.name);
  }
  return fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}, 1) {}({}) {{\n  {}::run({{{}}});\n}}\n",
      threads, entry(), parameters, runner, values);
}

std::string KernelWriter::parts_entry(int threads, const std::string& body) const {
  std::string parameters;
  for (const Member& m : members_)
    parameters += fmt::format("{}{} {}", parameters.empty() ? "" : ", ", m.type, m.name);
  return fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}, 1) {}({}) {{\n  unsigned block = "
      "blockIdx.x;\n{}}}\n",
      threads, entry(), parameters, body);
}

std::vector<std::string> KernelWriter::member_names() const {
  std::vector<std::string> names;
  for (const Member& m : members_) names.push_back(m.name);
  return names;
}

std::string KernelWriter::hopper_entry(int maps, bool scratch, bool tile_rows, int threads,
                                       int blocks_per_sm, const std::string& body) const {
  std::string parameters, values;
  auto parameter = [&](const std::string& text) {
    parameters += (parameters.empty() ? "" : ", ") + text;
  };
  for (int i = 0; i < maps; ++i)
    parameter(fmt::format("const __grid_constant__ tenon::device::TensorMap map{}", i));
  for (const Member& m : members_) {
    // The scratch buffer stands where a workspace does: after inputs and outputs, before m.
    if (m.name == "m" && scratch) parameter("unsigned* scratch");
    parameter(m.type + " " + m.name);
    values += (values.empty() ? "" : ", ") + m.name;
  }
  if (scratch && !takes_m_) parameter("unsigned* scratch");
  if (tile_rows) parameter("int tile_rows");
  return fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}, {})\n{}({}) {{\n  const Args "
      "args{{{}}};\n{}}}\n",
      threads, blocks_per_sm, entry(), parameters, values, body);
}

std::string KernelWriter::rows_expression() const {
  int row = context_.facts->row;
  if (row >= 0 && row == ir::dynamic_dim(workload_))
    return row_factor() > 1 ? fmt::format("args.m * {}LL", row_factor()) : "args.m";
  return std::to_string(context_.extent(row));
}

std::int64_t KernelWriter::row_factor() const {
  const std::optional<ir::Dataflow::Merge>& merge = context_.facts->flow.merge;
  return merge && merge->first == context_.facts->row ? context_.extent(merge->second) : 1;
}

std::string KernelWriter::rows_size() const {
  int row = context_.facts->row;
  if (row < 0) return "1";
  std::string name = workload_.program.signature.dims[static_cast<std::size_t>(row)];
  return row_factor() > 1 ? fmt::format("{} * {}", name, row_factor()) : name;
}

ir::SizeExpr KernelWriter::size(const std::string& text) const {
  return ir::SizeExpr::parse(text, workload_.program.signature.dims);
}

OutputKinds output_kinds(const KernelContext& context) {
  OutputKinds kinds;
  const auto& outputs = context.facts->flow.outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    (outputs[i].tensor.axes.size() == 2 ? kinds.wide : kinds.row_only).push_back(i);
  return kinds;
}

std::string index_table(const std::string& alias, const std::vector<std::string>& structs) {
  std::string text = fmt::format("template <int i> struct {}At;\n", alias);
  for (std::size_t i = 0; i < structs.size(); ++i)
    text +=
        fmt::format("template <> struct {}At<{}> {{ using Type = {}; }};\n", alias, i, structs[i]);
  return text;
}

}  // namespace tenon::codegen
