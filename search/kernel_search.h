// Kernel graphs: which values are materialized between kernels, and by which kernels.
#pragma once

#include <bitset>
#include <functional>
#include <vector>

#include "search/lower.h"

namespace tenon::search {

inline constexpr std::size_t kMaxTensors = 256;  // storable classes of one program
using TensorSet = std::bitset<kMaxTensors>;

// A kernel that some kernel graph may use. Sets are over the storable classes.
struct Choice {
  KernelChoice kernel;
  TensorSet reads;  // other than the program's inputs, prepared tensors and literals
  TensorSet writes;
  TensorSet computes;  // all it computes, `writes` among it
};

struct Exchange;  // search/symmetry.h

struct KernelBounds {
  int max_kernels = 3;
  int max_block_ops = 12;
  std::size_t max_graphs = 50000;
};

struct KernelResult {
  std::vector<std::vector<int>> graphs;  // each the indices of its kernels, in execution order
  std::uint64_t visited = 0;
  PruneCounts pruned;
  bool cut_by_kernels = false;
  bool cut_by_graphs = false;
};

// Does the kernel do one thing, as a framework would launch it: a product with what parameters
// add to or scale of its result, or anything without a product; from parameters as they are?
// A graph of such kernels is the unfused form, which is kept to measure against.
bool is_plain(const Space& space, const KernelChoice& kernel);

// The products that the library can do: of two whole tensors with two axes each.
std::vector<LibraryForm> library_forms(const Space& space, const ir::Program& program);

// Kernels with what they read, write and compute, in a canonical order.
std::vector<Choice> choices(const Space& space, std::vector<KernelForm> forms,
                            const std::vector<LibraryForm>& libraries);

// All kernel graphs of the choices, in an order that does not depend on the number of threads.
// `stop` is asked by several threads at once.
KernelResult kernel_graphs(const Space& space, const std::vector<Choice>& choices,
                           const RuleSet& rules, const KernelBounds& bounds,
                           const std::vector<Exchange>& exchanges,
                           const std::function<bool()>& stop);

// Dominance over whole kernel graphs. Each says whether a kernel graph that is no dearer, and
// that the search reaches, makes this one pointless.
// inline: a tensor made by pointwise operators alone of one tensor of its size and smaller ones,
//   whose readers are all custom kernels, which could compute it themselves. `position` is
//   tensor_positions'.
bool has_inlinable_tensor(const Space& space, const std::vector<std::size_t>& position,
                          const std::vector<const Choice*>& graph, const KernelBounds& bounds);
// fuse: a kernel that reads a tensor with the maps with which another wrote it, or only goes on
//   pointwise with it; it is its only reader.
bool has_fusible_kernels(const Space& space, const std::vector<const Choice*>& graph,
                         const KernelBounds& bounds);

// Position of each storable class in a TensorSet; kMaxTensors for the rest.
std::vector<std::size_t> tensor_positions(const Space& space);

}  // namespace tenon::search
