#include "cache/list.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cache/read_rows.h"
#include "cache/schema.h"
#include "ir/sha256.h"

namespace tenon::cache {
namespace {

// {"m":16,"k":576} as "m=16 k=576", m first; what does not parse, as it is.
std::string print_dims(const std::string& dims_json, std::int64_t m) {
  auto parsed = nlohmann::ordered_json::parse(dims_json, nullptr, false);
  if (!parsed.is_object()) return dims_json;
  std::string text;
  if (m > 0) text = fmt::format("m={}", m);
  for (const auto& [name, extent] : parsed.items()) {
    if (name == "m" && m > 0) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, extent.dump());
  }
  return text;
}

#define TENON_LIST_WINNERS         \
  "WITH winners AS MATERIALIZED (" \
  "SELECT plan, workload, device_class, dependent_launch FROM best) "
#define TENON_LIST_ROWS                                                                     \
  "SELECT p.id, w.program, w.dims, w.m, w.dtype, coalesce(e.device_name, p.device_class), " \
  "g.sha256, g.label, s.text, n.status, n.kind, n.time_us, n.spread_us, n.created, "        \
  "b.plan IS NOT NULL, p.device_class, p.dependent_launch, "                                \
  "p.checked = 1 AND EXISTS (SELECT 1 FROM usable u WHERE u.plan = p.id), n.disturbance, "  \
  "x.reference_us, w.id, length(n.samples) / 8 "                                            \
  "FROM plan p JOIN workload w ON w.id = p.workload "                                       \
  "JOIN mugraph g ON g.id = p.mugraph JOIN schedule s ON s.id = p.schedule "                \
  "LEFT JOIN winners b ON b.plan = p.id LEFT JOIN newest n ON n.plan = p.id "               \
  "LEFT JOIN session x ON x.id = n.session LEFT JOIN environment e ON e.id = n.environment "
#define TENON_LIST_ORDER                                                                         \
  "ORDER BY w.program, w.dtype, w.key, w.m, p.device_class, e.device_name, p.dependent_launch, " \
  "n.kind IS NULL, n.kind = 'estimated', n.status <> 'ok', n.time_us IS NULL, n.time_us, p.id"

constexpr const char* kAll = TENON_LIST_WINNERS TENON_LIST_ROWS TENON_LIST_ORDER;
constexpr const char* kWinners =
    TENON_LIST_WINNERS TENON_LIST_ROWS "WHERE p.id IN (SELECT plan FROM winners) " TENON_LIST_ORDER;
// Where nothing won, the usable, then the measured, then the fastest plan stands for the workload.
constexpr const char* kFirst = TENON_LIST_WINNERS
    ", first AS MATERIALIZED (SELECT plan FROM winners UNION ALL SELECT plan FROM ("
    "SELECT p.id AS plan, ROW_NUMBER() OVER ("
    "PARTITION BY p.workload, p.device_class, p.dependent_launch "
    "ORDER BY n.status IS NULL, n.status <> 'ok', n.kind = 'estimated', p.checked = 0, "
    "n.time_us IS NULL, n.time_us, p.id) AS place "
    "FROM plan p LEFT JOIN newest n ON n.plan = p.id WHERE NOT EXISTS ("
    "SELECT 1 FROM winners b WHERE b.workload = p.workload AND b.device_class = p.device_class "
    "AND b.dependent_launch = p.dependent_launch)) WHERE place = 1) " TENON_LIST_ROWS
    "WHERE p.id IN (SELECT plan FROM first) " TENON_LIST_ORDER;
// The winners of one plan's workload alone: the view would look at every plan.
#define TENON_LIST_WINNERS_OF                                                               \
  "WITH winners AS MATERIALIZED (SELECT b.plan FROM best b JOIN plan o ON o.id = ?1 WHERE " \
  "b.workload = o.workload AND b.device_class = o.device_class AND b.dependent_launch = "   \
  "o.dependent_launch) "
constexpr const char* kRivals = TENON_LIST_WINNERS_OF TENON_LIST_ROWS
    "JOIN plan o ON o.id = ?1 WHERE p.workload = o.workload AND p.device_class = o.device_class "
    "AND p.dependent_launch = o.dependent_launch AND p.checked = 1 " TENON_LIST_ORDER;

constexpr const char* kOne = TENON_LIST_WINNERS_OF TENON_LIST_ROWS "WHERE p.id = ?1";

#undef TENON_LIST_WINNERS
#undef TENON_LIST_WINNERS_OF
#undef TENON_LIST_ROWS
#undef TENON_LIST_ORDER

}  // namespace

