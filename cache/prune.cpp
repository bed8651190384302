#include "cache/prune.h"

#include <fmt/format.h>

#include <memory>

#include "cache/connection.h"
#include "cache/list.h"
#include "cache/open.h"
#include "ir/error.h"

namespace tenon::cache {
namespace {

constexpr const char* kRanks = R"sql(
CREATE TEMP TABLE ranks AS SELECT p.id AS plan, ROW_NUMBER() OVER (
    PARTITION BY p.workload, p.device_class, p.dependent_launch
    ORDER BY n.status IS NULL, n.status <> 'ok', n.kind = 'estimated', p.checked = 0,
      n.time_us IS NULL, n.time_us, p.id) AS place
  FROM plan p LEFT JOIN newest n ON n.plan = p.id;
CREATE TEMP TABLE doomed (plan INTEGER PRIMARY KEY);
)sql";

// What nothing refers to, in an order in which it can go.
struct Orphans {
  const char* table;
  const char* where;
};
constexpr Orphans kOrphans[] = {
    {"kernel", "id NOT IN (SELECT kernel FROM plan_kernel)"},
    {"schedule", "id NOT IN (SELECT schedule FROM plan)"},
    {"session",
     "ended <> '' AND id NOT IN (SELECT session FROM measurement WHERE session IS NOT NULL)"},
    {"workload",
     "id NOT IN (SELECT workload FROM plan) AND id NOT IN (SELECT workload FROM session)"},
    {"environment",
     "id NOT IN (SELECT environment FROM measurement) AND id NOT IN (SELECT environment FROM "
     "session)"}};
constexpr const char* kOrphanMugraphs =
    "id NOT IN (SELECT mugraph FROM plan) AND id NOT IN (SELECT mugraph FROM evidence WHERE "
    "verdict = 'refuted')";

// Undoes a dry run.
struct DryRun {};

}  // namespace

RowCounts prune_database(const std::string& database, const PruneOptions& options) {
  auto connection = open_connection(database, false);
  SQLite::Database& db = connection->database();
  RowCounts removed;
  try {
    connection->transaction([&] {
      RowCounts before;
      for (const auto& [table, count] : count_tables(*connection)) before[table] = count;
      db.exec(kRanks);
      SQLite::Statement doom(
          db,
          "INSERT INTO doomed SELECT r.plan FROM ranks r WHERE "
          "r.plan NOT IN (SELECT plan FROM best) AND "
          "(?1 = '' OR coalesce((SELECT max(m.created) FROM measurement m WHERE m.plan = r.plan), "
          "'') < ?1) AND (?2 < 0 OR r.place > ?2) AND (NOT ?3 OR NOT EXISTS (SELECT 1 FROM "
          "measurement m JOIN environment e ON e.id = m.environment WHERE m.plan = r.plan AND "
          "e.tenon = ?4 AND e.nvrtc IN ('', ?5)))");
      doom.bind(1, options.older_than);
      doom.bind(2, options.keep);
      doom.bind(3, options.stale ? 1 : 0);
      doom.bind(4, options.tenon);
      doom.bind(5, options.nvrtc);
      doom.exec();
      for (const char* table : {"measurement", "evidence", "plan_kernel"})
        db.exec(fmt::format("DELETE FROM {} WHERE plan IN doomed", table));
      db.exec("DELETE FROM plan WHERE id IN doomed");
      db.exec(
          fmt::format("DELETE FROM evidence WHERE plan IS NULL AND mugraph IN (SELECT id FROM "
                      "mugraph WHERE {})",
                      kOrphanMugraphs));
      db.exec(fmt::format("DELETE FROM mugraph WHERE {}", kOrphanMugraphs));
      for (const Orphans& orphans : kOrphans)
        db.exec(fmt::format("DELETE FROM {} WHERE {}", orphans.table, orphans.where));
      for (const auto& [table, count] : count_tables(*connection))
        removed[table] = before[table] - count;
      if (!options.apply) throw DryRun();
      db.exec("DROP TABLE ranks; DROP TABLE doomed");
    });
    db.exec("VACUUM");
  } catch (const DryRun&) {
  } catch (const SQLite::Exception& error) {
    throw_translated(database, error);
  }
  return removed;
}

RowCounts orphans_of(const std::string& database) {
  auto connection = open_connection(database, true);
  RowCounts counts;
  try {
    auto count = [&](const char* table, const char* where) {
      counts[table] = connection->database()
                          .execAndGet(fmt::format("SELECT count(*) FROM {} WHERE {}", table, where))
                          .getInt64();
    };
    for (const Orphans& orphans : kOrphans) count(orphans.table, orphans.where);
    count("mugraph", kOrphanMugraphs);
  } catch (const SQLite::Exception& error) {
    throw_translated(database, error);
  }
  return counts;
}

}  // namespace tenon::cache
