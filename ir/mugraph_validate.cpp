// Whole-graph check of µGraphs. Axes were checked when the nodes were made; here: tensors are
// written once and before they are read, tile maps fit grid and loop, and no output depends on
// how a loop or a split was cut.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/error.h"
#include "ir/mugraph.h"

namespace tenon::ir {

namespace {

using DimSet = std::uint64_t;

DimSet bit(DimId dim) { return DimSet{1} << dim; }

std::string names_of(const MuGraph& graph, DimSet set) {
  std::string text;
  for (std::size_t d = 0; d < graph.signature.dims.size(); ++d)
    if (set & bit(static_cast<DimId>(d)))
      text += (text.empty() ? "" : ", ") + graph.signature.dims[d];
  return text;
}

class BlockChecker {
 public:
  BlockChecker(const MuGraph& graph, const Kernel& kernel)
      : graph_(graph), block_(*kernel.block()), where_("kernel " + kernel.name) {}

  void run() {
    check_dims();
    check_inputs();
    check_values();
    check_accumulators();
    check_outputs();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw UserError(where_ + ": " + what); }

  void check_dims() {
    for (const GridDim& g : block_.grid) {
      if (g.dim >= graph_.signature.dims.size()) fail("the grid names a dim that is not declared");
      if (grid_ & bit(g.dim)) fail("the grid names a dim twice");
      grid_ |= bit(g.dim);
      if (g.split) split_ |= bit(g.dim);
    }
    for (DimId d : block_.loop) {
      if (d >= graph_.signature.dims.size()) fail("the loop names a dim that is not declared");
      if (loop_ & bit(d)) fail("the loop names a dim twice");
      loop_ |= bit(d);
    }
  }

  void check_inputs() {
    if (block_.inputs.size() != block_.graph.inputs().size())
      fail("inputs and loads differ in number");
    std::set<TensorId> seen;
    for (std::size_t i = 0; i < block_.inputs.size(); ++i) {
      const BlockInput& in = block_.inputs[i];
      if (in.tensor < 0 || in.tensor >= static_cast<TensorId>(graph_.tensors.size()))
        fail("a load names no tensor");
      const Tensor& tensor = graph_.tensors[static_cast<std::size_t>(in.tensor)];
      if (in.maps.size() != tensor.axes.size())
        fail(fmt::format("load {} must map each of its {} axes", tensor.name, tensor.axes.size()));
      for (std::size_t a = 0; a < in.maps.size(); ++a)
        check_map(tensor, tensor.axes[a].dim, in.maps[a]);
      if (block_.graph.inputs()[i].axes != tiled_axes(tensor, in))
        fail("load " + tensor.name + ": axes do not follow its maps");
    }
  }

  void check_map(const Tensor& tensor, DimId dim, const AxisMap& map) const {
    const std::string& name = graph_.signature.dims[dim];
    bool in_grid = grid_ & bit(dim);
    bool in_loop = loop_ & bit(dim);
    if ((map.part & kGrid) && !in_grid)
      fail(fmt::format("load {}: {} is not in the grid", tensor.name, name));
    if ((map.part & kLoop) && !in_loop)
      fail(fmt::format("load {}: {} is not in the loop", tensor.name, name));
    if (map.part == kLoop && in_grid)
      fail(fmt::format("load {}: {} is in grid and loop, so it is full, grid or grid+loop",
                       tensor.name, name));
    if (map.shift != 0 && !(map.part & kGrid))
      fail(fmt::format("load {}: {} is shifted but not split by the grid", tensor.name, name));
  }

