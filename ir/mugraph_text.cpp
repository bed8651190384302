// Printing µGraphs (docs/text-form.md). Parsing is in mugraph_parse.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/error.h"
#include "ir/graph_text.h"
#include "ir/mugraph.h"

namespace tenon::ir {
namespace {

const Tensor& tensor_of(const MuGraph& graph, TensorId id) {
  TENON_CHECK(id >= 0 && static_cast<std::size_t>(id) < graph.tensors.size(), "no such tensor");
  return graph.tensors[static_cast<std::size_t>(id)];
}

bool is_internal(const Tensor& tensor) {
  return tensor.kind == TensorKind::kPrepared || tensor.kind == TensorKind::kIntermediate;
}

std::string join_values(const std::vector<ValueId>& values, const ValueNames& names) {
  std::string text;
  for (ValueId v : values) text += (text.empty() ? "" : ", ") + names(v);
  return text;
}

// "store t: T[m] = %3", and without the type for an output of the signature.
std::string print_store(const MuGraph& graph, const BlockOutput& output, const ValueNames& names) {
  const Tensor& tensor = tensor_of(graph, output.tensor);
  const std::string type =
      is_internal(tensor) ? ": " + print_type(tensor.dtype, tensor.axes, graph.signature) : "";
  return fmt::format("  store {}{} = {}\n", tensor.name, type, names(output.value));
}

// The operands of nodes and the stored values, each once, in order of first use.
std::vector<std::string> inputs_by_first_use(const Prepare& prepare) {
  std::vector<std::string> order;
  std::set<ValueId> seen;
  auto use = [&](ValueId v) {
    if (v != kNoValue && prepare.graph.is_input(v) && seen.insert(v).second) {
      order.push_back(prepare.graph.inputs()[static_cast<std::size_t>(v)].name);
    }
  };
  for (const Node& node : prepare.graph.nodes()) {
    use(node.a);
    use(node.b);
  }
  for (const BlockOutput& output : prepare.outputs) use(output.value);
  return order;
}

std::string print_prepare(const MuGraph& graph) {
  const Prepare& prepare = graph.prepare;
  if (prepare.outputs.empty() && prepare.graph.value_count() == 0) return "";
  std::string text = "prepare {\n";
  std::vector<std::string> inputs;
  for (const GraphInput& input : prepare.graph.inputs()) inputs.push_back(input.name);
  if (inputs != inputs_by_first_use(prepare))
    text += fmt::format("  load {}\n", fmt::join(inputs, ", "));
  const ValueNames names(prepare.graph);
  for (std::size_t i = 0; i < prepare.graph.nodes().size(); ++i) {
    text += fmt::format("  %{} = {}\n", i,
                        print_operation(prepare.graph.nodes()[i], names, graph.signature));
  }
  for (const BlockOutput& output : prepare.outputs) text += print_store(graph, output, names);
  return text + "}\n";
}

// One of an accumulator's expressions; its inputs are named in the parentheses.
std::string print_section(const std::string& word, const Graph& section,
                          const std::vector<ValueId>& out, const Signature& signature) {
  std::string inputs;
  std::set<std::string> distinct;
  for (const GraphInput& input : section.inputs()) {
    TENON_CHECK(is_name(input.name) && distinct.insert(input.name).second,
                "the inputs of an accumulator's expression need distinct names");
    inputs += (inputs.empty() ? "" : ", ") + input.name;
  }
  std::string text =
      fmt::format("    {}{} {{\n", word, inputs.empty() ? "" : fmt::format(" ({})", inputs));
  const ValueNames names(section);
  for (std::size_t i = 0; i < section.nodes().size(); ++i) {
    text +=
        fmt::format("      %{} = {}\n", i, print_operation(section.nodes()[i], names, signature));
  }
  return text + fmt::format("      yield {}\n    }}\n", join_values(out, names));
}

// Prints the body of a block graph: its nodes, with each accumulator where its first
// result stands.
class BlockPrinter {
 public:
  BlockPrinter(const MuGraph& graph, const BlockGraph& block)
      : graph_(graph),
        block_(block),
        names_(block.graph, load_names()),
        printed_(block.accumulators.size()) {}

