// Every named form runs on the host within the numeric contract, and compiles for both GPU targets
// without spilling registers.
#include "tests/search/named_forms.h"

#include <gtest/gtest.h>

namespace tenon::search::test {
namespace {

class NamedForms : public testing::TestWithParam<std::string> {};

std::vector<std::string> programs() {
  std::vector<std::string> names;
  for (const ir::CatalogEntry& entry : ir::catalog()) names.push_back(entry.name);
  return names;
}

TEST_P(NamedForms, RunOnTheHost) {
  ir::Target host = ir::target_from_name("host");
  ir::Workload workload = small_workload(GetParam(), 1);
  auto runner = measure::make_local_runner("host", workload);
  const std::vector<NamedForm>& forms = named_forms(GetParam());
  EXPECT_GE(forms.size(), 2u);
  for (const NamedForm& form : forms) {
    ir::Schedule schedule = default_schedule(form.graph, workload, host);
    codegen::Generated g = codegen::generate(form.graph, schedule, workload, host);
    verifier::Evidence e = runner->accept({g.plan, {}}, 1);
    EXPECT_TRUE(as_expected(form, e)) << form.form << ": " << e.reason;
  }
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
