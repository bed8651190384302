// Evidence that is run again: what stands still does, and what was tampered with is found.
#include "optimizer/reverify.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "ir/mugraph.h"
#include "optimizer/optimize.h"

namespace tenon::optimizer {
namespace {

namespace fs = std::filesystem;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

class Reverify : public ::testing::Test {
 protected:
  // One small search for all cases.
  static void SetUpTestSuite() {
    std::string pattern = (fs::temp_directory_path() / "tenon-reverify-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    Options o;
    o.workload = ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                                   {{"m", 3}, {"k", 20}, {"n", 6}}, ir::DType::kBF16);
    o.device = "host";
    o.database = pattern + "/tuning.db";
    o.budget_seconds = 2;
    o.force = true;  // machines that run tests are rarely quiet
    o.schedules_per_graph = 1;
    Progress silent;
    const Report report = optimize(o, silent);
    ASSERT_TRUE(report.best.has_value());
    auto found = cache::Database::open(o.database, true)->by_plan(report.best->plan);
    ASSERT_TRUE(found.has_value());
    stored_ = new cache::Stored(*found);
    fs::remove_all(pattern);
  }
  static void TearDownTestSuite() {
    delete stored_;
    stored_ = nullptr;
  }

  static cache::Stored* stored_;
};
cache::Stored* Reverify::stored_ = nullptr;

TEST_F(Reverify, WhatWasStoredStillHolds) {
  ReverifyOptions options;
  options.seed = 12345;  // other dims, other inputs
  options.device = "host";
  const Reverification again = reverify(*stored_, options);
  EXPECT_TRUE(again.holds()) << again.worse.front();
  EXPECT_EQ(again.not_repeated, "");
  ASSERT_EQ(again.evidence.size(), 4U);
  for (const verifier::Evidence& e : again.evidence)
    EXPECT_TRUE(e.verdict == verifier::Verdict::kPass || e.verdict == verifier::Verdict::kProved)
        << e.method << ": " << e.reason;
}

TEST_F(Reverify, SaysWhyTheNumericTestIsNotRepeated) {
  EXPECT_EQ(reverify(*stored_, {}).not_repeated, "no device was named");
  ReverifyOptions options;
  options.device = "compile:sm_80";
  EXPECT_EQ(reverify(*stored_, options).not_repeated, "compile:sm_80 does not execute kernels");
}

TEST_F(Reverify, ATamperedGraphIsRefuted) {
  cache::Stored bad = *stored_;
  bad.mugraph.text = replaced(bad.mugraph.text, "const(1/k)", "const(1/n)");
  const Reverification again = reverify(bad, {});
  EXPECT_FALSE(again.holds());
  std::string all;
  for (const std::string& w : again.worse) all += w + "\n";
  EXPECT_NE(all.find("identity"), std::string::npos) << all;
  EXPECT_NE(all.find("random: refuted now, pass before"), std::string::npos) << all;
}

TEST_F(Reverify, ATamperedPlanIsRefutedOnTheDevice) {
  cache::Stored bad = *stored_;
  bad.plan.text = replaced(bad.plan.text, "const(1/k)", "const(1/n)");
  ReverifyOptions options;
  options.device = "host";
  const Reverification again = reverify(bad, options);
  ASSERT_EQ(again.worse.size(), 1U);
  EXPECT_EQ(again.worse[0].substr(0, 33), "numeric: refuted now, pass before");
}

TEST_F(Reverify, ATimeoutIsWorseThanAProof) {
  ReverifyOptions options;
  options.z3_timeout_ms = 0;
  cache::Stored proved = *stored_;
  for (cache::EvidenceRow& row : proved.evidence)  // a slow machine may have had no time for it
    if (row.method == "z3") row.verdict = "proved";
  const Reverification again = reverify(proved, options);
  ASSERT_FALSE(again.holds());
  EXPECT_EQ(again.worse[0].substr(0, 31), "z3: timeout now, proved before ");
}

TEST_F(Reverify, UnreadableTextIsReported) {
  for (auto break_it : {+[](cache::Stored& s) { s.mugraph.text = "mugraph"; },
                        +[](cache::Stored& s) { s.workload.program_text = ""; },
                        +[](cache::Stored& s) { s.workload.dims_json = "{"; },
                        +[](cache::Stored& s) { s.workload.dtype = "T8"; }}) {
    cache::Stored bad = *stored_;
    break_it(bad);
    EXPECT_FALSE(reverify(bad, {}).holds());
  }
}

}  // namespace
}  // namespace tenon::optimizer
