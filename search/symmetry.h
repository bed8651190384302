// Outputs of a program that may be exchanged: three products of one normalized X with three
// weights, say. What holds for one of them holds for the others.
#pragma once

#include <vector>

#include "search/kernel_search.h"

namespace tenon::search {

// Exchanges two outputs, and with them inputs, dims and classes, so that the program stays as it
// is. Its own inverse.
struct Exchange {
  std::vector<ClassId> classes;  // by ClassId; itself where nothing changes
  std::vector<ir::DimId> dims;   // by DimId
};

// All exchanges of two outputs.
std::vector<Exchange> exchanges(const Space& space, const ir::Program& program);

// The kernel with classes and dims exchanged, as one number: equal for equal kernels up to how
// pointwise values are spelled.
class KernelNumbers {
 public:
  KernelNumbers(const std::vector<Choice>& choices, const std::vector<Exchange>& exchanges);
  // Does every exchange map the kernel graph to itself?
  bool uniform(const std::vector<int>& graph) const;

 private:
  std::vector<int> own_;                  // by choice
  std::vector<std::vector<int>> mapped_;  // by exchange and choice
};

}  // namespace tenon::search
