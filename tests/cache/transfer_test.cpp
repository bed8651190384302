// Export, import, merge and prune: nothing lost, nothing doubled, nothing mixed, nothing believed.
#include "cache/transfer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "cache/pack.h"
#include "cache/prune.h"
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

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class Transfer : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.file(name); }
  // What a machine measured: plans of its own, and some that others have too.
  std::string machine(const std::string& name, const std::string& device, double time_us) const {
    auto database = Database::open(file(name));
    for (int i = 0; i < 6; ++i) {
      Sample sample;
      sample.m = sample.m_min = sample.m_max = 16 + i % 2;
      sample.device_name = device;
      sample.schedule = "s" + std::to_string(i);
      sample.time_us = time_us + i;
      sample.created = "2030-01-0" + std::to_string(1 + i) + "T00:00:00.000Z";
      add(*database, sample);
    }
    Sample own;
    own.mugraph = "mugraph of " + device + "\n";
    own.device_name = device;
    own.z3 = "";
    add(*database, own);
    return file(name);
  }
  std::string exported(const std::string& database) const {
    export_database(database, database + ".export");
    return read_file(database + ".export");
  }
  TemporaryFolder folder_;
};

TEST_F(Transfer, ExportAndImportKeepEveryRow) {
  const std::string a = machine("a.db", "one", 10);
  RowCounts out = export_database(a, file("a.export"));
  RowCounts in = import_database(file("b.db"), file("a.export"));
  for (const auto& [table, count] : out) EXPECT_EQ(in[table], count) << table;
  EXPECT_EQ(exported(a), exported(file("b.db")));
  auto database = Database::open(file("b.db"), true);
  EXPECT_TRUE(database->check().empty());
  Query query = query_for({});
  query.device_name = "one";
  EXPECT_EQ(database->best(query)->measurement.samples_us,
            Database::open(a, true)->best(query)->measurement.samples_us);
}

TEST_F(Transfer, MergingIsIdempotentAndOrderDoesNotMatter) {
  const std::string a = machine("a.db", "one", 10), b = machine("b.db", "two", 5),
                    c = machine("c.db", "three", 7);
  const std::string orders[] = {"abc", "cba", "bacab"};
  std::string first;
  for (const std::string& order : orders) {
    const std::string target = file(order + ".db");
    for (char machine : order) merge_database(target, machine == 'a' ? a : machine == 'b' ? b : c);
    const std::string all = exported(target);
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << order;
    for (const auto& [table, count] : Database::open(target, true)->table_counts()) {
      if (table == "measurement") {
        EXPECT_EQ(count, 21);
      }
      if (table == "environment") {
        EXPECT_EQ(count, 3);
      }
      if (table == "workload") {
        EXPECT_EQ(count, 2);
      }
    }
    // Each device has its own answer.
    for (const auto& [device, time] :
         {std::pair("one", 10.0), std::pair("two", 5.0), std::pair("three", 7.0)}) {
      Query query = query_for({});
      query.device_name = device;
      auto best = Database::open(target, true)->best(query);
      ASSERT_TRUE(best);
      EXPECT_EQ(best->environment.device_name, device);
      EXPECT_EQ(best->measurement.time_us, time);
    }
  }
}

TEST_F(Transfer, ASessionThatWentOnReplacesItsEarlierState) {
  const std::string a = machine("a.db", "one", 10);
  export_database(a, file("early"));
  Database::open(a)->finish_session(1, "exhausted", "{}");
  export_database(a, file("late"));
  for (const char* order : {"el", "le"}) {
    const std::string target = file(std::string(order) + ".db");
    for (const char* c = order; *c; ++c)
      import_database(target, file(*c == 'e' ? "early" : "late"));
    EXPECT_EQ(exported(target), read_file(file("late")));
  }
}

TEST_F(Transfer, APackMergesAndItsSourcesComeBackFromAFullDatabase) {
  const std::string a = machine("a.db", "one", 10);
  pack_database(a, file("a.pack"));
  merge_database(file("b.db"), file("a.pack"));
  EXPECT_TRUE(Database::open(file("b.db"), true)->check().empty());
  merge_database(file("b.db"), a);
  EXPECT_EQ(Database::open(file("b.db"), true)->best(query_for({}))->kernels.at(0).source,
            Database::open(a, true)->best(query_for({}))->kernels.at(0).source);
}

