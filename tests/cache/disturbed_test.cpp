// Measurements that were disturbed, and sessions that were interrupted.
#include <gtest/gtest.h>

#include "tests/cache/sample.h"

namespace tenon::cache {
namespace {

Sample timed(const std::string& schedule, double time_us, const std::string& disturbance,
             bool decides) {
  Sample sample;
  sample.schedule = schedule;
  sample.time_us = time_us;
  sample.disturbance = disturbance;
  sample.decides = decides;
  return sample;
}

TEST(Disturbed, DoesNotChooseAWinner) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  add(*database, timed("fast", 5, "another process", false));
  std::string why;
  EXPECT_FALSE(database->best(query_for({}), &why));
  EXPECT_NE(why.find("disturbed: another process"), std::string::npos) << why;
  EXPECT_TRUE(database->list(true).empty());
  add(*database, timed("slow", 9, "", true));
  EXPECT_EQ(database->best(query_for({}))->schedule.text, "slow");
  ASSERT_EQ(database->list(true).size(), 1u);
  EXPECT_EQ(database->list(true)[0].schedule, "slow");
}

TEST(Disturbed, AnEarlierQuietMeasurementStillDecides) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  add(*database, timed("one", 7, "", true));
  add(*database, timed("one", 700, "another process", false));
  EXPECT_EQ(database->best(query_for({}))->measurement.time_us, 7);
  EXPECT_EQ(database->list(false).at(0).time_us, 7);
}

TEST(Disturbed, AShortQuietOneOfTheSameSessionIsRetracted) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  const std::int64_t plan = add(*database, timed("one", 7, "", true));
  const std::int64_t session = database->by_plan(plan)->measurement.session;
  add(*database, timed("one", 700, "another process", false));
  add(*database, timed("two", 9, "", true));
  database->retract(session, plan);
  EXPECT_EQ(database->best(query_for({}))->schedule.text, "two");
  ASSERT_EQ(database->list(true).size(), 1u);
  EXPECT_EQ(database->list(true)[0].schedule, "two");
}

TEST(Disturbed, ForcedOnesDecideAndSayWhatDisturbedThem) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  add(*database, timed("one", 7, "clocks were throttled", true));
  std::string why;
  ASSERT_TRUE(database->best(query_for({}), &why));
  EXPECT_NE(why.find("clocks were throttled"), std::string::npos) << why;
}

TEST(Interrupted, OnlyTheNewestSessionOfTheSameOptionsGoesOn) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  auto stored = database->by_plan(add(*database, {}));
  SessionRow row;
  row.workload = stored->workload.id;
  row.environment = stored->environment.id;
  row.options_json = R"({"budget_seconds":60.0,"device":"cuda:0"})";
  row.started = "2030-01-01T00:00:00.000Z";
  row.owner = "someone";
  const std::int64_t first = database->put(row);
  auto found = [&](const std::string& options) {
    return database->unfinished_session(row.workload, row.environment, options);
  };
  ASSERT_TRUE(found(R"({"budget_seconds":5.0,"device":"cuda:0"})"));  // another budget
  EXPECT_EQ(found(row.options_json)->id, first);
  EXPECT_EQ(found(row.options_json)->owner, "someone");
  EXPECT_FALSE(found(R"({"budget_seconds":5.0,"device":"host"})"));
  EXPECT_FALSE(database->unfinished_session(row.workload, row.environment + 1, row.options_json));
  database->finish_session(first, "interrupted", "{}");
  EXPECT_TRUE(found(row.options_json));
  database->resume_session(first, "me");
  EXPECT_EQ(found(row.options_json)->owner, "me");
  EXPECT_EQ(found(row.options_json)->stop_reason, "");
  database->finish_session(first, "budget", "{}");
  EXPECT_FALSE(found(row.options_json));
  row.started = "2030-01-02T00:00:00.000Z";
  const std::int64_t second = database->put(row);
  EXPECT_EQ(found(row.options_json)->id, second);

  MeasurementRow measurement = stored->measurement;
  measurement.session = second;
  measurement.settings = "samples=3";
  measurement.created.clear();
  database->put(measurement);
  auto list = database->measurements_of(second);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].settings, "samples=3");
  EXPECT_EQ(list[0].samples_us, stored->measurement.samples_us);
}

}  // namespace
}  // namespace tenon::cache
