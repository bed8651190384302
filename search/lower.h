// From kernels over classes to a µGraph: tensors, maps, accumulators, the prepare graph, and
// the rounding that the algebraic skeleton left out.
#pragma once

#include <optional>
#include <vector>

#include "ir/mugraph.h"
#include "search/kernel_form.h"

namespace tenon::search {

// A product by the vendor's library: out = Σ_dim a·b.
struct LibraryForm {
  ClassId a = kNoClass;
  ClassId b = kNoClass;
  ClassId out = kNoClass;
  ir::DimId dim = 0;
  friend auto operator<=>(const LibraryForm&, const LibraryForm&) = default;
};

// One kernel of a kernel graph: exactly one of the two.
struct KernelChoice {
  std::optional<KernelForm> form;
  std::optional<LibraryForm> library;
};

// The operators that make prepared class `c` from parameters in the fewest steps, operands
// first; classes that several steps share appear once.
std::vector<Way> prepare_ways(const Space& space, const std::vector<ClassId>& prepared);

// The rounding policy (docs/search.md):
//  - a tensor between kernels, or a prepared one, has the workload's dtype if it has two axes or
//    more, else fp32; outputs have the signature's;
//  - an operand of a product that is computed, or loaded as fp32, is cast to the workload's;
//  - a stored value is cast to its tensor's dtype; all else is fp32.
ir::MuGraph lower(const Space& space, const ir::Program& program,
                  const std::vector<const KernelChoice*>& kernels);

}  // namespace tenon::search
