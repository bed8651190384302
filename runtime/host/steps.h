// The executable form of a graph: a short list of steps over tiles.
//
// A pointwise chain (a thread graph) is one step, evaluated strip by strip: its inner values
// live in strips in the first-level cache and only what others need is stored. A sum is a way
// to store: it adds into its tile. A product is a step of its own.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "ir/graph.h"
#include "ir/mugraph.h"

namespace tenon::runtime::host {

inline constexpr int kMaxRank = 8;
// Bounds of one chain; longer ones are cut in two, through memory.
inline constexpr int kMaxChainNodes = 16;
inline constexpr int kMaxViews = 64;
inline constexpr int kMaxRegisters = 64;

// A value in memory: a tile of the block's arena (fp32), or part of a tensor.
struct Slot {
  ir::Axes axes;
  ir::DType type = ir::DType::kF32;
  bool external = false;  // part of a tensor: address and strides come from it
};

// An operand inside a chain.
struct Operand {
  enum Kind : std::uint8_t { kRegister, kConstant } kind = kRegister;
  int index = 0;  // register, or constant of the program
};

// One instruction of a chain over the current strip.
struct Instruction {
  enum Kind : std::uint8_t {
    kLoad,   // register <- slot
    kApply,  // register <- op(a, b)
    kRound,  // register <- a rounded to `type`
    kStore,  // slot <- a
    kSum,    // slot += a, over the axes that the slot lacks
  } kind = kLoad;
  ir::OpKind op = ir::OpKind::kConst;
  bool binary = false;
  ir::DType type = ir::DType::kF32;
  Operand a, b;
  int to = -1;     // register
  int strip = -1;  // strip buffer behind register `to`
  int slot = -1;   // kLoad, kStore, kSum
  int view = -1;   // kLoad, kStore, kSum: index in Chain::views
};

// How a slot lies along the axes of a chain: which of its axes, or -1.
struct ChainView {
  int slot = -1;
  std::vector<int> axis;
  bool written = false;
};

struct Chain {
  ir::Axes axes;
  std::vector<int> zeroed;  // slots set to zero first (targets of sums)
  std::vector<Instruction> instructions;
  std::vector<ChainView> views;
  int registers = 0;
  int strips = 0;
};

// out += Σ a·b; axes of the three by position, -1 where there is none.
struct ProductStep {
  int a = -1, b = -1, out = -1;  // slots
  bool zero = true;              // out is set to zero first
  int a_k = -1, b_k = -1;
  int a_m = -1, out_m = -1;  // the innermost axis that only a has
  int b_n = -1, out_n = -1;  // the innermost axis that only b has
  struct Outer {
    int a = -1, b = -1, out = -1;
  };
  std::vector<Outer> outer;  // the other axes of out, looped over
};

using Step = std::variant<Chain, ProductStep>;
using Steps = std::vector<Step>;

// Slots and constants that steps refer to.
struct Frame {
  std::vector<Slot> slots;
  std::vector<ir::Constant> constants;
};

}  // namespace tenon::runtime::host
