// Packed databases: small, read-only, with all that a lookup needs and nothing else.
#include "cache/pack.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "ir/error.h"
#include "tests/cache/sample.h"

namespace tenon::cache {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Sample candidate(const std::string& schedule, double time_us, std::int64_t m = 16) {
  Sample sample;
  sample.m = sample.m_min = sample.m_max = m;
  sample.schedule = schedule;
  sample.cubin = std::string(20000, 'c') + schedule;
  sample.time_us = time_us;
  return sample;
}

class Pack : public testing::Test {
 protected:
  void SetUp() override {
    auto database = Database::open(source_);
    for (int i = 0; i < 40; ++i) add(*database, candidate("slow" + std::to_string(i), 50 + i));
    Sample library = candidate("library", 10);
    library.uses_library = true;
    add(*database, library);
    add(*database, candidate("own", 12));
    add(*database, candidate("other", 30, 64));
    Sample unchecked = candidate("unchecked", 1);
    unchecked.numeric = "";
    add(*database, unchecked);
  }
  TemporaryFolder folder_;
  std::string source_ = folder_.file("tuning.db"), target_ = folder_.file("pack.db");
};

TEST_F(Pack, HoldsWinnersAndTheBestWithoutALibrary) {
  PackSummary summary = pack_database(source_, target_);
  EXPECT_EQ(summary.plans, 3);
  EXPECT_TRUE(summary.left_out.empty());
  EXPECT_EQ(static_cast<std::uintmax_t>(summary.bytes), std::filesystem::file_size(target_));
  EXPECT_LT(std::filesystem::file_size(target_), std::filesystem::file_size(source_) / 4);
  auto packed = Database::open(target_, true);
  EXPECT_TRUE(packed->check().empty());
  auto original = Database::open(source_, true);
  for (bool library : {true, false}) {
    Query query = query_for({});
    query.allow_library = library;
    auto want = original->best(query), got = packed->best(query);
    ASSERT_TRUE(want && got);
    EXPECT_EQ(got->schedule.text, library ? "library" : "own");
    EXPECT_EQ(got->schedule.text, want->schedule.text);
    EXPECT_EQ(got->plan.text, want->plan.text);
    EXPECT_EQ(got->kernels.at(0).cubin, want->kernels.at(0).cubin);
    EXPECT_EQ(got->measurement.samples_us, want->measurement.samples_us);
    EXPECT_EQ(got->kernels.at(0).source, "");
    EXPECT_TRUE(got->usable);
  }
}

// Lookups may refuse plans for reasons of their own: whatever they refuse, the pack answers as the
// whole database does.
TEST_F(Pack, HoldsTheBestForEveryRefusal) {
  auto contains = [](const char* word) {
    return [word](const Stored& stored) -> std::string {
      return stored.schedule.text.find(word) == std::string::npos ? "" : word;
    };
  };
  const std::vector<Refusal> refusals = {contains("own"), contains("0")};
  EXPECT_EQ(pack_database(source_, target_, refusals).plans,
            5);  // slow0 and slow1 beside the three
  auto packed = Database::open(target_, true), original = Database::open(source_, true);
  for (bool library : {true, false})
    for (int which = 0; which < 4; ++which) {
      Query query = query_for({});
      query.allow_library = library;
      query.refuse = [&](const Stored& stored) -> std::string {
        for (std::size_t i = 0; i < 2; ++i)
          if ((which >> i & 1) && !refusals[i](stored).empty()) return "refused";
        return "";
      };
      auto want = original->best(query), got = packed->best(query);
      ASSERT_TRUE(want && got);
      EXPECT_EQ(got->schedule.text, want->schedule.text) << library << which;
    }
}

TEST_F(Pack, OpensReadOnlyFromADiskOrFromMemoryAndWritesNothing) {
  pack_database(source_, target_);
  const std::string bytes = read_file(target_);
  EXPECT_THROW(Database::open(target_), UserError);
  EXPECT_EQ(read_file(target_), bytes);
  for (const auto& database :
       {Database::open(target_, true), Database::open_packed(bytes, "the embedded database")}) {
    EXPECT_TRUE(database->best(query_for({})));
    EXPECT_THROW(add(*database, candidate("more", 1)), UserError);
  }
  EXPECT_EQ(read_file(target_), bytes);
  EXPECT_FALSE(std::filesystem::exists(target_ + "-wal"));
  EXPECT_FALSE(std::filesystem::exists(target_ + "-journal"));
}

TEST_F(Pack, OnlyAPackOpensFromMemoryAndDamageIsSaid) {
  pack_database(source_, target_);
  const std::string bytes = read_file(target_);
  for (std::size_t kept = 0; kept < bytes.size(); kept += bytes.size() / 9) {
    try {
      Database::open_packed(bytes.substr(0, kept), "the pack")->best(query_for({}));
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("the pack"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(Database::open_packed(read_file(source_), "a tuning database"), UserError);
}

TEST_F(Pack, ADamagedPlanIsLeftOutAndSaid) {
  {
    SQLite::Database raw(source_, SQLite::OPEN_READWRITE);
    raw.exec("UPDATE kernel SET cubin = x'00' WHERE source LIKE '%own'");
  }
  PackSummary summary = pack_database(source_, target_);
  EXPECT_EQ(summary.plans, 2);
  ASSERT_EQ(summary.left_out.size(), 1u);
  EXPECT_NE(summary.left_out[0].find("checksum"), std::string::npos) << summary.left_out[0];
}

TEST_F(Pack, TheSameSourceGivesTheSameBytes) {
  pack_database(source_, target_);
  const std::string first = read_file(target_);
  pack_database(source_, target_);
  EXPECT_EQ(read_file(target_), first);
  EXPECT_THROW(pack_database(source_, source_), UserError);
  EXPECT_THROW(pack_database(source_, "/proc/no/such/pack.db"), UserError);
}

}  // namespace
}  // namespace tenon::cache
