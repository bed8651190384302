// What a kernel costs, part by part, so that kernels and kernel graphs can be compared without a
// device and without extents: one is dearer than another only if it is in no part cheaper.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "search/kernel_search.h"

namespace tenon::search {

// Counts by part (CostParts), and what only breaks ties.
struct Cost {
  std::vector<std::uint16_t> parts;
  std::uint32_t small = 0;    // operators and transfers of vectors: of lower order
  std::uint32_t foreign = 0;  // operators that the program does not spell so
  void operator+=(const Cost& other);
};

// No part of `a` is larger than `b`'s, and some part is smaller.
bool cheaper(const Cost& a, const Cost& b);
// No part differs.
bool same_parts(const Cost& a, const Cost& b);

// The parts are
//  - launches; kernels that reduce serially, and kernels that split a reduction;
//  - tensors of two axes or more that are loaded or stored, by their dims; prepared ones again;
//  - operators by kind (pointwise, sum, product, library product) and the dims they run over, in
//    kernels with products, or where blocks along other dims repeat them; those once more;
//  - phases: launches, and reductions in one kernel that wait for one another;
//  - products over whole rows in one block, which must hold them;
//  - differences of reduced values, which cancel; sums about a running mean; products that the
//    program does not make, whose operands are rounded at other points than the program's.
class CostTable {
 public:
  CostTable(const Space& space, const std::vector<Choice>& choices);
  const Cost& of(int choice) const { return costs_[static_cast<std::size_t>(choice)]; }
  Cost nothing() const;

 private:
  using Key = std::tuple<int, DimSet, bool>;
  std::size_t part(const Key& key);
  void count(const KernelForm& form, std::map<Key, int>& parts, Cost& cost) const;
  template <class Add>
  void count_online(const KernelForm& form, const Online& online, Add&& add) const;
  void count(const LibraryForm& form, std::map<Key, int>& parts) const;

  const Space& space_;
  std::vector<Cost> costs_;
};

// Of kernels that read and store the same tensors, those than which none is cheaper; of equals the
// first by ties. Rule "cost".
std::vector<Choice> drop_dear_kernels(const Space& space, std::vector<Choice> choices,
                                      PruneCounts& pruned);

}  // namespace tenon::search