  // What a value varies with beyond its block: loop steps and split shares.
  void check_values() {
    const Graph& g = block_.graph;
    std::vector<Stage> stage = stages(block_);
    varies_.assign(static_cast<std::size_t>(g.value_count()), 0);
    for (ValueId v = 0; v < g.value_count(); ++v) {
      DimSet& varies = varies_[static_cast<std::size_t>(v)];
      if (g.is_input(v)) {
        for (const Axis& axis : g.axes(v)) {
          if (axis.part & kLoop) varies |= bit(axis.dim);
          if ((axis.part & kGrid) && (split_ & bit(axis.dim))) varies |= bit(axis.dim);
        }
        continue;
      }
      const Node& node = g.node(v);
      if (node.op == OpKind::kAccumulated) {
        if (node.accumulator < 0 ||
            node.accumulator >= static_cast<int>(block_.accumulators.size()))
          fail("a value names an accumulator that does not exist");
        const Accumulator& acc = block_.accumulators[static_cast<std::size_t>(node.accumulator)];
        if (node.result < 0 || node.result >= static_cast<int>(acc.finalize_out.size()) ||
            node.axes != result_axes(acc, node.result))
          fail("a value names a result that its accumulator does not have");
        for (ValueId operand : acc.operands)
          if (operand >= v) fail("an accumulator's result precedes its operand");
        continue;
      }
      bool body = false;
      bool epilogue = false;
      for (ValueId operand : {node.a, node.b}) {
        if (operand == kNoValue) continue;
        varies |= varies_[static_cast<std::size_t>(operand)];
        body = body || stage[static_cast<std::size_t>(operand)] == Stage::kBody;
        epilogue = epilogue || stage[static_cast<std::size_t>(operand)] == Stage::kEpilogue;
      }
      if (body && epilogue) fail("a value of the loop body is combined with an accumulated one");
      if (epilogue && varies)
        fail("a value of one split share is combined with an accumulated one");
    }
    stage_ = std::move(stage);
  }

  void check_accumulators() {
    const Graph& g = block_.graph;
    for (const Accumulator& acc : block_.accumulators) {
      DimSet varies = 0;
      if (acc.operands.empty()) fail("an accumulator has no operand");
      for (ValueId operand : acc.operands) {
        if (operand < 0 || operand >= g.value_count()) fail("an accumulator names no value");
        if (stage_[static_cast<std::size_t>(operand)] == Stage::kEpilogue)
          fail("an accumulator takes an accumulated value");
        varies |= varies_[static_cast<std::size_t>(operand)];
      }
      DimSet reduced = bit(acc.dim) & (loop_ | split_);
      DimSet cut = loop_ | split_;
      if (varies & ~reduced)
        fail(fmt::format("an accumulator over {} takes a value that varies with {}",
                         graph_.signature.dims[acc.dim], names_of(graph_, varies & ~reduced)));
      if (cut & ~varies)
        fail(
            fmt::format("an accumulator takes a value that does not vary with {}, and would count "
                        "it once a step",
                        names_of(graph_, cut & ~varies)));
      check_accumulator_shape(acc);
    }
  }

  void check_accumulator_shape(const Accumulator& acc) const {
    std::size_t n = acc.states.size();
    bool ok = n > 0 && acc.init.inputs().empty() && acc.init_out.size() == n &&
              acc.update_out.size() == n && acc.merge_out.size() == n &&
              acc.update.inputs().size() == n + acc.operands.size() &&
              acc.merge.inputs().size() == 2 * n && acc.finalize.inputs().size() == n &&
              !acc.finalize_out.empty();
    if (!ok) fail("an accumulator's expressions do not fit its states and operands");
    for (std::size_t i = 0; i < n; ++i) {
      for (const Axis& axis : acc.states[i])
        if ((axis.part & kLoop) || ((axis.part & kGrid) && (split_ & bit(axis.dim))))
          fail("an accumulator's state has an axis that a step or share cuts");
      ok = acc.init.axes(acc.init_out[i]) == acc.states[i] &&
           acc.update.axes(acc.update_out[i]) == acc.states[i] &&
           acc.merge.axes(acc.merge_out[i]) == acc.states[i] &&
           acc.update.inputs()[i].axes == acc.states[i] &&
           acc.merge.inputs()[i].axes == acc.states[i] &&
           acc.merge.inputs()[n + i].axes == acc.states[i] &&
           acc.finalize.inputs()[i].axes == acc.states[i];
      if (!ok) fail("an accumulator's expressions have other axes than its states");
    }
    for (std::size_t i = 0; i < acc.operands.size(); ++i)
      if (acc.update.inputs()[n + i].axes != block_.graph.axes(acc.operands[i]))
        fail("an accumulator's update has other axes than its operands");
  }