  std::string print() {
    print_dims();
    print_loads();
    const std::vector<Node>& nodes = block_.graph.nodes();
    for (node_ = 0; node_ < nodes.size(); ++node_) {
      if (nodes[node_].op == OpKind::kAccumulated) {
        print_accumulated(nodes[node_]);
      } else {
        text_ += fmt::format("  %{} = {}\n", node_,
                             print_operation(nodes[node_], names_, graph_.signature));
      }
    }
    for (std::size_t i = 0; i < block_.accumulators.size(); ++i) {
      if (!printed_[i]) text_ += "  " + print_accumulator(i) + "\n";
    }
    for (const BlockOutput& output : block_.outputs) text_ += print_store(graph_, output, names_);
    return std::move(text_);
  }

 private:
  // The tensor's name; a tensor loaded again gets x.2, x.3, … that no other load has.
  std::vector<std::string> load_names() const {
    std::set<std::string> taken;
    for (const BlockInput& input : block_.inputs)
      taken.insert(tensor_of(graph_, input.tensor).name);
    std::set<TensorId> seen;
    std::vector<std::string> names;
    for (const BlockInput& input : block_.inputs) {
      const std::string& tensor = tensor_of(graph_, input.tensor).name;
      std::string name = tensor;
      if (!seen.insert(input.tensor).second) {
        for (int i = 2; taken.count(name) != 0; ++i) name = fmt::format("{}.{}", tensor, i);
        taken.insert(name);
      }
      names.push_back(std::move(name));
    }
    return names;
  }

  void print_dims() {
    std::string grid;
    for (const GridDim& dim : block_.grid) {
      grid += fmt::format("{}{}{}", grid.empty() ? "" : ", ", dim.split ? "split " : "",
                          dim_name(graph_.signature, dim.dim));
    }
    if (!grid.empty()) text_ += fmt::format("  grid {}\n", grid);
    std::string loop;
    for (DimId dim : block_.loop)
      loop += (loop.empty() ? "" : ", ") + dim_name(graph_.signature, dim);
    if (!loop.empty()) text_ += fmt::format("  loop {}\n", loop);
  }

  void print_loads() {
    for (std::size_t i = 0; i < block_.inputs.size(); ++i) {
      const BlockInput& input = block_.inputs[i];
      const Tensor& tensor = tensor_of(graph_, input.tensor);
      TENON_CHECK(input.maps.size() == tensor.axes.size(), "one map for each axis");
      std::string maps;
      for (std::size_t a = 0; a < input.maps.size(); ++a) {
        const AxisMap& map = input.maps[a];
        maps += fmt::format("{}{}: {}", maps.empty() ? "" : ", ",
                            dim_name(graph_.signature, tensor.axes[a].dim), part_name(map.part));
        if (map.shift != 0) maps += fmt::format(" shift {}", map.shift);
      }
      const std::string name = names_(static_cast<ValueId>(i));
      text_ += fmt::format("  load {}{} [{}]\n", tensor.name,
                           name == tensor.name ? "" : " as " + name, maps);
    }
  }

  bool is_result(std::size_t node, int accumulator, int result) const {
    const std::vector<Node>& nodes = block_.graph.nodes();
    return node < nodes.size() && nodes[node].op == OpKind::kAccumulated &&
           nodes[node].accumulator == accumulator && nodes[node].result == result;
  }

  // All results of an accumulator in a row are named where it stands; otherwise it
  // stands alone and its results are nodes of their own.
  void print_accumulated(const Node& first) {
    const auto index = static_cast<std::size_t>(first.accumulator);
    TENON_CHECK(index < block_.accumulators.size(), "no such accumulator");
    if (printed_[index]) {
      text_ += fmt::format("  %{} = result({}, {})\n", node_, index, first.result);
      return;
    }
    const Accumulator& accumulator = block_.accumulators[index];
    const auto results = static_cast<int>(accumulator.finalize_out.size());
    int in_row = 0;
    while (in_row < results &&
           is_result(node_ + static_cast<std::size_t>(in_row), first.accumulator, in_row)) {
      ++in_row;
    }
    if (results == 0 || in_row < results) {
      text_ += fmt::format("  {}\n  %{} = result({}, {})\n", print_accumulator(index), node_, index,
                           first.result);
    } else if (accumulator.kind == "custom") {
      std::string names;
      for (int i = 0; i < results; ++i) {
        names += fmt::format("{}%{}", i == 0 ? "" : ", ", node_ + static_cast<std::size_t>(i));
      }
      text_ += fmt::format("  {} -> {}\n", print_accumulator(index), names);
      node_ += static_cast<std::size_t>(results) - 1;
    } else {
      text_ += fmt::format("  %{} = {}\n", node_, print_accumulator(index));
    }
  }

