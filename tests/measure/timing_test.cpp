// Timing on the host: shape of the results, statuses; never how long anything took.
#include <gtest/gtest.h>

#include "host_plan.h"
#include "ir/error.h"
#include "measure/measure.h"

namespace tenon::measure {
namespace {

TEST(Timing, InterleavesAndReportsEveryCandidate) {
  test::Dims dims{{"m", 4}, {"k", 64}, {"n", 48}};
  ir::Workload workload =
      ir::make_workload(ir::catalog_program("rmsnorm_linear"), dims, ir::DType::kBF16);
  std::vector<Candidate> candidates;
  for (const char* name : {"rmsnorm_unfused", "rmsnorm_one_pass", "rmsnorm_split_k"})
    candidates.push_back(
        {test::host_plan(test::fixture(name), dims, ir::DType::kBF16, {"host", {}}), {}});
  candidates.push_back(candidates[0]);
  candidates.back().plan.device_class = "sm_90a";  // cannot run here

  Protocol protocol;
  protocol.min_sample_us = 50;
  std::vector<Timing> timings = make_local_runner("host", workload)->time(candidates, protocol);
  ASSERT_EQ(timings.size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(timings[i].status, Status::kOk) << timings[i].reason;
    EXPECT_EQ(timings[i].samples_us.size(), 20u);
    EXPECT_GT(timings[i].median_us, 0);
    EXPECT_GE(timings[i].spread_us, 0);
    EXPECT_NE(timings[i].protocol.find("rotating over"), std::string::npos);
  }
  EXPECT_EQ(timings[3].status, Status::kUnsupported);
  EXPECT_FALSE(timings[3].reason.empty());
  EXPECT_TRUE(timings[3].samples_us.empty());
}

TEST(Timing, MarksWhatLeavesItsOutputUnwritten) {
  test::Dims dims{{"m", 4}, {"k", 64}, {"n", 48}};
  ir::Workload workload =
      ir::make_workload(ir::catalog_program("rmsnorm_linear"), dims, ir::DType::kBF16);
  Candidate candidate{
      test::host_plan(test::fixture("rmsnorm_one_pass"), dims, ir::DType::kBF16, {"host", {}}), {}};
  candidate.plan.main.clear();
  std::vector<Timing> timings = make_local_runner("host", workload)->time({candidate}, {});
  EXPECT_EQ(timings[0].status, Status::kWrongResult);
}

TEST(Timing, NeedsADeviceThatExecutes) {
  ir::Workload workload = ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                                            {{"m", 1}, {"k", 2}, {"n", 3}}, ir::DType::kBF16);
  EXPECT_THROW(make_local_runner("compile:sm_90a", workload), DeviceError);
}

TEST(Status, Names) {
  EXPECT_EQ(name(Status::kOk), "ok");
  EXPECT_EQ(name(Status::kLaunchError), "launch_error");
  EXPECT_EQ(name(Status::kWrongResult), "wrong_result");
}

}  // namespace
}  // namespace tenon::measure
