// One custom kernel as the search sees it: block-level operators over tiles of classes.
#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "search/space.h"

namespace tenon::search {

// How a value exists inside a kernel, with respect to the dim that the kernel loops over. With
// no loop everything is whole. Dims of the grid are always this block's share.
enum class Tile : std::uint8_t {
  kWhole,  // before the loop: the loop's dim, if it has it, is whole
  kStep,   // in the loop: it has the loop's dim, and is this step's share of it
  kDone,   // after the loop: accumulated; it does not have the loop's dim
};

// How a kernel is cut.
struct Frame {
  std::vector<ir::DimId> grid;  // parallel over blocks, ascending
  int loop = -1;                // the dim it loops over, or -1
  bool split = false;           // the loop's dim is also split over blocks; accumulators merge
  DimSet grid_dims() const;
  friend auto operator<=>(const Frame&, const Frame&) = default;
};

struct Load {
  ClassId cls = kNoClass;  // a tensor's or a literal's
  Tile tile = Tile::kWhole;
  friend auto operator<=>(const Load&, const Load&) = default;
};

struct BlockOp {
  Operation operation;
  int a = -1;  // values: first the loads, then the results of the operators
  int b = -1;
  bool accumulate = false;  // a reduction over the loop
  ClassId cls = kNoClass;   // of the result
  Tile tile = Tile::kWhole;
  friend auto operator<=>(const BlockOp&, const BlockOp&) = default;
};

struct KernelForm {
  Frame frame;
  std::vector<Load> loads;
  std::vector<BlockOp> ops;
  std::vector<int> stores;  // values, ascending by class
  ClassId cls(int value) const;
  Tile tile(int value) const;
  friend auto operator<=>(const KernelForm&, const KernelForm&) = default;
};

struct Step {
  Tile tile = Tile::kWhole;
  bool accumulate = false;
};
// The tile of an operator's result, or nothing where tiles do not fit: whole and cut axes of one
// dim do not meet, nor do values of the loop and accumulated ones; a dim of the grid is not
// reduced; a product over the loop's dim happens in the loop.
std::optional<Step> step(const Space& space, const Frame& frame, const Operation& operation, Tile a,
                         Tile b);

// Equal values with equal maps, whichever way and wherever in the kernel they are made.
bool same_value(const Space& space, const Frame& frame, ClassId a, Tile ta, ClassId b, Tile tb);

// Is there a reduction or product in it?
bool reduces(const KernelForm& form);
// Could it run as a loop over some dim that it reduces as a whole? (Then it is that loop with
// one step.)
bool could_loop(const Space& space, const KernelForm& form);
// Could its grid also be cut along a dim that it leaves whole?
bool could_widen(const Space& space, const KernelForm& form);

// Operators weighed by how many elements they touch, for choosing among equals.
std::uint64_t cost(const Space& space, const KernelForm& form);

// What the kernel is, apart from how pointwise values are spelled: cut, loads, operands of
// reductions and products, stores. Kernels with equal contents are one at the thread level.
std::vector<std::int64_t> contents(const KernelForm& form);

}  // namespace tenon::search
