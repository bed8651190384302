// tenon_evidence_soak [PROGRAM …]: all that the search finds for the catalog's programs, by every
// method of the verifier. Exit code 1 when a verdict is not the one wanted.
#include <fmt/format.h>

#include <limits>

#include "catalog_evidence.h"
#include "ir/program.h"

int main(int argc, char** argv) {
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty())
    for (const tenon::ir::CatalogEntry& entry : tenon::ir::catalog()) names.push_back(entry.name);
  std::size_t problems = 0;
  for (const std::string& name : names) {
    const tenon::test::CatalogEvidence e =
        tenon::test::catalog_evidence(name, std::numeric_limits<std::size_t>::max());
    for (const std::string& problem : e.problems) fmt::print("FAILED: {}\n", problem);
    problems += e.problems.size();
    fmt::print(
        "{}: {} µGraphs, {} proved for every extent; random {:.1f} s, bounded {:.1f} s, unbounded "
        "{:.1f} s, the slowest µGraph {:.2f} s\n",
        name, e.checked, e.proved_for_every_extent, e.random_s, e.bounded_s, e.unbounded_s,
        e.slowest_s);
    std::fflush(stdout);
  }
  return problems == 0 ? 0 : 1;
}
