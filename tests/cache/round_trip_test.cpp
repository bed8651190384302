// What is put is what is read, and the same thing put twice is one row.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "cache/blob.h"
#include "ir/error.h"
#include "ir/sha256.h"
#include "tests/cache/sample.h"

namespace tenon::cache {
namespace {

std::map<std::string, std::int64_t> counts(Database& database) {
  auto list = database.table_counts();
  return {list.begin(), list.end()};
}

TEST(RoundTrip, EveryFieldOfAStoredPlan) {
  TemporaryFolder folder;
  const std::string hostile = std::string("zero\0byte", 9) + " quote' \"µ\"\n;DROP TABLE plan;--";
  const std::string cubin = std::string(
                                "\x7f"
                                "ELF\0\x01\xff",
                                7) +
                            std::string(100000, '\xa5');
  std::int64_t plan_id = 0;
  {
    auto database = Database::open(folder.file("a.db"));
    WorkloadRow workload{0, "key " + hostile, "program", "text " + hostile,
                         3, "{\"m\":3}",      "fp16",    "{}"};
    EnvironmentRow environment{0, "GPU " + hostile, "sm_80", 108, "550.1", "12.4", "0.1.0"};
    MuGraphRow mugraph{0, std::string(64, 'a'), "graph " + hostile, "label", "program"};
    ScheduleRow schedule{0, "", "rows(threads=256)"};
    KernelRow kernel{0,       "",      "source " + hostile,
                     "-opt",  "sm_80", "12.4",
                     cubin,   "",      "[{}]",
                     255,     1234,    8,
                     0.03125, "ok",    "a log"};
    PlanRow plan;
    plan.workload = database->put(workload);
    plan.mugraph = database->put(mugraph);
    plan.schedule = database->put(schedule);
    plan.device_class = "sm_80";
    plan.text = "plan naming " + ir::sha256_hex(cubin);
    plan.m_min = 1;
    plan.m_max = std::numeric_limits<std::int64_t>::max();
    plan.dependent_launch = true;
    plan.uses_library = true;
    plan.kernels = {database->put(kernel), database->put(kernel)};  // one module used twice
    plan_id = database->put(plan);
    EvidenceRow evidence;
    evidence.mugraph = plan.mugraph;
    evidence.plan = plan_id;
    evidence.method = "numeric";
    evidence.verdict = "refuted";
    evidence.reason = hostile;
    evidence.figures_json = "{\"worst\":2.5}";
    evidence.counterexample_json = "{\"x\":[1]}";
    evidence.seconds = 0.75;
    evidence.created = "2026-01-02T03:04:05.678Z";
    evidence.program_sha256 = ir::sha256_hex("text " + hostile);
    database->put(evidence);
    SessionRow session;
    session.workload = plan.workload;
    session.environment = database->put(environment);
    session.seed = std::numeric_limits<std::int64_t>::min();
    MeasurementRow measurement;
    measurement.plan = plan_id;
    measurement.environment = session.environment;
    measurement.session = database->put(session);
    measurement.status = "wrong_result";
    measurement.reason = hostile;
    measurement.kind = "measured";
    measurement.time_us = 0.1;
    measurement.spread_us = 1.0 / 3;
    measurement.samples_us = {0.1, 1e-300, 5e-324, 1e300};
    measurement.protocol = "protocol";
    measurement.created = "2026-01-02T03:04:05.679Z";
    database->put(measurement);
    database->set_session_reference(measurement.session, 123.25);
    database->finish_session(measurement.session, "budget", "{\"kept\":4}");
  }
  auto database = Database::open(folder.file("a.db"), true);
  auto stored = database->by_plan(plan_id);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->workload.key, "key " + hostile);
  EXPECT_EQ(stored->workload.program_text, "text " + hostile);
  EXPECT_EQ(stored->workload.m, 3);
  EXPECT_EQ(stored->workload.dtype, "fp16");
  EXPECT_EQ(stored->environment.device_name, "GPU " + hostile);
  EXPECT_EQ(stored->environment.sm_count, 108);
  EXPECT_EQ(stored->mugraph.sha256, std::string(64, 'a'));
  EXPECT_EQ(stored->mugraph.text, "graph " + hostile);
  EXPECT_EQ(stored->schedule.text, "rows(threads=256)");
  EXPECT_EQ(stored->schedule.sha256, ir::sha256_hex("rows(threads=256)"));
  EXPECT_EQ(stored->plan.m_max, std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(stored->plan.dependent_launch);
  EXPECT_TRUE(stored->plan.uses_library);
  ASSERT_EQ(stored->kernels.size(), 2u);
  EXPECT_EQ(stored->kernels[1].cubin, cubin);
  EXPECT_EQ(stored->kernels[0].source, "source " + hostile);
  EXPECT_EQ(stored->kernels[0].registers, 255);
  EXPECT_EQ(stored->kernels[0].shared_bytes, 1234);
  EXPECT_EQ(stored->kernels[0].spill_bytes, 8);
  EXPECT_EQ(stored->kernels[0].compile_seconds, 0.03125);
  ASSERT_EQ(stored->evidence.size(), 1u);
  EXPECT_EQ(stored->evidence[0].reason, hostile);
  EXPECT_EQ(stored->evidence[0].counterexample_json, "{\"x\":[1]}");
  EXPECT_EQ(stored->evidence[0].created, "2026-01-02T03:04:05.678Z");
  EXPECT_EQ(stored->evidence[0].program_sha256, ir::sha256_hex("text " + hostile));
  EXPECT_EQ(stored->measurement.status, "wrong_result");
  EXPECT_EQ(stored->measurement.samples_us, (std::vector<double>{0.1, 1e-300, 5e-324, 1e300}));
  EXPECT_EQ(stored->measurement.time_us, 0.1);
  EXPECT_EQ(stored->measurement.spread_us, 1.0 / 3);
  EXPECT_EQ(stored->reference_time_us, 123.25);
  EXPECT_FALSE(stored->usable);
  EXPECT_NE(stored->note.find("wrong_result"), std::string::npos) << stored->note;
}

TEST(RoundTrip, TheSameRowsTwiceAreOneRow) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  Sample sample;
  sample.created = "2026-01-01T00:00:00.000Z";
  std::int64_t first = add(*database, sample);
  auto before = counts(*database);
  EXPECT_EQ(add(*database, sample), first);
  auto after = counts(*database);
  for (const char* table : {"workload", "environment", "mugraph", "schedule", "kernel", "plan",
                            "plan_kernel", "evidence"}) {
    EXPECT_EQ(before[table], after[table]) << table;
    EXPECT_GT(after[table], 0) << table;
  }
  // Another session is another measurement, even of the same moment.
  EXPECT_EQ(after["session"], before["session"] + 1);
  EXPECT_EQ(after["measurement"], before["measurement"] + 1);
}

TEST(RoundTrip, WhatDiffersInTheKeyIsAnotherRow) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  add(*database, {});
  Sample other;
  other.m = other.m_min = other.m_max = 17;
  add(*database, other);
  other = {};
  other.driver = "590.1";
  add(*database, other);
  other = {};
  other.cubin = "another cubin of the same source";
  add(*database, other);
  auto count = counts(*database);
  EXPECT_EQ(count["workload"], 2);
  EXPECT_EQ(count["environment"], 2);
  EXPECT_EQ(count["kernel"], 2);
  EXPECT_EQ(count["plan"], 3);
  EXPECT_EQ(count["mugraph"], 1);
}

