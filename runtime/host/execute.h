// Runs compiled steps over bound slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/host/kernels.h"
#include "runtime/host/steps.h"

namespace tenon::runtime::host {

// Where a slot is. A null address in a written slot means: do not write.
struct Bound {
  std::byte* data = nullptr;
  std::int64_t stride[kMaxRank] = {};  // elements, by the slot's axes
  std::int64_t elements = 0;           // allocated; tiles of the arena only
};

// Extents of axes, by dim and part.
class AxisExtents {
 public:
  void resize(std::size_t dims) { extents_.assign(dims * 4, 0); }
  std::int64_t& of(ir::Axis axis) {
    return extents_[static_cast<std::size_t>(axis.dim) * 4 + axis.part];
  }
  std::int64_t of(ir::Axis axis) const {
    return extents_[static_cast<std::size_t>(axis.dim) * 4 + axis.part];
  }

 private:
  std::vector<std::int64_t> extents_;
};

struct Context {
  const Kernels* kernels = nullptr;
  const Frame* frame = nullptr;
  const Bound* slots = nullptr;
  const float* constants = nullptr;
  const AxisExtents* extents = nullptr;
  float* scratch = nullptr;  // scratch_floats() of the steps
};

// Floats of scratch for `steps` when axes have at most these extents.
std::int64_t scratch_floats(const Steps& steps, const Frame& frame, const AxisExtents& largest);

// One after another, on this thread.
void run(const Steps& steps, const Context& context);

// The same with every step spread over the threads of TBB; scratch is not used.
void run_parallel(const Steps& steps, const Context& context);

}  // namespace tenon::runtime::host
