// Every catalog program end to end on the host: found, verified, run, accepted on every input
// family for each of its outputs, and stored.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "optimizer/optimize.h"

namespace tenon::optimizer {
namespace {

namespace fs = std::filesystem;

class Catalog : public ::testing::TestWithParam<std::string> {};

TEST_P(Catalog, IsOptimizedOnTheHost) {
  std::string pattern = (fs::temp_directory_path() / "tenon-catalog-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const std::map<std::string, std::int64_t> extents = {{"m", 5},  {"k", 52},  {"n", 23}, {"h", 3},
                                                       {"d", 10}, {"nq", 21}, {"nk", 7}, {"nv", 9}};
  const ir::Program program = ir::catalog_program(GetParam());
  std::map<std::string, std::int64_t> dims;
  for (const std::string& dim : program.signature.dims) dims[dim] = extents.at(dim);
  Options o;
  o.workload = ir::make_workload(program, dims, ir::DType::kBF16);
  o.device = "host";
  o.database = pattern + "/tuning.db";
  o.budget_seconds = GetParam() == "layernorm_linear" ? 15 : 5;
  o.search.max_kernels = GetParam() == "rmsnorm_qkv" ? 3 : 2;
  o.schedules_per_graph = 1;
  o.samples = 3;
  o.force = true;  // machines that run tests are rarely quiet
  Progress silent;
  const Report report = optimize(o, silent);
  fs::remove_all(pattern);
  ASSERT_TRUE(report.best.has_value()) << (report.notes.empty() ? "" : report.notes.front());
  const auto& evidence = report.best->evidence;
  EXPECT_EQ(evidence.at("random").verdict, verifier::Verdict::kPass);
  EXPECT_NE(evidence.at("z3").verdict, verifier::Verdict::kRefuted);
  const verifier::Evidence& numeric = evidence.at("numeric");
  ASSERT_EQ(numeric.verdict, verifier::Verdict::kPass) << numeric.reason;
  // Every output was compared on every family.
  const nlohmann::json figures = nlohmann::json::parse(numeric.figures);
  std::map<std::string, std::set<std::string>> families;
  for (const auto& f : figures.at("families"))
    if (f.contains("output")) families[f.at("output")].insert(f.at("family").get<std::string>());
  ASSERT_EQ(families.size(), program.signature.outputs.size());
  for (const ir::ProgramOutput& out : program.signature.outputs)
    EXPECT_GE(families.at(out.name).size(), 9U) << out.name;
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const ir::CatalogEntry& entry : ir::catalog()) out.push_back(entry.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Programs, Catalog, ::testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tenon::optimizer
