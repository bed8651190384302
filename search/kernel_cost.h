// What a kernel costs, part by part, so that kernels and kernel graphs can be compared without a
// device and without extents: one is dearer than another only if it is in no part cheaper.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "search/kernel_search.h"

namespace tenon::search {

// Counts by part, and what only breaks ties. All costs of one table have as many parts, a
// multiple of kCostLanes (the rest are 0).
struct Cost {
  std::vector<std::int16_t> parts;
  std::int32_t sum = 0;       // of all parts: of two costs only the one with less can be cheaper
  std::uint32_t small = 0;    // operators and transfers of vectors: of lower order
  std::uint32_t foreign = 0;  // operators that the program does not spell so
  void operator+=(const Cost& other);
};
inline constexpr std::size_t kCostLanes = 16;

// No part of `a` is larger than `b`'s, and some part is smaller.
bool cheaper(const Cost& a, const Cost& b);
// No part differs.
bool same_parts(const Cost& a, const Cost& b);

// Costs than which no other of them is cheaper, by their sums.
class CostFront {
 public:
  void add(const Cost& cost);
  void add(const CostFront& other);
  // Is one of them cheaper?
  bool beats(const Cost& cost) const;

 private:
  std::vector<Cost> costs_;
};

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
  const Cost& of(std::size_t choice) const { return costs_[choice]; }
  Cost nothing() const;

 private:
  using Key = std::tuple<int, DimSet, bool>;
  // Of one kernel: some twenty.
  struct Parts : std::vector<std::pair<Key, int>> {
    int& operator[](const Key& key);
  };
  void count(const KernelForm& form, Parts& parts, Cost& cost) const;
  template <class Add>
  void count_online(const KernelForm& form, const Online& online, Add&& add) const;
  void count(const LibraryForm& form, Parts& parts) const;

  const Space& space_;
  std::vector<Cost> costs_;
};

// Of kernels that read and store the same tensors, those than which none is cheaper; of equals the
// first by ties. Rule "cost".
std::vector<Choice> drop_dear_kernels(const Space& space, std::vector<Choice> choices,
                                      PruneCounts& pruned);

}  // namespace tenon::search
