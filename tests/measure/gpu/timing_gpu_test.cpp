// Timing on the GPU: shapes of results and statuses; never how long anything took.
#include <gtest/gtest.h>

#include "gpu.h"
#include "ir/error.h"
#include "ir/family.h"

namespace tenon::test {
namespace {

std::vector<measure::Candidate> all_forms(const ir::Workload& workload, const ir::Target& target,
                                          bool dependent) {
  std::vector<measure::Candidate> candidates;
  for (const std::string& name : embedded_fixtures()) {
    ir::MuGraph graph = embedded_fixture(name);
    ir::Schedule schedule;
    schedule.dependent_launch = dependent;
    for (std::size_t k = 0; k < graph.kernels.size(); ++k)
      schedule.kernels.push_back(ir::default_schedule(ir::view(graph, k), workload, target));
    candidates.push_back(compile(graph, schedule, workload, target));
  }
  return candidates;
}

void expect_timed(const std::vector<measure::Timing>& timings, std::size_t count, int samples) {
  ASSERT_EQ(timings.size(), count);
  for (const measure::Timing& t : timings) {
    EXPECT_EQ(t.status, measure::Status::kOk) << t.reason;
    EXPECT_EQ(t.samples_us.size(), static_cast<std::size_t>(samples));
    EXPECT_GT(t.median_us, 0.1);
    EXPECT_GE(t.spread_us, 0);
    EXPECT_NE(t.protocol.find("cuda graph"), std::string::npos);
  }
}

class TimingOnGpu : public testing::TestWithParam<std::array<int, 3>> {};

TEST_P(TimingOnGpu, AllFormsPlain) {
  TENON_REQUIRE_GPU(device);
  auto [m, k, n] = GetParam();
  ir::Workload workload = ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                                            {{"m", m}, {"k", k}, {"n", n}}, ir::DType::kBF16);
  std::vector<measure::Candidate> candidates = all_forms(workload, device->info().target, false);
  auto runner = measure::make_local_runner("cuda:0", workload);
  expect_timed(runner->time(candidates, {}), candidates.size(), 20);
}

TEST_P(TimingOnGpu, AllFormsDependent) {
  TENON_REQUIRE_GPU(device);
  if (device->info().target.compute_capability() < 90)
    GTEST_SKIP() << "dependent launch needs compute capability 9.0";
  auto [m, k, n] = GetParam();
  ir::Workload workload = ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                                            {{"m", m}, {"k", k}, {"n", n}}, ir::DType::kBF16);
  std::vector<measure::Candidate> candidates = all_forms(workload, device->info().target, true);
  measure::Protocol protocol;
  protocol.dependent_launch = true;
  auto runner = measure::make_local_runner("cuda:0", workload);
  expect_timed(runner->time(candidates, protocol), candidates.size(), 20);
}

INSTANTIATE_TEST_SUITE_P(Shapes, TimingOnGpu,
                         testing::Values(std::array{3, 100, 7}, std::array{16, 576, 960},
                                         std::array{16, 4096, 6144}, std::array{1024, 1024, 1024}));

// A candidate that cannot be loaded costs itself only.
TEST(TimingOnGpu, OneBadCandidateAmongGoodOnes) {
  TENON_REQUIRE_GPU(device);
  ir::Workload workload = ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                                            {{"m", 16}, {"k", 576}, {"n", 960}}, ir::DType::kBF16);
  std::vector<measure::Candidate> candidates = all_forms(workload, device->info().target, false);
  candidates[1].plan.main[0].shared_bytes = 100 << 20;
  measure::Protocol protocol;
  protocol.samples = 3;
  std::vector<measure::Timing> timings =
      measure::make_local_runner("cuda:0", workload)->time(candidates, protocol);
  for (std::size_t i = 0; i < timings.size(); ++i)
    EXPECT_EQ(timings[i].status == measure::Status::kOk, i != 1) << i << timings[i].reason;
  EXPECT_EQ(timings[1].status, measure::Status::kLaunchError);
}

}  // namespace
}  // namespace tenon::test
