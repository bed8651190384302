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

// The plans are those of `best` or all; `winners` is looked up for each.
constexpr const char* kList =
    "WITH winners AS MATERIALIZED (SELECT plan FROM best) "
    "SELECT p.id, w.program, w.dims, w.m, w.dtype, coalesce(e.device_name, p.device_class), "
    "g.sha256, g.label, s.text, n.status, n.kind, n.time_us, n.spread_us, n.created, "
    "b.plan IS NOT NULL FROM plan p JOIN workload w ON w.id = p.workload "
    "JOIN mugraph g ON g.id = p.mugraph JOIN schedule s ON s.id = p.schedule "
    "LEFT JOIN winners b ON b.plan = p.id LEFT JOIN newest n ON n.plan = p.id "
    "LEFT JOIN environment e ON e.id = n.environment ";
constexpr const char* kOrder =
    "ORDER BY w.program, w.dtype, w.key, w.m, p.device_class, e.device_name, p.dependent_launch, "
    "n.kind IS NULL, n.kind = 'estimated', n.status <> 'ok', n.time_us IS NULL, n.time_us, p.id";

}  // namespace

std::vector<Database::Listing> list_plans(Connection& connection, bool only_best) {
  static const std::string all = std::string(kList) + kOrder;
  static const std::string winners =
      std::string(kList) + "WHERE p.id IN (SELECT plan FROM winners) " + kOrder;
  std::vector<Database::Listing> list;
  Rows rows(connection, (only_best ? winners : all).c_str());
  while (rows.next()) {
    Database::Listing line;
    line.plan = rows.integer(0);
    line.program = rows.text(1);
    line.dims = print_dims(rows.text(2), rows.integer(3));
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
    list.push_back(std::move(line));
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

std::vector<std::string> check_contents(Connection& connection) {
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
  std::vector<std::int64_t> plans;
  {
    Rows rows(connection, "SELECT id FROM plan ORDER BY id");
    while (rows.next()) plans.push_back(rows.integer(0));
  }
  for (std::int64_t plan : plans) {
    std::string problem = checksum_problem(read_stored(connection, plan, 0));
    if (!problem.empty()) problems.push_back(fmt::format("plan {}: {}", plan, problem));
  }
  return problems;
}

}  // namespace tenon::cache
