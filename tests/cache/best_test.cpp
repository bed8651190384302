// Which stored plan answers a query, and what is said when none does.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/sha256.h"
#include "tests/cache/sample.h"

namespace tenon::cache {
namespace {

class Best : public testing::Test {
 protected:
  // The plan that answers, or 0; `why_` holds what was said.
  std::int64_t ask(const Query& query) {
    auto stored = database_->best(query, &why_);
    return stored ? stored->plan.id : 0;
  }
  std::int64_t add(const Sample& sample) { return cache::add(*database_, sample); }
  bool said(const std::string& part) const { return why_.find(part) != std::string::npos; }
  // Runs SQL behind the database's back.
  void tamper(const std::string& sql) {
    SQLite::Database raw(folder_.file("a.db"), SQLite::OPEN_READWRITE);
    EXPECT_GT(raw.exec(sql), 0);
  }

  TemporaryFolder folder_;
  std::unique_ptr<Database> database_ = Database::open(folder_.file("a.db"));
  std::string why_;
};

Sample named(const std::string& schedule, double time_us) {
  Sample sample;
  sample.schedule = schedule;
  sample.time_us = time_us;
  return sample;
}

TEST_F(Best, TheFastestUsablePlanWins) {
  add(named("a", 12));
  std::int64_t fastest = add(named("b", 9.5));
  add(named("c", 11));
  EXPECT_EQ(ask(query_for({})), fastest);
  EXPECT_EQ(why_, "");
  auto stored = database_->best(query_for({}));
  EXPECT_TRUE(stored->usable);
  EXPECT_TRUE(stored->fresh);
  EXPECT_EQ(stored->measurement.time_us, 9.5);
  EXPECT_EQ(stored->kernels.at(0).cubin, Sample().cubin);
  EXPECT_EQ(stored->environment.device_name, "NVIDIA H200");
}

TEST_F(Best, FailedCandidatesNeverWin) {
  std::int64_t good = add(named("good", 100));
  for (const char* status :
       {"compile_error", "launch_error", "wrong_result", "timeout", "crashed", "unsupported"}) {
    Sample bad = named(status, 1);
    bad.status = status;
    add(bad);
  }
  EXPECT_EQ(ask(query_for({})), good);
}

TEST_F(Best, TimesThatAreNoPositiveNumbersNeverWin) {
  std::int64_t good = add(named("good", 100));
  for (double time : {std::nan(""), -HUGE_VAL, HUGE_VAL, 0.0, -3.0}) {
    add(named("time " + std::to_string(time), time));
  }
  EXPECT_EQ(ask(query_for({})), good);
}

TEST_F(Best, WithoutEvidenceNothingWins) {
  struct Case {
    const char *random, *z3, *numeric, *said;
  };
  for (const Case& c :
       {Case{"", "proved", "pass", "random test"}, Case{"unknown", "proved", "pass", "random test"},
        Case{"timeout", "", "pass", "random test"}, Case{"pass", "proved", "", "numeric test"},
        Case{"pass", "proved", "unsupported", "numeric test"},
        Case{"refuted", "proved", "pass", "refuted by the random test"},
        Case{"pass", "refuted", "pass", "refuted by the z3 test"},
        Case{"pass", "proved", "refuted", "refuted by the numeric test"}}) {
    TemporaryFolder folder;
    auto database = Database::open(folder.file("a.db"));
    Sample sample;
    sample.random = c.random;
    sample.z3 = c.z3;
    sample.numeric = c.numeric;
    std::int64_t plan = cache::add(*database, sample);
    std::string why;
    EXPECT_FALSE(database->best(query_for(sample), &why)) << c.said;
    EXPECT_NE(why.find(c.said), std::string::npos) << why;
    EXPECT_FALSE(database->by_plan(plan)->usable);
  }
}

TEST_F(Best, ZThreeMayBeUndecidedButNotRefuted) {
  Sample sample;
  sample.z3 = "timeout";
  std::int64_t plan = add(sample);
  EXPECT_EQ(ask(query_for({})), plan);
}

TEST_F(Best, ALaterRefutationRulesOut) {
  std::int64_t plan = add(named("a", 1));
  EXPECT_EQ(ask(query_for({})), plan);
  EvidenceRow evidence;
  evidence.mugraph = database_->by_plan(plan)->mugraph.id;
  evidence.method = "random";
  evidence.verdict = "refuted";
  evidence.figures_json = "{\"seed\":2}";
  database_->put(evidence);
  EXPECT_EQ(ask(query_for({})), 0);
}

TEST_F(Best, TheNumericTestOfAnotherPlanDoesNotCount) {
  add(named("tested", 50));
  Sample untested = named("untested", 1);  // the same µGraph, another schedule
  untested.numeric = "";
  add(untested);
  EXPECT_EQ(database_->best(query_for({}))->schedule.text, "tested");
}

TEST_F(Best, ANumericRefutationOfAnotherPlanDoesNotCountEither) {
  Sample wrong = named("wrong", 1);
  wrong.numeric = "refuted";
  add(wrong);
  std::int64_t right = add(named("right", 50));
  EXPECT_EQ(ask(query_for({})), right);
}

TEST_F(Best, EvidenceForAnotherProgramOfTheSameNameDoesNotCount) {
  Sample other;
  other.program_text = "program rmsnorm_linear  # something else\n";
  add(other);
  Sample mine;
  mine.random = "";
  add(mine);  // shares the µGraph, whose random test was against the other program
  EXPECT_EQ(ask(query_for(mine)), 0);
  EXPECT_TRUE(said("random test")) << why_;
  EXPECT_NE(ask(query_for(other)), 0);
}

TEST_F(Best, NeverForAnotherDeviceClass) {
  add({});
  Query query = query_for({});
  query.device_class = "sm_80";
  EXPECT_EQ(ask(query), 0);
  EXPECT_TRUE(said("device class sm_90a, not sm_80")) << why_;
}

TEST_F(Best, OnlyWithinTheIntervalOfM) {
  Sample sample;
  sample.m_min = 5;
  sample.m_max = 16;
  std::int64_t plan = add(sample);
  Query query = query_for(sample);
  for (std::int64_t m : {5, 9, 16}) {
    query.m = m;
    EXPECT_EQ(ask(query), plan) << m;
  }
  for (std::int64_t m : {0, 4, 17, -1}) {
    query.m = m;
    EXPECT_EQ(ask(query), 0) << m;
    EXPECT_TRUE(said("m from 5 to 16")) << why_;
  }
}

TEST_F(Best, PlansTunedNearestToTheAskedMComeFirst) {
  auto tuned_at = [](std::int64_t m, double time) {
    Sample sample = named("tuned at " + std::to_string(m), time);
    sample.m = m;
    sample.m_min = 1;
    sample.m_max = 1000;
    return sample;
  };
  // Times at different m do not compare: the one of m = 1 is fast because it does less.
  std::int64_t one = add(tuned_at(1, 1));
  std::int64_t sixteen = add(tuned_at(16, 10));
  std::int64_t hundred = add(tuned_at(100, 50));
  Query query = query_for({});
  auto at = [&](std::int64_t m) {
    query.m = m;
    return ask(query);
  };
  EXPECT_EQ(at(1), one);
  EXPECT_EQ(why_, "");
  EXPECT_EQ(at(3), one);  // 3 times 1, and 16 is more than 5 times 3
  EXPECT_TRUE(said("tuned at m=1")) << why_;
  EXPECT_EQ(at(4), sixteen);  // as far from 1 as from 16: the larger
  EXPECT_EQ(at(39), sixteen);
  EXPECT_EQ(at(41), hundred);
  EXPECT_EQ(at(1000), hundred);
}

TEST_F(Best, LaunchModesAreKeptApart) {
  std::int64_t plain = add(named("a", 10));
  Sample dependent = named("a", 5);
  dependent.dependent_launch = true;
  std::int64_t fast = add(dependent);
  EXPECT_EQ(ask(query_for({})), plain);
  EXPECT_EQ(ask(query_for(dependent)), fast);
}

TEST_F(Best, MissingLaunchModeIsSaid) {
  add({});
  Query query = query_for({});
  query.dependent_launch = true;
  EXPECT_EQ(ask(query), 0);
  EXPECT_TRUE(said("plain launch")) << why_;
}

TEST_F(Best, WhereTheLibraryWinsTheBestWithoutItIsFound) {
  Sample library = named("library", 5);
  library.uses_library = true;
  std::int64_t with = add(library);
  Query query = query_for({});
  query.allow_library = false;
  EXPECT_EQ(ask(query), 0);
  EXPECT_TRUE(said("library")) << why_;
  std::int64_t without = add(named("own", 6));
  EXPECT_EQ(ask(query), without);
  query.allow_library = true;
  EXPECT_EQ(ask(query), with);
}

TEST_F(Best, EstimatedOnlyWhenAskedForAndAfterAllMeasured) {
  Sample estimate = named("estimate", 1);
  estimate.kind = "estimated";
  estimate.numeric = "";
  std::int64_t estimated = add(estimate);
  Query query = query_for({});
  EXPECT_EQ(ask(query), 0);
  EXPECT_TRUE(said("only estimated")) << why_;
  query.include_estimated = true;
  EXPECT_EQ(ask(query), estimated);
  EXPECT_TRUE(said("estimated")) << why_;
  EXPECT_FALSE(database_->best(query)->usable);
  std::int64_t measured = add(named("measured", 100));
  EXPECT_EQ(ask(query), measured);
  // Estimated and measured: what was measured is what counts.
  estimate.kind = "measured";
  estimate.numeric = "pass";
  estimate.time_us = 200;
  add(estimate);
  EXPECT_EQ(ask(query), measured);
}

TEST_F(Best, AnEstimateStillNeedsTheRandomTest) {
  Sample estimate;
  estimate.kind = "estimated";
  estimate.random = "unknown";
  estimate.numeric = "";
  add(estimate);
  Query query = query_for({});
  query.include_estimated = true;
  EXPECT_EQ(ask(query), 0);
  EXPECT_TRUE(said("random test")) << why_;
}

TEST_F(Best, TheNewestMeasurementOfAPlanCounts) {
  Sample a = named("a", 5);
  a.created = "2026-01-01T00:00:00.000Z";
  std::int64_t plan_a = add(a);
  Sample b = named("b", 7);
  std::int64_t plan_b = add(b);
  EXPECT_EQ(ask(query_for({})), plan_a);
  a.time_us = 9;  // measured again, with more care
  a.created = "2026-01-02T00:00:00.000Z";
  add(a);
  EXPECT_EQ(ask(query_for({})), plan_b);
  a.created = "2026-01-03T00:00:00.000Z";
  a.time_us = 1;
  a.status = "crashed";
  a.reason = "illegal address";
  add(a);
  EXPECT_EQ(ask(query_for({})), plan_b);
  EXPECT_FALSE(database_->by_plan(plan_a)->usable);
  EXPECT_NE(database_->by_plan(plan_a)->note.find("crashed: illegal address"), std::string::npos);
}

TEST_F(Best, AnotherGpuOfTheClassIsUsedButStale) {
  Sample h100 = named("h100", 3);
  h100.device_name = "NVIDIA H100";
  std::int64_t stale = add(h100);
  EXPECT_EQ(ask(query_for({})), stale);
  EXPECT_TRUE(said("stale")) << why_;
  EXPECT_TRUE(said("NVIDIA H100")) << why_;
  auto stored = database_->best(query_for({}));
  EXPECT_TRUE(stored->usable);
  EXPECT_FALSE(stored->fresh);
  // Slower, but measured here.
  std::int64_t fresh = add(named("h200", 4));
  EXPECT_EQ(ask(query_for({})), fresh);
  Query any = query_for({});
  any.device_name = "";
  EXPECT_EQ(ask(any), stale);
  EXPECT_EQ(why_, "");
}

TEST_F(Best, AFailureOnAnotherGpuDoesNotRuleOutHere) {
  Sample here = named("a", 3);
  here.created = "2026-01-01T00:00:00.000Z";
  std::int64_t plan = add(here);
  Sample there = here;
  there.device_name = "NVIDIA H100";
  there.status = "launch_error";
  there.created = "2026-01-02T00:00:00.000Z";
  add(there);
  EXPECT_EQ(ask(query_for(here)), plan);
  EXPECT_EQ(ask(query_for(there)), 0);
}

TEST_F(Best, AnotherDriverToolchainOrTenonIsStale) {
  std::int64_t plan = add({});
  Query query = query_for({});
  query.driver = "580.65.06";
  query.nvrtc = "13.0";
  query.tenon = "0.1.0";
  EXPECT_EQ(ask(query), plan);
  EXPECT_EQ(why_, "");
  for (std::string Query::*field : {&Query::driver, &Query::nvrtc, &Query::tenon}) {
    Query other = query;
    other.*field = "9.9";
    EXPECT_EQ(ask(other), plan);
    EXPECT_TRUE(said("stale")) << why_;
    EXPECT_TRUE(said("not '9.9'")) << why_;
  }
}

TEST_F(Best, AWrongChecksumIsPassedOverAndSaid) {
  Sample fast = named("fast", 1);
  fast.cubin = "fast cubin";
  std::int64_t damaged = add(fast);
  Sample slow = named("slow", 2);
  slow.cubin = "slow cubin";
  std::int64_t sound = add(slow);
  tamper("UPDATE kernel SET cubin = x'00' WHERE cubin = CAST('fast cubin' AS BLOB)");
  EXPECT_EQ(ask(query_for({})), sound);
  EXPECT_TRUE(said("plan " + std::to_string(damaged) + " was passed over")) << why_;
  EXPECT_TRUE(said("checksum")) << why_;
  auto stored = database_->by_plan(damaged);
  EXPECT_FALSE(stored->usable);
  EXPECT_EQ(stored->kernels.at(0).cubin, "");
  EXPECT_EQ(database_->check().size(), 1u);
  tamper("UPDATE plan SET text = text || ' '");
  EXPECT_EQ(ask(query_for({})), 0);
  EXPECT_TRUE(said("the text of the plan")) << why_;
}

TEST_F(Best, ACubinSwappedWithItsChecksumIsPassedOver) {
  add({});
  const std::string other = "another cubin";
  tamper("UPDATE kernel SET cubin = CAST('" + other + "' AS BLOB), cubin_sha256 = '" +
         ir::sha256_hex(other) + "'");
  EXPECT_EQ(ask(query_for({})), 0);
  EXPECT_TRUE(said("not one the plan names")) << why_;
}

TEST_F(Best, APlanWithoutTextIsNoPlan) {
  std::int64_t plan = add({});
  PlanRow row = database_->by_plan(plan)->plan;
  tamper("UPDATE plan SET text = '', sha256 = '" + ir::sha256_hex("") + "'");
  EXPECT_EQ(ask(query_for({})), 0);
  EXPECT_FALSE(database_->by_plan(plan)->usable);
}

TEST_F(Best, CandidatesThatGotNoPlanAreKeptApartAndNeverWin) {
  Sample sample;
  PlanRow row = database_->by_plan(add(sample))->plan;
  row.text = "";
  row.kernels.clear();
  std::int64_t ids[2];
  for (int i = 0; i < 2; ++i) {
    row.sha256 = "candidate " + std::to_string(i);
    ids[i] = database_->put(row);
    MeasurementRow failed;
    failed.plan = ids[i];
    failed.environment = 1;
    failed.kind = "measured";
    failed.status = "unsupported";
    failed.reason = "the host cannot split k";
    database_->put(failed);
  }
  EXPECT_NE(ids[0], ids[1]);
  auto stored = database_->by_plan(ids[0]);
  EXPECT_FALSE(stored->usable);
  EXPECT_NE(stored->note.find("unsupported: the host cannot split k"), std::string::npos)
      << stored->note;
  EXPECT_TRUE(database_->check().empty());
  EXPECT_NE(ask(query_for(sample)), ids[0]);
}

TEST_F(Best, TheNearestWorkloadIsNamed) {
  EXPECT_EQ(ask(query_for({})), 0);
  EXPECT_TRUE(said("no workload")) << why_;
  Sample far;
  far.k = 1000;
  far.n = 1000;
  far.dtype = "fp16";
  add(far);
  Sample near;
  near.dtype = "fp16";
  add(near);
  EXPECT_EQ(ask(query_for({})), 0);
  EXPECT_TRUE(said("dtype is fp16, not bf16")) << why_;
  EXPECT_FALSE(said("1000")) << why_;
  Query query = query_for({});
  query.workload_key = R"({"program":"layernorm_linear","dims":{"k":1}})";
  EXPECT_EQ(ask(query), 0);
  EXPECT_TRUE(said("layernorm_linear") && said("rmsnorm_linear")) << why_;
  query.workload_key = "not even JSON";
  EXPECT_EQ(ask(query), 0);
  EXPECT_NE(why_, "");
}

TEST_F(Best, OtherAttributesAndProgramsAreOtherWorkloads) {
  add({});
  Query query = query_for({});
  auto at = query.workload_key.find("1e-06");
  query.workload_key.replace(at, 5, "1e-05");
  EXPECT_EQ(ask(query), 0);
  EXPECT_TRUE(said("eps is 1e-06, not 1e-05")) << why_;
}

TEST_F(Best, TheViewAgreesWithTheFunction) {
  for (int m : {1, 16, 33}) {
    for (int i = 0; i < 6; ++i) {
      Sample sample = named("s" + std::to_string(i), 10 + (i * 7 + m) % 5 + 0.01 * i);
      sample.m = sample.m_min = sample.m_max = m;
      sample.mugraph = "mugraph " + std::to_string(i);
      if (i == 1) sample.status = "timeout";
      if (i == 2) sample.numeric = "";
      if (i == 3) sample.kind = "estimated";
      if (i == 4) sample.z3 = "refuted";
      add(sample);
      sample.device_class = "sm_80";
      sample.device_name = "A100";
      sample.time_us = 30 - sample.time_us;
      add(sample);
    }
  }
  SQLite::Database raw(folder_.file("a.db"), SQLite::OPEN_READONLY);
  SQLite::Statement rows(raw, "SELECT key, m, device_class, dependent_launch, plan FROM best");
  int count = 0;
  while (rows.executeStep()) {
    Query query;
    query.workload_key = rows.getColumn(0).getString();
    query.m = rows.getColumn(1).getInt64();
    query.device_class = rows.getColumn(2).getString();
    query.dependent_launch = rows.getColumn(3).getInt() != 0;
    EXPECT_EQ(ask(query), rows.getColumn(4).getInt64());
    ++count;
  }
  EXPECT_EQ(count, 6);  // three m, two device classes
}

}  // namespace
}  // namespace tenon::cache