  void check_outputs() const {
    if (block_.outputs.empty()) fail("it stores nothing");
    for (const BlockOutput& out : block_.outputs) {
      if (out.value < 0 || out.value >= block_.graph.value_count()) fail("a store names no value");
      const Tensor& tensor = graph_.tensors[static_cast<std::size_t>(out.tensor)];
      const Axes& axes = block_.graph.axes(out.value);
      if (axes.size() != tensor.axes.size())
        fail("store " + tensor.name + ": the value has other axes");
      DimSet along = 0;
      for (const Axis& axis : axes) {
        if (find_dim(tensor.axes, axis.dim) < 0)
          fail("store " + tensor.name + ": the value has other axes");
        if (axis.part != kFull) along |= bit(axis.dim);
      }
      DimSet loose = varies_[static_cast<std::size_t>(out.value)] & ~along;
      if (loose)
        fail(fmt::format("store {}: the value depends on how {} is cut", tensor.name,
                         names_of(graph_, loose)));
    }
  }

  const MuGraph& graph_;
  const BlockGraph& block_;
  std::string where_;
  DimSet grid_ = 0, loop_ = 0, split_ = 0;
  std::vector<Stage> stage_;
  std::vector<DimSet> varies_;
};

class Checker {
 public:
  explicit Checker(const MuGraph& graph) : graph_(graph) {}

  void run() {
    check_tensors();
    written_.assign(graph_.tensors.size(), false);
    for (std::size_t t = 0; t < graph_.signature.inputs.size(); ++t) written_[t] = true;
    check_prepare();
    if (graph_.kernels.empty())
      throw UserError("the µGraph has no kernel; it must have at least one");
    for (const Kernel& kernel : graph_.kernels) check_kernel(kernel);
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      const Tensor& tensor = graph_.tensors[t];
      if (!written_[t]) throw UserError("tensor " + tensor.name + " is never written");
      bool internal =
          tensor.kind == TensorKind::kPrepared || tensor.kind == TensorKind::kIntermediate;
      if (internal && !read_.count(static_cast<TensorId>(t)))
        throw UserError("tensor " + tensor.name + " is never read");
    }
  }

 private:
  void check_tensors() const {
    const Signature& s = graph_.signature;
    if (s.dims.size() > 64) throw UserError("the µGraph declares more than 64 dims");
    if (graph_.tensors.size() < s.inputs.size() + s.outputs.size())
      throw UserError("the µGraph lacks a tensor of its signature");
    std::set<std::string> names;
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      const Tensor& tensor = graph_.tensors[t];
      if (!names.insert(tensor.name).second)
        throw UserError("tensor " + tensor.name + " is declared twice");
      for (const Axis& axis : tensor.axes)
        if (axis.dim >= s.dims.size() || axis.part != kFull)
          throw UserError("tensor " + tensor.name + " has an axis that is not a declared dim");
      if (t < s.inputs.size()) {
        const ProgramInput& in = s.inputs[t];
        if (tensor.kind != TensorKind::kInput || tensor.name != in.name || tensor.axes != in.axes ||
            tensor.dtype != in.dtype)
          throw UserError("tensor " + tensor.name + " differs from input " + in.name);
      } else if (t < s.inputs.size() + s.outputs.size()) {
        std::size_t o = t - s.inputs.size();
        if (tensor.kind != TensorKind::kOutput || tensor.name != s.outputs[o].name ||
            tensor.axes != s.output_axes[o] || tensor.dtype != s.outputs[o].dtype)
          throw UserError("tensor " + tensor.name + " differs from output " + s.outputs[o].name);
      } else if (tensor.kind == TensorKind::kInput || tensor.kind == TensorKind::kOutput) {
        throw UserError("tensor " + tensor.name + " is not in the signature");
      }
    }
  }

