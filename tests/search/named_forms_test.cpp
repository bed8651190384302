// Every named form runs on the host within the numeric contract, and compiles for both GPU targets
// without spilling registers.
#include "tests/search/named_forms.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tenon::search::test {
namespace {

class NamedForms : public testing::TestWithParam<std::string> {};

std::vector<std::string> programs() {
  std::vector<std::string> names;
  for (const ir::CatalogEntry& entry : ir::catalog()) names.push_back(entry.name);
  return names;
}

// A norm over what the same kernel's product makes has no lowering (docs/search.md).
bool lowerable(const ir::MuGraph& graph) {
  for (std::size_t k = 0; k < graph.kernels.size(); ++k) {
    ir::KernelView view = ir::view(graph, k);
    if (view.library || view.facts) continue;
    EXPECT_EQ(view.reason, "a sum over a product's result in one kernel");
    return false;
  }
  return true;
}

TEST_P(NamedForms, RunOnTheHost) {
  ir::Target host = ir::target_from_name("host");
  ir::Workload workload = small_workload(GetParam(), 1);
  auto runner = measure::make_local_runner("host", workload);
  const std::vector<NamedForm>& forms = named_forms(GetParam());
  EXPECT_GE(forms.size(), 2u);
  // So many the GPU's test of the same forms has to run.
  EXPECT_GE(std::count_if(forms.begin(), forms.end(),
                          [](const NamedForm& form) { return lowerable(form.graph); }),
            least_lowered(GetParam()));
  for (const NamedForm& form : forms) {
    ir::Schedule schedule = default_schedule(form.graph, workload, host);
    codegen::Generated g = codegen::generate(form.graph, schedule, workload, host);
    verifier::Evidence e = runner->accept({g.plan, {}}, 1);
    EXPECT_TRUE(as_expected(form, e)) << form.form << ": " << e.reason;
  }
}

// At a mean of 1000 deviations Σx² - μ·Σx leaves nothing of the variance, and two passes leave all.
TEST(LayernormAsPrologue, IsStableInTwoPassesOnly) {
  const ir::Target host = ir::target_from_name("host");
  const ir::Workload workload = small_workload("layernorm_linear", 8);
  auto runner = measure::make_local_runner("host", workload);
  int two_passes = 0, two_sums = 0;
  for (const NamedForm& form : named_forms("layernorm_linear")) {
    if (form.form.rfind("norm as prologue", 0) != 0) continue;
    const ir::Schedule schedule = default_schedule(form.graph, workload, host);
    const codegen::Generated g = codegen::generate(form.graph, schedule, workload, host);
    const verifier::Evidence e = runner->accept({g.plan, {}}, 1);
    if (form.stable) {
      EXPECT_EQ(e.verdict, verifier::Verdict::kPass) << e.reason;
      ++two_passes;
    } else {
      EXPECT_EQ(e.verdict, verifier::Verdict::kRefuted);
      EXPECT_EQ(e.reason.rfind("mean_1000_sigma", 0), 0U) << e.reason;
      ++two_sums;
    }
  }
  EXPECT_EQ(two_passes, 1);
  EXPECT_EQ(two_sums, 1);
}

TEST_P(NamedForms, CompileWithoutSpills) {
  ir::Workload workload = small_workload(GetParam(), 8);
  for (const NamedForm& form : named_forms(GetParam())) {
    // Compiling is slow: of forms that differ in what is folded, the folded one.
    if (form.form == "deferred" || form.form == "one pass" || form.form == "one pass, split")
      continue;
    if (!lowerable(form.graph)) continue;
    ir::Target target =
        ir::target_from_name(form.form.find("split") == std::string::npos ? "sm_80" : "sm_90a");
    ir::Schedule schedule = default_schedule(form.graph, workload, target);
    codegen::Generated g = codegen::generate(form.graph, schedule, workload, target);
    for (const codegen::Source& source : g.sources) {
      codegen::Compiled c = codegen::compile(source, target);
      ASSERT_TRUE(c.ok) << form.form << "\n" << c.log;
      for (const codegen::KernelResources& r : c.resources)
        EXPECT_EQ(r.spill_bytes, 0) << form.form << " " << r.entry;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, NamedForms, testing::ValuesIn(programs()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tenon::search::test