std::vector<Database::Listing> list_plans(Connection& connection, Database::Which which,
                                          std::int64_t of) {
  using Which = Database::Which;
  std::vector<Database::Listing> list;
  auto read = [&list](Rows&& rows) {
    while (rows.next()) {
      Database::Listing line;
      line.plan = rows.integer(0);
      line.program = rows.text(1);
      line.dims_json = rows.text(2);
      line.dims = print_dims(line.dims_json, rows.integer(3));
      line.dtype = rows.text(4);
      line.device = rows.text(5);
      line.mugraph = rows.text(6);
      line.label = rows.text(7);
      line.schedule = rows.text(8);
      line.status = rows.text(9);
      line.kind = rows.text(10);
      line.time_us = rows.real(11);
      line.spread_us = rows.real(12);
      line.created = rows.text(13);
      line.best = rows.integer(14) != 0;
      line.device_class = rows.text(15);
      line.dependent_launch = rows.integer(16) != 0;
      line.usable = rows.integer(17) != 0;
      line.disturbance = rows.text(18);
      line.reference_time_us = rows.real(19);
      line.workload = rows.integer(20);
      line.samples = static_cast<int>(rows.integer(21));
      list.push_back(std::move(line));
    }
  };
  switch (which) {
    case Which::kAll:
      read(Rows(connection, kAll));
      break;
    case Which::kWinners:
      read(Rows(connection, kWinners));
      break;
    case Which::kFirst:
      read(Rows(connection, kFirst));
      break;
    case Which::kRivals:
      read(Rows(connection, kRivals, of));
      break;
    case Which::kOne:
      read(Rows(connection, kOne, of));
      break;
  }
  return list;
}

std::vector<std::pair<std::string, std::int64_t>> count_tables(Connection& connection) {
  std::vector<std::pair<std::string, std::int64_t>> counts;
  for (const std::string& table : table_names()) {
    counts.emplace_back(
        table, connection.database().execAndGet("SELECT count(*) FROM " + table).getInt64());
  }
  return counts;
}

std::vector<std::string> check_contents(Connection& connection, const Damage& damage) {
  std::vector<std::string> problems;
  {
    Rows rows(connection, "PRAGMA integrity_check");
    while (rows.next()) {
      if (rows.text(0) != "ok") problems.push_back("integrity: " + rows.text(0));
    }
  }
  {
    Rows rows(connection, "PRAGMA foreign_key_check");
    while (rows.next()) {
      problems.push_back(fmt::format("row {} of {} refers to no row of {}", rows.integer(1),
                                     rows.text(0), rows.text(2)));
    }
  }
  auto hashes = [&](const char* sql, const char* what) {
    Rows rows(connection, sql);
    while (rows.next())
      if (ir::sha256_hex(rows.text(2)) != rows.text(1))
        problems.push_back(fmt::format("{} {} does not match its checksum", what, rows.integer(0)));
  };
  hashes("SELECT id, sha256, text FROM mugraph", "the text of uGraph");
  hashes("SELECT id, sha256, text FROM schedule", "the text of schedule");
  hashes("SELECT id, program_sha256, program_text FROM workload", "the program of workload");
  // Packed databases have no sources.
  hashes("SELECT id, source_sha256, source FROM kernel WHERE source <> ''", "the source of kernel");
  {
    Rows rows(connection,
              "SELECT p.id FROM plan p WHERE p.checked <> EXISTS (SELECT 1 FROM evidence e WHERE "
              "e.plan = p.id AND e.method = 'numeric' AND e.verdict = 'pass')");
    while (rows.next())
      problems.push_back(fmt::format(
          "plan {} is marked as checked without evidence, or not with it", rows.integer(0)));
  }
  std::vector<std::int64_t> plans;
  {
    Rows rows(connection, "SELECT id FROM plan ORDER BY id");
    while (rows.next()) plans.push_back(rows.integer(0));
  }
  for (std::int64_t plan : plans) {
    const Stored stored = read_stored(connection, plan, 0);
    std::string problem = damage_of(stored, damage);
    if (!problem.empty()) problems.push_back(fmt::format("plan {}: {}", plan, problem));
  }
  return problems;
}

}  // namespace tenon::cache