TEST(RoundTrip, AFailedCompilationIsARow) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  KernelRow kernel;
  kernel.source = "__global__ void k( {";
  kernel.target = "sm_90a";
  kernel.status = "compile_error";
  kernel.log = "error: expected a \")\"";
  std::int64_t id = database->put(kernel);
  EXPECT_EQ(database->put(kernel), id);
  kernel.status = "ok";
  kernel.cubin = "ELF";
  EXPECT_NE(database->put(kernel), id);
}

TEST(RoundTrip, AnOkKernelWithoutCubinAndAWrongHashAreBugs) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  KernelRow kernel;
  kernel.status = "ok";
  EXPECT_THROW(database->put(kernel), InternalError);
  kernel.cubin = "ELF";
  kernel.cubin_sha256 = std::string(64, '0');
  EXPECT_THROW(database->put(kernel), InternalError);
  PlanRow plan;  // refers to nothing
  plan.device_class = "host";
  EXPECT_THROW(database->put(plan), InternalError);
  MeasurementRow measurement;
  measurement.status = "fine";
  EXPECT_THROW(database->put(measurement), InternalError);
  EXPECT_THROW(database->finish_session(77, "", ""), InternalError);
  for (const auto& [table, count] : database->table_counts()) EXPECT_EQ(count, 0) << table;
  EXPECT_TRUE(database->check().empty());
}