  // "accumulate sum(%0, k)"; the index is given where it is not the next one.
  std::string print_accumulator(std::size_t index) {
    const Accumulator& accumulator = block_.accumulators[index];
    std::string text = "accumulate";
    if (index != declared_) text += fmt::format("[{}]", index);
    ++declared_;
    printed_[index] = true;
    const std::string operands = join_values(accumulator.operands, names_);
    const std::string& dim = dim_name(graph_.signature, accumulator.dim);
    if (accumulator.kind != "custom")
      return fmt::format("{} {}({}, {})", text, accumulator.kind, operands, dim);
    text += fmt::format(" custom over {} ({}) {{\n", dim, operands);
    for (const Axes& state : accumulator.states) {
      text += fmt::format("    state {}\n", print_axes(state, graph_.signature));
    }
    text += print_section("init", accumulator.init, accumulator.init_out, graph_.signature);
    text += print_section("update", accumulator.update, accumulator.update_out, graph_.signature);
    text += print_section("merge", accumulator.merge, accumulator.merge_out, graph_.signature);
    text +=
        print_section("final", accumulator.finalize, accumulator.finalize_out, graph_.signature);
    return text + "  }";
  }

  const MuGraph& graph_;
  const BlockGraph& block_;
  ValueNames names_;
  std::string text_;
  std::size_t node_ = 0;
  std::vector<bool> printed_;
  std::size_t declared_ = 0;
};

std::string print_kernel(const MuGraph& graph, const Kernel& kernel) {
  if (const BlockGraph* block = kernel.block()) {
    return fmt::format("kernel {} {{\n{}}}\n", kernel.name, BlockPrinter(graph, *block).print());
  }
  const LibraryMatmul& product = *kernel.library();
  const Tensor& out = tensor_of(graph, product.out);
  return fmt::format(
      "kernel {} library matmul({}, {}, {}) -> {}{}\n", kernel.name,
      tensor_of(graph, product.a).name, tensor_of(graph, product.b).name,
      dim_name(graph.signature, product.dim), out.name,
      is_internal(out) ? ": " + print_type(out.dtype, out.axes, graph.signature) : "");
}

// Tensors that are neither inputs nor outputs, in the order the text stores them.
std::vector<TensorId> internals_by_store(const MuGraph& graph) {
  std::vector<TensorId> order;
  auto store = [&](TensorId id) {
    if (is_internal(tensor_of(graph, id))) order.push_back(id);
  };
  for (const BlockOutput& output : graph.prepare.outputs) store(output.tensor);
  for (const Kernel& kernel : graph.kernels) {
    if (const LibraryMatmul* product = kernel.library()) {
      store(product->out);
    } else {
      for (const BlockOutput& output : kernel.block()->outputs) store(output.tensor);
    }
  }
  return order;
}

}  // namespace

std::string print(const MuGraph& graph) {
  const Signature& signature = graph.signature;
  TENON_CHECK(signature.outputs.size() == signature.output_axes.size(), "axes for each output");
  std::string text = fmt::format("mugraph {}\n", signature.program) + print_signature(signature);
  for (std::size_t i = 0; i < signature.outputs.size(); ++i) {
    const ProgramOutput& output = signature.outputs[i];
    text += fmt::format("output {}: {}\n", output.name,
                        print_type(output.dtype, signature.output_axes[i], signature));
  }
  const std::vector<TensorId> stored = internals_by_store(graph);
  if (!std::is_sorted(stored.begin(), stored.end())) {
    std::vector<TensorId> order = stored;
    std::sort(order.begin(), order.end());
    std::string names;
    for (TensorId id : order) names += (names.empty() ? "" : ", ") + tensor_of(graph, id).name;
    text += fmt::format("order {}\n", names);
  }
  text += print_prepare(graph);
  for (const Kernel& kernel : graph.kernels) text += print_kernel(graph, kernel);
  return text;
}

}  // namespace tenon::ir