TEST_F(Transfer, DamagedFilesAreRefusedAsAWhole) {
  const std::string a = machine("a.db", "one", 10);
  const std::string sound = exported(a);
  const std::string b = machine("b.db", "two", 5);
  const std::string before = exported(b);
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 150; ++trial) {
    std::string bytes = sound;
    if (trial % 3 == 0)
      bytes.resize(random() % bytes.size());
    else
      bytes[random() % bytes.size()] ^= static_cast<char>(1u << random() % 7);
    write_file(file("bad"), bytes);
    try {
      import_database(b, file("bad"));
      ADD_FAILURE() << trial;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(file("bad")), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(exported(b), before);
}

// Whoever makes a file can make its checksum: what is inside is checked as well.
TEST_F(Transfer, ForgedRowsAreRefused) {
  const std::pair<const char*, const char*> forgeries[] = {
      {"UPDATE kernel SET cubin = x'00'", "a cubin does not match its checksum"},
      {"UPDATE plan SET text = text || ' '", "the text of a plan does not match"},
      {"UPDATE mugraph SET text = 'another'", "the text of a uGraph does not match"},
      {"UPDATE schedule SET text = 'another'", "the text of a schedule does not match"},
      {"UPDATE kernel SET source = 'another'", "the source of a kernel does not match"},
      {"UPDATE workload SET program_text = 'another'", "does not name its program"},
      {"UPDATE measurement SET samples = x'010203'", "samples are no whole numbers"}};
  const std::string b = machine("b.db", "two", 5);
  const std::string before = exported(b);
  for (const auto& [sql, named] : forgeries) {
    const std::string a = machine("forged.db", "one", 10);
    SQLite::Database(a, SQLite::OPEN_READWRITE).exec(sql);
    export_database(a, file("forged"));
    for (bool merge : {false, true}) {
      try {
        merge ? merge_database(b, a) : import_database(b, file("forged"));
        ADD_FAILURE() << sql;
      } catch (const UserError& error) {
        EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
      }
    }
    std::filesystem::remove(a);
  }
  EXPECT_EQ(exported(b), before);
}

TEST_F(Transfer, WrongFilesAreNamedInOneSentence) {
  write_file(file("empty"), "");
  write_file(file("text"), "hello\nworld\n");
  write_file(file("newer"), "{\"tenon_export\":99}\n{\"rows\":0,\"sha256\":\"\"}\n");
  write_file(file("deep"), std::string(100000, '[') + "\n");
  for (const char* name : {"empty", "text", "newer", "deep", "missing", ""}) {
    EXPECT_THROW(import_database(file("c.db"), file(name)), UserError) << name;
    EXPECT_FALSE(std::filesystem::exists(file("c.db")));
  }
  EXPECT_THROW(merge_database(file("c.db"), file("text")), UserError);
  EXPECT_FALSE(std::filesystem::exists(file("c.db")));
  const std::string a = machine("a.db", "one", 10);
  EXPECT_THROW(merge_database(a, a), UserError);
  EXPECT_THROW(export_database(a, "/proc/no/such/file"), UserError);
}

TEST_F(Transfer, PruneKeepsWinnersAndCountsFirst) {
  const std::string a = machine("a.db", "one", 10);
  const std::string before = exported(a);
  PruneOptions options;
  options.keep = 1;
  RowCounts counted = prune_database(a, options);
  EXPECT_EQ(exported(a), before);
  EXPECT_EQ(counted["plan"], 5);
  options.apply = true;
  EXPECT_EQ(prune_database(a, options), counted);
  auto database = Database::open(a, true);
  EXPECT_TRUE(database->check().empty());
  auto left = database->list(false);
  ASSERT_EQ(left.size(), 2u);
  for (const auto& line : left) EXPECT_TRUE(line.best);
  for (const auto& [table, count] : orphans_of(a)) EXPECT_EQ(count, 0) << table;
}

TEST_F(Transfer, PruneByAgeAndToolchain) {
  const std::string a = machine("a.db", "one", 10);
  PruneOptions options;
  options.older_than = "2030-01-04T00:00:00.000Z";
  // s0 and s1 win; s2 alone is old and does not; what was stored just now is older still.
  EXPECT_EQ(prune_database(a, options)["plan"], 2);
  options.older_than.clear();
  options.stale = true;
  options.tenon = "0.1.0";
  options.nvrtc = "13.0";
  EXPECT_EQ(prune_database(a, options)["plan"], 0);
  options.nvrtc = "14.0";
  EXPECT_EQ(prune_database(a, options)["plan"], 5);
}

}  // namespace
}  // namespace tenon::cache
