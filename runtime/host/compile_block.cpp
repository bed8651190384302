#include <algorithm>

#include "ir/error.h"
#include "runtime/host/block.h"
#include "runtime/host/block_program.h"

namespace tenon::runtime::host {

using ir::Stage;
using ir::ValueId;

namespace {

// Steps that copy `from` into slot `to`.
void copy(Frame& frame, Place from, int to, ir::DType elem, Steps& steps) {
  if (from.kind == Place::kSlot && from.index == to) return;
  ir::Graph graph;
  ValueId v = graph.input("x", frame.slots[static_cast<std::size_t>(to)].axes);
  std::vector<Place> places = {from};
  for (Step& step : compile(frame, graph, {}, places, {Export{v, to}}, {}, elem))
    steps.push_back(std::move(step));
}

std::vector<ValueId> all_nodes(const ir::Graph& graph) {
  std::vector<ValueId> nodes;
  for (ValueId v = static_cast<ValueId>(graph.inputs().size()); v < graph.value_count(); ++v)
    nodes.push_back(v);
  return nodes;
}

class BlockCompiler {
 public:
  BlockCompiler(const ir::MuGraph& graph, const ir::BlockGraph& block, ir::DType elem)
      : graph_(graph), block_(block), elem_(elem), stage_(ir::stages(block)) {
    bool split = std::any_of(block.grid.begin(), block.grid.end(),
                             [](const ir::GridDim& g) { return g.split; });
    // Without loop and split everything before the epilogue runs once: one stage fuses better.
    if (block.loop.empty() && !split)
      for (Stage& s : stage_)
        if (s == Stage::kPrologue) s = Stage::kBody;
  }

  CompiledBlock run() {
    places_.resize(static_cast<std::size_t>(block_.graph.value_count()));
    make_inputs();
    make_outputs();
    make_states();
    out_.prologue = compile_stage(Stage::kPrologue, {});
    out_.body = compile_stage(Stage::kBody, fused_sums());
    for (std::size_t i = 0; i < block_.accumulators.size(); ++i) make_accumulator(i);
    place_results();
    out_.epilogue = compile_stage(Stage::kEpilogue, {});
    return std::move(out_);
  }

 private:
  Frame& frame() { return out_.frame; }
  Stage stage(ValueId v) const { return stage_[static_cast<std::size_t>(v)]; }
  Place& place(ValueId v) { return places_[static_cast<std::size_t>(v)]; }

  void make_inputs() {
    for (std::size_t i = 0; i < block_.inputs.size(); ++i) {
      const ir::BlockInput& in = block_.inputs[i];
      const ir::Tensor& tensor = graph_.tensors[static_cast<std::size_t>(in.tensor)];
      const ir::Axes& axes = block_.graph.inputs()[i].axes;
      bool shifted = std::any_of(in.maps.begin(), in.maps.end(),
                                 [](const ir::AxisMap& m) { return m.shift != 0; });
      int slot = shifted ? add_slot(frame(), axes)
                         : add_slot(frame(), axes, ir::bind(tensor.dtype, elem_), true);
      if (shifted) {
        bool in_loop = std::any_of(axes.begin(), axes.end(),
                                   [](const ir::Axis& a) { return (a.part & ir::kLoop) != 0; });
        out_.shifted.push_back({in.tensor, slot, in.maps, in_loop});
      } else {
        out_.inputs.push_back({in.tensor, slot, ir::kNoValue});
      }
      place(static_cast<ValueId>(i)) = {Place::kSlot, slot};
    }
  }

  void make_outputs() {
    for (const ir::BlockOutput& o : block_.outputs) {
      const ir::Tensor& tensor = graph_.tensors[static_cast<std::size_t>(o.tensor)];
      ir::Axes axes = tensor.axes;  // storage order of the tensor, tiling of the value
      for (ir::Axis& axis : axes) {
        const ir::Axes& have = block_.graph.axes(o.value);
        axis.part = have[static_cast<std::size_t>(ir::find_dim(have, axis.dim))].part;
      }
      out_.outputs.push_back(
          {o.tensor, add_slot(frame(), axes, ir::bind(tensor.dtype, elem_), true), o.value});
    }
  }

  void make_states() {
    for (const ir::Accumulator& acc : block_.accumulators) {
      CompiledAccumulator c;
      for (const ir::Axes& axes : acc.states) {
        c.states.push_back(add_slot(frame(), axes));
        c.right.push_back(add_slot(frame(), axes, ir::DType::kF32, true));
      }
      out_.accumulators.push_back(std::move(c));
    }
  }

  // Sums over the loop are stores of the body's chains.
  std::vector<SumInto> fused_sums() const {
    std::vector<SumInto> sums;
    for (std::size_t i = 0; i < block_.accumulators.size(); ++i)
      if (block_.accumulators[i].kind == "sum")
        sums.push_back({block_.accumulators[i].operands[0], out_.accumulators[i].states[0]});
    return sums;
  }

