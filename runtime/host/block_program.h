// The compiled form of a block graph (inner header of runtime/host).
#pragma once

#include <vector>

#include "ir/mugraph.h"
#include "runtime/host/compile.h"
#include "runtime/host/steps.h"

namespace tenon::runtime::host {

struct TensorSlot {
  ir::TensorId tensor = -1;
  int slot = -1;
  ir::ValueId value = ir::kNoValue;  // of an output
};

// A load that reads a neighbour's share: copied into a tile of its own, element by element.
struct ShiftedLoad {
  ir::TensorId tensor = -1;
  int slot = -1;
  std::vector<ir::AxisMap> maps;
  bool in_loop = false;
};

struct CompiledAccumulator {
  std::vector<int> states;  // slots
  std::vector<int> right;   // slots of the other share's states, for merge
  Steps init, update, merge, finalize;
};

struct CompiledBlock {
  Frame frame;
  std::vector<TensorSlot> inputs, outputs;
  std::vector<ShiftedLoad> shifted;
  std::vector<CompiledAccumulator> accumulators;
  Steps prologue, body, epilogue;  // body: once a step, then the accumulators' updates
};

CompiledBlock compile_block(const ir::MuGraph& graph, const ir::BlockGraph& block, ir::DType elem);

}  // namespace tenon::runtime::host
