// µGraphs: what a candidate computes, kernel by kernel, with symbolic dims.
//
// A µGraph is a kernel graph; a kernel is a library product or a block graph. It
// says how dims map to grid and loop and whether a reduction is split over blocks,
// never how big a tile is: that is the schedule's business.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ir/graph.h"
#include "ir/program.h"

namespace tenon::ir {

using TensorId = std::int32_t;  // index into MuGraph::tensors

// Loop-carried state. All four graphs are over fp32 in registers.
//   init:     ()                       -> states
//   update:   (states…, operands…)     -> states
//   merge:    (left…, right…)          -> states     what a split reduction uses
//   finalize: (states…)                -> results
struct Accumulator {
  std::string kind;               // "sum", "matmul" or "custom"
  DimId dim = 0;                  // the dim it reduces
  std::vector<ValueId> operands;  // values of the block graph's body
  std::vector<Axes> states;
  Graph init, update, merge, finalize;
  std::vector<ValueId> init_out, update_out, merge_out, finalize_out;
  friend bool operator==(const Accumulator&, const Accumulator&) = default;
};

// How a block graph sees one axis of an input (imap for the grid, fmap for the loop).
// `part` says whether grid and loop split the axis or replicate it. A dim in both grid and
// loop is read kFull, kGrid or kGridLoop; one in the grid alone kFull or kGrid; one in the
// loop alone kFull or kLoop. With a shift, element j of the axis reads element
// (j + shift × share) mod extent, share being ⌈extent / blocks⌉: a neighbour's share.
struct AxisMap {
  Part part = kFull;
  int shift = 0;
  friend bool operator==(const AxisMap&, const AxisMap&) = default;
};

struct BlockInput {
  TensorId tensor = -1;
  std::vector<AxisMap> maps;  // one per axis of the tensor, in its order
  friend bool operator==(const BlockInput&, const BlockInput&) = default;
};

struct GridDim {
  DimId dim = 0;
  bool split = false;  // a reduction split over blocks: accumulators merge over it
  friend bool operator==(const GridDim&, const GridDim&) = default;
};

// An output's value is assembled (omap) from the blocks: an axis tiled by grid or
// loop is concatenated over it; over a grid dim that the value does not have, the
// block with index 0 is the one writer.
struct BlockOutput {
  TensorId tensor = -1;
  ValueId value = kNoValue;
  friend bool operator==(const BlockOutput&, const BlockOutput&) = default;
};

// One custom kernel. The stage of a value follows from its operands: values of
// inputs the loop does not split are loop-invariant (prologue), accumulated values
// and what depends on them only are epilogue, the rest is loop body.
struct BlockGraph {
  std::vector<GridDim> grid;
  std::vector<DimId> loop;  // nested, outermost first; may be empty
  std::vector<BlockInput> inputs;
  Graph graph;  // graph.inputs() mirror `inputs`, with tiled axes
  std::vector<Accumulator> accumulators;
  std::vector<BlockOutput> outputs;
  friend bool operator==(const BlockGraph&, const BlockGraph&) = default;
};

// A product by the vendor's library: out = round(Σ_dim a·b).
struct LibraryMatmul {
  TensorId a = -1;
  TensorId b = -1;
  TensorId out = -1;
  DimId dim = 0;
  friend bool operator==(const LibraryMatmul&, const LibraryMatmul&) = default;
};

struct Kernel {
  std::string name;
  std::variant<BlockGraph, LibraryMatmul> body;
  const BlockGraph* block() const { return std::get_if<BlockGraph>(&body); }
  const LibraryMatmul* library() const { return std::get_if<LibraryMatmul>(&body); }
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

enum class TensorKind : std::uint8_t { kInput, kPrepared, kIntermediate, kOutput };

struct Tensor {
  std::string name;
  TensorKind kind = TensorKind::kInput;
  DType dtype = DType::kElem;
  Axes axes;  // all kFull
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

// prepare: a graph over the program's parameters, run once when weights are loaded.
struct Prepare {
  Graph graph;                       // its inputs are parameters, by name
  std::vector<BlockOutput> outputs;  // prepared tensors and their values
  friend bool operator==(const Prepare&, const Prepare&) = default;
};

struct MuGraph {
  Signature signature;
  // Program inputs, then outputs, both in signature order; then prepared tensors, then
  // intermediates, in the order in which they are stored.
  std::vector<Tensor> tensors;
  Prepare prepare;
  std::vector<Kernel> kernels;  // in execution order
  friend bool operator==(const MuGraph&, const MuGraph&) = default;
};

// Accumulator factories. `body` is the block graph's graph so far.
//   sum:    state s; s + Σ_dim x; left + right; s
//   matmul: state s; s + Σ_dim a·b; left + right; s
Accumulator make_sum_accumulator(const Graph& body, ValueId x, DimId dim);
Accumulator make_matmul_accumulator(const Graph& body, ValueId a, ValueId b, DimId dim);
// Axes of result `result` of an accumulator.
Axes result_axes(const Accumulator& accumulator, int result);

// Axes of an input inside a block graph: the tensor's, with the maps' parts.
Axes tiled_axes(const Tensor& tensor, const BlockInput& input);

// Where a value of a block graph lives.
enum class Stage : std::uint8_t { kPrologue, kBody, kEpilogue };
std::vector<Stage> stages(const BlockGraph& block);

// Thread graphs: maximal chains of pointwise and rounding operators of one stage
// that can stay in registers. Each is a list of ValueIds in order; every pointwise
// value belongs to exactly one.
std::vector<std::vector<ValueId>> thread_graphs(const BlockGraph& block);

// Throws UserError (with the offending name) unless the µGraph is well-formed: tensors
// are written once and before they are read, maps use only dims of grid and loop,
// an output does not depend on a loop step or a split share except along its own
// axis, every signature output is written …
void validate(const MuGraph& graph);

// Text form; round-trips exactly. Parse errors begin with "line L, column C:".
std::string print(const MuGraph& graph);
MuGraph parse_mugraph(const std::string& text);

// The same µGraph up to the names of tensors and kernels, the order of independent
// nodes and of commutative operands has the same canonical form and identity.
MuGraph canonical(const MuGraph& graph);
// SHA-256, hex, of the canonical text.
std::string identity(const MuGraph& graph);

// A short human label such as "stats | matmul*r" is made by describe().
std::string describe(const MuGraph& graph);

}  // namespace tenon::ir
