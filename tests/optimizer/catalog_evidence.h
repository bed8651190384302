// Evidence for what the search finds: every µGraph of a catalog program has to pass the random
// test, be proved at small dims, and be proved for every extent.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tenon::test {

struct CatalogEvidence {
  std::size_t found = 0, checked = 0;  // µGraphs
  std::size_t proved_for_every_extent = 0;
  double random_s = 0, bounded_s = 0, unbounded_s = 0;  // of all µGraphs together
  double slowest_s = 0;                                 // of one µGraph, all methods
  std::vector<std::string> problems;  // a verdict that is not the one wanted, with its reason
};
// The program's search with its default options; of its output at most `most` µGraphs, evenly over
// it. Unknown and timeout are problems like a refutation.
CatalogEvidence catalog_evidence(const std::string& program, std::size_t most);

}  // namespace tenon::test