TEST(RoundTrip, TimesThatAreNoNumbersAreAbsent) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  for (double time : {std::nan(""), HUGE_VAL, -HUGE_VAL, 0.0}) {
    Sample sample;
    sample.schedule = "time " + std::to_string(time);
    sample.time_us = time;
    auto stored = database->by_plan(add(*database, sample));
    ASSERT_TRUE(stored);
    EXPECT_EQ(stored->measurement.time_us, 0) << time;
    EXPECT_FALSE(stored->usable) << time;
    EXPECT_EQ(stored->measurement.samples_us.size(), 2u);
  }
}

TEST(RoundTrip, SamplesKeepTheirBits) {
  std::vector<double> samples{0.0, -0.0, 1.5, HUGE_VAL, 5e-324};
  auto back = decode_samples(encode_samples(samples));
  EXPECT_EQ(back, samples);
  EXPECT_TRUE(std::signbit(back[1]));
  EXPECT_TRUE(std::isnan(decode_samples(encode_samples({std::nan("")})).at(0)));
  // 1.0 is 0x3ff0000000000000; little-endian, its last byte is 0x3f.
  EXPECT_EQ(encode_samples({1.0}), std::string("\0\0\0\0\0\0\xf0\x3f", 8));
  EXPECT_TRUE(decode_samples("seven b").empty());
}

TEST(RoundTrip, OfEachMethodAndVerdictTheNewestEvidenceIsShown) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  std::int64_t plan = add(*database, {});
  EvidenceRow again = database->by_plan(plan)->evidence.at(0);
  ASSERT_EQ(again.method, "random");
  again.created.clear();
  for (int seed = 1; seed <= 3; ++seed) {
    again.figures_json = "{\"seed\":" + std::to_string(seed) + "}";
    database->put(again);
  }
  EXPECT_EQ(counts(*database)["evidence"], 6);
  std::string shown;
  auto stored = database->by_plan(plan);
  for (const EvidenceRow& row : stored->evidence) {
    shown += row.method + row.figures_json + " ";
  }
  EXPECT_EQ(shown, "z3{} numeric{} random{\"seed\":3} ");
}

TEST(Transaction, IsUndoneWhenItThrows) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  EXPECT_THROW(database->transaction([&] {
    add(*database, {});
    throw std::runtime_error("stop");
  }),
               std::runtime_error);
  for (const auto& [table, count] : database->table_counts()) EXPECT_EQ(count, 0) << table;
}

TEST(Transaction, AnInnerOneIsUndoneAlone) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  database->transaction([&] {
    database->put(ScheduleRow{0, "", "kept"});
    try {
      database->transaction([&] {
        database->put(ScheduleRow{0, "", "undone"});
        throw 1;
      });
    } catch (int) {
    }
    database->put(ScheduleRow{0, "", "kept too"});
  });
  EXPECT_EQ(counts(*database)["schedule"], 2);
}

}  // namespace
}  // namespace tenon::cache
