// Every named form of every program of the catalog on the GPU, by the portable lowering.
#include <gtest/gtest.h>

#include "gpu.h"
#include "tests/search/named_forms.h"

namespace tenon::search::test {
namespace {

struct Part {
  std::string program;
  std::int64_t scale;  // of small_workload
};

std::vector<Part> parts() {
  std::vector<Part> all;
  for (const ir::CatalogEntry& entry : ir::catalog())
    for (std::int64_t scale : {1, 8}) all.push_back({entry.name, scale});
  return all;
}

class NamedFormsOnGpu : public testing::TestWithParam<Part> {};

TEST_P(NamedFormsOnGpu, AreAccepted) {
  TENON_REQUIRE_GPU(device);
  const ir::Target& target = device->info().target;
  const auto& [program, scale] = GetParam();
  const ir::Workload workload = small_workload(program, scale);
  auto runner = measure::make_local_runner("cuda:0", workload);
  int accepted = 0;
  for (const NamedForm& form : named_forms(program)) {
    bool lowerable = true;
    for (std::size_t k = 0; k < form.graph.kernels.size(); ++k) {
      ir::KernelView view = ir::view(form.graph, k);
      lowerable = lowerable && (view.library || view.facts);
    }
    if (!lowerable) continue;
    measure::Candidate candidate = tenon::test::compile(
        form.graph, default_schedule(form.graph, workload, target), workload, target);
    verifier::Evidence e = runner->accept(candidate, 1);
    EXPECT_TRUE(as_expected(form, e)) << form.form << ": " << e.reason;
    ++accepted;
  }
  EXPECT_GE(accepted, least_lowered(program)) << "NamedForms.RunOnTheHost counts them";
}

INSTANTIATE_TEST_SUITE_P(Catalog, NamedFormsOnGpu, testing::ValuesIn(parts()),
                         [](const auto& test) {
                           return test.param.program +
                                  (test.param.scale == 1 ? "_small" : "_large");
                         });

}  // namespace
}  // namespace tenon::search::test