  void write(TensorId t, TensorKind expected) {
    if (t < 0 || t >= static_cast<TensorId>(graph_.tensors.size()))
      throw UserError("a store names no tensor");
    const Tensor& tensor = graph_.tensors[static_cast<std::size_t>(t)];
    bool fits = expected == TensorKind::kPrepared ? tensor.kind == TensorKind::kPrepared
                                                  : tensor.kind == TensorKind::kIntermediate ||
                                                        tensor.kind == TensorKind::kOutput;
    if (!fits) throw UserError("tensor " + tensor.name + " cannot be stored there");
    if (written_[static_cast<std::size_t>(t)])
      throw UserError("tensor " + tensor.name + " is written twice");
    written_[static_cast<std::size_t>(t)] = true;
  }

  void read(TensorId t, const std::string& where) {
    if (t < 0 || t >= static_cast<TensorId>(graph_.tensors.size()))
      throw UserError(where + " reads no tensor");
    const Tensor& tensor = graph_.tensors[static_cast<std::size_t>(t)];
    if (!written_[static_cast<std::size_t>(t)])
      throw UserError(where + " reads " + tensor.name + " before it is written");
    read_.insert(t);
  }

  void check_prepare() {
    const Graph& g = graph_.prepare.graph;
    for (const GraphInput& in : g.inputs()) {
      auto it = std::find_if(graph_.signature.inputs.begin(), graph_.signature.inputs.end(),
                             [&](const ProgramInput& p) { return p.name == in.name; });
      if (it == graph_.signature.inputs.end() || it->role != Role::kParameter)
        throw UserError("prepare reads " + in.name + ", which is not a parameter");
      if (it->axes != in.axes)
        throw UserError("prepare reads " + in.name + " with other axes than it has");
    }
    for (const Node& node : g.nodes())
      if (node.op == OpKind::kAccumulated) throw UserError("prepare uses an accumulator");
    for (const BlockOutput& out : graph_.prepare.outputs) {
      write(out.tensor, TensorKind::kPrepared);
      const Tensor& tensor = graph_.tensors[static_cast<std::size_t>(out.tensor)];
      if (out.value < 0 || out.value >= g.value_count())
        throw UserError("prepare stores no value in " + tensor.name);
      Axes have = g.axes(out.value);
      Axes want = tensor.axes;
      std::sort(have.begin(), have.end());
      std::sort(want.begin(), want.end());
      if (have != want) throw UserError("prepare stores a value with other axes in " + tensor.name);
    }
  }

  void check_kernel(const Kernel& kernel) {
    std::string where = "kernel " + kernel.name;
    if (const LibraryMatmul* product = kernel.library()) {
      read(product->a, where);
      read(product->b, where);
      write(product->out, TensorKind::kIntermediate);
      Graph probe;
      ValueId a = probe.input("a", graph_.tensors[static_cast<std::size_t>(product->a)].axes);
      ValueId b = probe.input("b", graph_.tensors[static_cast<std::size_t>(product->b)].axes);
      if (probe.axes(probe.matmul(a, b, product->dim)) !=
          graph_.tensors[static_cast<std::size_t>(product->out)].axes)
        throw UserError(where + ": the product has other axes than its output");
      return;
    }
    for (const BlockInput& in : kernel.block()->inputs) read(in.tensor, where);
    for (const BlockOutput& out : kernel.block()->outputs)
      write(out.tensor, TensorKind::kIntermediate);
    BlockChecker(graph_, kernel).run();
  }

  const MuGraph& graph_;
  std::vector<bool> written_;
  std::set<TensorId> read_;
};

}  // namespace

void validate(const MuGraph& graph) { Checker(graph).run(); }

}  // namespace tenon::ir
