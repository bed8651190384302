// The right µGraphs of the fixtures and the programs they belong to.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/error.h"
#include "tests/verifier/fixtures.h"

namespace tenon::verifier::testing {

// From the catalog, or from a fixture beside the µGraphs or in the IR's tests.
inline ir::Program program_of(const ir::MuGraph& graph) {
  const std::string& name = graph.signature.program;
  for (const ir::CatalogEntry& entry : ir::catalog())
    if (entry.name == name) return ir::catalog_program(name);
  for (const std::string& folder :
       {std::string(TENON_FIXTURES) + "/right", std::string(TENON_IR_FIXTURES)}) {
    const std::string text = read_text(folder + "/" + name + ".program");
    if (!text.empty()) return ir::parse_program(text);
  }
  throw UserError("program", name, "one of the catalog or of the fixtures");
}

// Paths of all distinct µGraphs that equal their programs.
inline std::vector<std::string> right_fixtures() {
  std::vector<std::string> paths;
  std::set<std::string> identities;
  for (const std::string& folder :
       {std::string(TENON_FIXTURES) + "/right", std::string(TENON_FIXTURES) + "/catalog",
        std::string(TENON_IR_FIXTURES)})
    for (const std::string& name : fixture_names(folder))
      if (identities.insert(ir::identity(read_mugraph(folder, name))).second)
        paths.push_back(folder + "/" + name + ".mugraph");
  return paths;
}

}  // namespace tenon::verifier::testing
