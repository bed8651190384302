#include <gtest/gtest.h>

#include "ir/sha256.h"
#include "tests/cache/sample.h"

namespace tenon::cache {
namespace {

TEST(Listing, SortedByWorkloadThenTimeWithTheBestMarked) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  EXPECT_TRUE(database->list(false).empty());
  auto put = [&](std::int64_t m, const std::string& schedule, double time,
                 const std::string& status) {
    Sample sample;
    sample.m = sample.m_min = sample.m_max = m;
    sample.schedule = schedule;
    sample.time_us = time;
    sample.status = status;
    return add(*database, sample);
  };
  put(16, "slow", 30, "ok");
  put(16, "fast", 20, "ok");
  put(16, "broken", 0, "compile_error");
  put(2, "small", 40, "ok");
  std::vector<std::string> order;
  std::vector<std::string> best;
  for (const auto& line : database->list(false)) {
    order.push_back(line.schedule);
    if (line.best) best.push_back(line.schedule);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"small", "fast", "slow", "broken"}));
  EXPECT_EQ(best, (std::vector<std::string>{"small", "fast"}));
  auto only_best = database->list(true);
  ASSERT_EQ(only_best.size(), 2u);
  EXPECT_EQ(only_best[1].schedule, "fast");
  EXPECT_EQ(only_best[1].dims, "m=16 k=576 n=960");
  EXPECT_EQ(only_best[1].dtype, "bf16");
  EXPECT_EQ(only_best[1].device, "NVIDIA H200");
  EXPECT_EQ(only_best[1].status, "ok");
  EXPECT_EQ(only_best[1].kind, "measured");
  EXPECT_EQ(only_best[1].time_us, 20);
  EXPECT_EQ(only_best[1].spread_us, 0.5);
  EXPECT_EQ(only_best[1].label, "label of mugraph one");
  EXPECT_EQ(only_best[1].mugraph, ir::sha256_hex("mugraph one\n"));
  // One plan is listed as it is among all, and an unknown one not at all.
  for (const auto& line : database->list(false)) {
    const auto one = database->list(Database::Which::kOne, line.plan);
    ASSERT_EQ(one.size(), 1u);
    EXPECT_EQ(one[0].plan, line.plan);
    EXPECT_EQ(one[0].schedule, line.schedule);
    EXPECT_EQ(one[0].best, line.best);
    EXPECT_EQ(one[0].time_us, line.time_us);
  }
  EXPECT_TRUE(database->list(Database::Which::kOne, 999).empty());
}

TEST(Listing, OneLineAPlanHoweverOftenMeasured) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  Sample sample;
  for (int i = 0; i < 3; ++i) {
    sample.time_us = 10 + i;
    add(*database, sample);
  }
  auto lines = database->list(false);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].time_us, 12);
}

TEST(Listing, CountsNameEveryTable) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  add(*database, {});
  std::string names;
  for (const auto& [table, count] : database->table_counts()) {
    names += table + "=" + std::to_string(count) + " ";
  }
  EXPECT_EQ(
      names,
      "workload=1 environment=1 mugraph=1 schedule=1 kernel=1 plan=1 plan_kernel=1 evidence=3 "
      "session=1 measurement=1 info=0 ");
}

}  // namespace
}  // namespace tenon::cache
