// Some of what the search finds for every catalog program, by every method of the verifier;
// tenon_evidence_soak takes all of it.
#include <gtest/gtest.h>

#include "catalog_evidence.h"
#include "ir/program.h"

namespace tenon::test {
namespace {

class SearchOutput : public testing::TestWithParam<std::string> {};

TEST_P(SearchOutput, IsProved) {
  // Sums over k and d under one root: seconds a µGraph.
  const std::size_t most = GetParam() == "linear_head_layernorm" ? 3 : 12;
  const CatalogEvidence e = catalog_evidence(GetParam(), most);
  EXPECT_GE(e.checked, 2U);
  for (const std::string& problem : e.problems) ADD_FAILURE() << problem;
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const ir::CatalogEntry& entry : ir::catalog()) out.push_back(entry.name);
  return out;
}
INSTANTIATE_TEST_SUITE_P(Catalog, SearchOutput, testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tenon::test
