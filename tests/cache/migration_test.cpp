// Databases of every earlier version, and files that only look like one.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cache/schema.h"
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

// Makes a database from a dump in tests/cache/data.
void restore(const std::string& path, const std::string& dump, int version) {
  std::string sql = read_file(std::string(TENON_CACHE_TEST_DATA) + "/" + dump);
  ASSERT_FALSE(sql.empty()) << dump;
  SQLite::Database raw(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  raw.exec(sql);
  raw.exec("PRAGMA application_id = " + std::to_string(kApplicationId));
  raw.exec("PRAGMA user_version = " + std::to_string(version));
}

TEST(Migration, AnEmptyFileBecomesADatabase) {
  TemporaryFolder folder;
  std::ofstream(folder.file("a.db")).close();
  auto database = Database::open(folder.file("a.db"));
  EXPECT_NE(add(*database, {}), 0);
  database.reset();
  SQLite::Database raw(folder.file("a.db"));
  EXPECT_EQ(raw.execAndGet("PRAGMA user_version").getInt(), schema_version());
  EXPECT_EQ(raw.execAndGet("PRAGMA application_id").getInt(), kApplicationId);
  EXPECT_EQ(raw.execAndGet("PRAGMA journal_mode").getString(), "wal");
}

TEST(Migration, EveryEarlierVersionOpensAndKeepsItsRows) {
  for (int version = 1; version <= schema_version(); ++version) {
    SCOPED_TRACE(version);
    TemporaryFolder folder;
    restore(folder.file("a.db"), "version_" + std::to_string(version) + ".sql", version);
    auto database = Database::open(folder.file("a.db"));
    // Each dump holds one usable candidate, stored by the Tenon of its time.
    auto lines = database->list(true);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0].time_us, 10);
    auto stored = database->by_plan(lines[0].plan);
    ASSERT_TRUE(stored);
    EXPECT_TRUE(stored->usable) << stored->note;
    EXPECT_TRUE(database->check().empty());
    EXPECT_NE(add(*database, {}), 0);
  }
}

TEST(Migration, ANewerVersionIsRefusedAndUntouched) {
  TemporaryFolder folder;
  Database::open(folder.file("a.db"));
  {
    SQLite::Database raw(folder.file("a.db"), SQLite::OPEN_READWRITE);
    raw.exec("PRAGMA user_version = 999");
  }
  const std::string before = read_file(folder.file("a.db"));
  for (bool read_only : {false, true}) {
    try {
      Database::open(folder.file("a.db"), read_only);
      FAIL();
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("version 999"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(folder.file("a.db")), std::string::npos);
    }
  }
  EXPECT_EQ(read_file(folder.file("a.db")), before);
}

TEST(Migration, AnotherProgramsDatabaseIsRefusedAndUntouched) {
  TemporaryFolder folder;
  {
    SQLite::Database raw(folder.file("a.db"), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    raw.exec("CREATE TABLE notes (text)");
  }
  const std::string before = read_file(folder.file("a.db"));
  for (bool read_only : {false, true})
    EXPECT_THROW(Database::open(folder.file("a.db"), read_only), UserError);
  EXPECT_EQ(read_file(folder.file("a.db")), before);
  EXPECT_FALSE(std::filesystem::exists(folder.file("a.db-wal")));
}

TEST(Migration, AChangedSchemaIsRefused) {
  for (const char* sql :
       {"DROP VIEW best", "DROP INDEX plan_by_mugraph", "ALTER TABLE plan ADD COLUMN more TEXT",
        "CREATE TRIGGER t AFTER INSERT ON plan BEGIN DELETE FROM evidence; END"}) {
    TemporaryFolder folder;
    Database::open(folder.file("a.db"));
    {
      SQLite::Database raw(folder.file("a.db"), SQLite::OPEN_READWRITE);
      raw.exec(sql);
    }
    for (bool read_only : {false, true}) {
      EXPECT_THROW(Database::open(folder.file("a.db"), read_only), UserError) << sql;
    }
  }
}

TEST(Migration, TablesOfTheUsersOwnMayStandBeside) {
  TemporaryFolder folder;
  Database::open(folder.file("a.db"));
  {
    SQLite::Database raw(folder.file("a.db"), SQLite::OPEN_READWRITE);
    raw.exec("CREATE TABLE notes (text)");
  }
  EXPECT_NE(add(*Database::open(folder.file("a.db")), {}), 0);
}

}  // namespace
}  // namespace tenon::cache
