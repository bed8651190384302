// Graph -> steps.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "runtime/host/steps.h"

namespace tenon::runtime::host {

// Where a value of a graph can be read after the steps that make it.
struct Place {
  enum Kind : std::uint8_t { kNone, kSlot, kConstant } kind = kNone;
  int index = -1;
};

// A value that must end in a slot: an output, a state, an operand of something outside.
struct Export {
  ir::ValueId value = ir::kNoValue;
  int slot = -1;  // stored there; -1: any slot, reported in `places`
};
// A sum that is accumulated into a slot instead of being a node: slot += Σ value.
struct SumInto {
  ir::ValueId value = ir::kNoValue;
  int slot = -1;
};

// Compiles the nodes of `graph` listed in `values` (in order). `places` holds for each value of
// the graph where it already is; places of exported values are filled in. `elem` binds kElem.
// Throws UserError for an operator or a rank that the host engine does not know.
Steps compile(Frame& frame, const ir::Graph& graph, const std::vector<ir::ValueId>& values,
              std::vector<Place>& places, const std::vector<Export>& exports,
              const std::vector<SumInto>& sums, ir::DType elem);

// out (+)= a·b over slots.
ProductStep compile_product(const Frame& frame, int a, int b, ir::DimId dim, int out, bool zero);

int add_slot(Frame& frame, ir::Axes axes, ir::DType type = ir::DType::kF32, bool external = false);

}  // namespace tenon::runtime::host
