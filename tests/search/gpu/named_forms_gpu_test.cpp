// Every named form of every program of the catalog on the GPU, by the portable lowering.
#include <gtest/gtest.h>

#include "gpu.h"
#include "tests/search/named_forms.h"

namespace tenon::search::test {
namespace {

TEST(NamedFormsOnGpu, AreAccepted) {
  TENON_REQUIRE_GPU(device);
  const ir::Target& target = device->info().target;
  int accepted = 0;
  for (const ir::CatalogEntry& entry : ir::catalog())
    for (std::int64_t scale : {1, 8}) {
      ir::Workload workload = small_workload(entry.name, scale);
      auto runner = measure::make_local_runner("cuda:0", workload);
      for (const NamedForm& form : named_forms(entry.name)) {
        bool lowerable = true;
        for (std::size_t k = 0; k < form.graph.kernels.size(); ++k) {
          ir::KernelView view = ir::view(form.graph, k);
          lowerable = lowerable && (view.library || view.facts);
        }
        if (!lowerable) continue;
        measure::Candidate candidate = tenon::test::compile(
            form.graph, default_schedule(form.graph, workload, target), workload, target);
        verifier::Evidence e = runner->accept(candidate, 1);
        EXPECT_TRUE(as_expected(form, e)) << entry.name << ", " << form.form << ": " << e.reason;
        ++accepted;
      }
    }
  EXPECT_GT(accepted, 50);
}

}  // namespace
}  // namespace tenon::search::test
