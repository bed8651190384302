// One kernel of a µGraph on the host: its block graph, compiled once, run over tiles.
//
// Schedule family "host": tile_<dim> is the size of a block's share of a grid dim and of a
// step of a loop dim, split_<dim> the number of shares of a split reduction, grid_<dim> the
// share of a dim that is in grid and loop. All are clamped to the extents; what is missing
// has a default.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ir/domain.h"
#include "ir/mugraph.h"
#include "ir/schedule.h"

namespace tenon::runtime::host {

// What one run of a kernel works on: tensors are dense, row-major.
struct BlockLaunch {
  const ir::Extents* extents = nullptr;
  ir::RoundedDomain* domain = nullptr;  // binds constants
  std::byte* const* tensors = nullptr;  // by TensorId; null where the kernel does not use it
};

class BlockProgram {
 public:
  // Throws UserError for what the host engine cannot execute.
  BlockProgram(const ir::MuGraph& graph, const ir::BlockGraph& block,
               const ir::KernelSchedule& schedule, ir::DType elem);
  ~BlockProgram();
  BlockProgram(const BlockProgram&) = delete;
  BlockProgram& operator=(const BlockProgram&) = delete;

  // Runs all blocks on the threads of TBB; done on return. Thread-safe.
  void run(const BlockLaunch& launch) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The block graph that computes a library product: grid over the output, loop over the sum.
ir::BlockGraph product_block(const ir::MuGraph& graph, const ir::LibraryMatmul& product);

// The prepare graph, compiled once; its values are computed one after another over whole tensors.
class PrepareProgram {
 public:
  PrepareProgram(const ir::MuGraph& graph, ir::DType elem);
  ~PrepareProgram();
  PrepareProgram(const PrepareProgram&) = delete;
  PrepareProgram& operator=(const PrepareProgram&) = delete;
  void run(const BlockLaunch& launch) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::runtime::host