  Steps compile_stage(Stage which, const std::vector<SumInto>& sums) {
    std::vector<ValueId> values;
    std::vector<Export> exports;
    for (ValueId v : all_nodes(block_.graph)) {
      const ir::Node& node = block_.graph.node(v);
      if (node.op == ir::OpKind::kConst ? which == Stage::kPrologue : stage(v) == which)
        values.push_back(v);
      // Operands from an earlier stage must be in memory.
      for (ValueId operand : {node.a, node.b})
        if (operand != ir::kNoValue && stage(operand) == which && stage(v) != which &&
            !block_.graph.is_input(operand))
          exports.push_back({operand, -1});
    }
    for (const ir::Accumulator& acc : block_.accumulators)
      for (ValueId operand : acc.operands)
        if (!block_.graph.is_input(operand) && stage(operand) == which &&
            !(acc.kind == "sum" && which == Stage::kBody))
          exports.push_back({operand, -1});
    for (std::size_t i = 0; i < block_.outputs.size(); ++i)
      if (stage(block_.outputs[i].value) == which)
        exports.push_back({block_.outputs[i].value, out_.outputs[i].slot});
    return compile(frame(), block_.graph, values, places_, exports, sums, elem_);
  }

  // Copies the values `out` of an expression into `slots`, all read before any is written.
  void assign(const ir::Graph& graph, const std::vector<ValueId>& out,
              const std::vector<Place>& places, const std::vector<int>& slots, Steps& steps) {
    std::vector<Place> from;
    for (std::size_t i = 0; i < out.size(); ++i) {
      Place p = places[static_cast<std::size_t>(out[i])];
      bool overwritten = p.kind == Place::kSlot && p.index != slots[i] &&
                         std::find(slots.begin(), slots.end(), p.index) != slots.end();
      if (overwritten) {
        int temporary = add_slot(frame(), graph.axes(out[i]));
        copy(frame(), p, temporary, elem_, steps);
        p.index = temporary;
      }
      from.push_back(p);
    }
    for (std::size_t i = 0; i < out.size(); ++i) copy(frame(), from[i], slots[i], elem_, steps);
  }

  Steps expression(const ir::Graph& graph, const std::vector<ValueId>& out,
                   std::vector<Place>& places) {
    std::vector<Export> exports;
    for (ValueId v : out)
      if (!graph.is_input(v)) exports.push_back({v, -1});
    return compile(frame(), graph, all_nodes(graph), places, exports, {}, elem_);
  }

  void make_accumulator(std::size_t index) {
    const ir::Accumulator& acc = block_.accumulators[index];
    CompiledAccumulator& c = out_.accumulators[index];
    std::vector<Place> states, merged;
    for (int slot : c.states) states.push_back({Place::kSlot, slot});
    merged = states;
    for (int slot : c.right) merged.push_back({Place::kSlot, slot});

    std::vector<Place> places;
    c.init = expression(acc.init, acc.init_out, places);
    assign(acc.init, acc.init_out, places, c.states, c.init);

    if (acc.kind == "matmul" && place(acc.operands[0]).kind == Place::kSlot &&
        place(acc.operands[1]).kind == Place::kSlot) {
      c.update.push_back(compile_product(frame(), place(acc.operands[0]).index,
                                         place(acc.operands[1]).index, acc.dim, c.states[0],
                                         false));
    } else if (acc.kind != "sum") {
      places = states;
      for (ValueId operand : acc.operands) places.push_back(place(operand));
      c.update = expression(acc.update, acc.update_out, places);
      assign(acc.update, acc.update_out, places, c.states, c.update);
    }

    places = merged;
    c.merge = expression(acc.merge, acc.merge_out, places);
    assign(acc.merge, acc.merge_out, places, c.states, c.merge);

    places = states;
    c.finalize = expression(acc.finalize, acc.finalize_out, places);
    for (ValueId v : acc.finalize_out) results_.push_back(places[static_cast<std::size_t>(v)]);
  }

  void place_results() {
    std::vector<std::size_t> first;
    std::size_t count = 0;
    for (const ir::Accumulator& acc : block_.accumulators) {
      first.push_back(count);
      count += acc.finalize_out.size();
    }
    for (ValueId v : all_nodes(block_.graph)) {
      const ir::Node& node = block_.graph.node(v);
      if (node.op == ir::OpKind::kAccumulated)
        place(v) = results_[first[static_cast<std::size_t>(node.accumulator)] +
                            static_cast<std::size_t>(node.result)];
    }
  }

  const ir::MuGraph& graph_;
  const ir::BlockGraph& block_;
  ir::DType elem_;
  std::vector<Stage> stage_;
  std::vector<Place> places_;
  std::vector<Place> results_;
  CompiledBlock out_;
};

}  // namespace

CompiledBlock compile_block(const ir::MuGraph& graph, const ir::BlockGraph& block, ir::DType elem) {
  return BlockCompiler(graph, block, elem).run();
}

ir::BlockGraph product_block(const ir::MuGraph& graph, const ir::LibraryMatmul& product) {
  const ir::Tensor& out = graph.tensors[static_cast<std::size_t>(product.out)];
  ir::BlockGraph block;
  for (const ir::Axis& axis : out.axes) block.grid.push_back({axis.dim, false});
  block.loop = {product.dim};
  std::vector<ValueId> operands;
  for (ir::TensorId t : {product.a, product.b}) {
    const ir::Tensor& tensor = graph.tensors[static_cast<std::size_t>(t)];
    ir::BlockInput in{t, {}};
    for (const ir::Axis& axis : tensor.axes)
      in.maps.push_back({axis.dim == product.dim ? ir::kLoop : ir::kGrid, 0});
    block.inputs.push_back(in);
    operands.push_back(block.graph.input(tensor.name, ir::tiled_axes(tensor, in)));
  }
  block.accumulators.push_back(
      ir::make_matmul_accumulator(block.graph, operands[0], operands[1], product.dim));
  ValueId sum = block.graph.accumulated(0, 0, ir::result_axes(block.accumulators[0], 0));
  block.outputs.push_back({product.out, sum});
  return block;
}

}  // namespace tenon::runtime::host
