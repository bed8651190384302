#include "cache/report_rows.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "cache/connection.h"
#include "cache/open.h"

namespace tenon::cache {
namespace {

using Key =
    std::tuple<std::int64_t, std::string, std::string, bool>;  // workload, device, class, mode

constexpr const char* kPlans =
    "SELECT p.workload, e.device_name, p.device_class, p.dependent_launch, n.status, n.time_us, "
    "p.uses_library, p.checked AND n.decides AND p.id IN (SELECT plan FROM usable) "
    "FROM plan p JOIN newest n ON n.plan = p.id JOIN environment e ON e.id = n.environment "
    "WHERE n.kind = 'measured' ORDER BY 1, 2, 3, 4, n.time_us IS NULL, n.time_us";
constexpr const char* kWinners =
    "SELECT b.workload, e.device_name, b.device_class, b.dependent_launch, b.plan, g.label, "
    "s.text, "
    "b.time_us, b.spread_us FROM best b JOIN environment e ON e.id = b.environment "
    "JOIN mugraph g ON g.id = b.mugraph JOIN schedule s ON s.id = b.schedule";
constexpr const char* kSessions =
    "SELECT x.workload, e.device_name, e.device_class, "
    "coalesce(json_extract(iif(json_valid(x.options), x.options, '{}'), '$.dependent_launch'), 0), "
    "x.counters, x.reference_us FROM session x JOIN environment e ON e.id = x.environment "
    "WHERE x.ended <> '' ORDER BY x.started";
constexpr const char* kHistory =
    "SELECT p.workload, e.device_name, p.device_class, p.dependent_launch, min(m.created), "
    "e.driver, e.nvrtc, e.tenon, min(m.time_us) FROM measurement m JOIN plan p ON p.id = m.plan "
    "JOIN environment e ON e.id = m.environment WHERE p.checked = 1 AND m.kind = 'measured' AND "
    "m.status = 'ok' AND m.decides = 1 AND m.time_us > 0 AND length(m.samples) >= 72 AND "
    "p.id IN (SELECT plan FROM usable) GROUP BY p.workload, p.dependent_launch, p.device_class, "
    "e.id "
    "ORDER BY min(m.created)";

WorkloadRow read_workload(Connection& connection, std::int64_t id) {
  Rows rows(
      connection,
      "SELECT key, program, program_text, m, dims, dtype, attributes FROM workload WHERE id = "
      "?",
      id);
  WorkloadRow row;
  if (!rows.next()) return row;
  row.id = id;
  row.key = rows.text(0);
  row.program = rows.text(1);
  row.program_text = rows.text(2);
  row.m = rows.integer(3);
  row.dims_json = rows.text(4);
  row.dtype = rows.text(5);
  row.attributes_json = rows.text(6);
  return row;
}

void thin_out(std::vector<double>& times, std::size_t most) {
  if (times.size() <= most) return;
  std::vector<double> kept;
  for (std::size_t i = 0; i < most; ++i) kept.push_back(times[i * (times.size() - 1) / (most - 1)]);
  times = std::move(kept);
}

class Report {
 public:
  explicit Report(Connection& connection) : connection_(connection) {}

  std::vector<ReportEntry> make(std::size_t most_times) {
    plans();
    winners();
    sessions();
    history();
    std::vector<ReportEntry> list;
    for (auto& [key, entry] : entries_) {
      thin_out(entry.times_us, most_times);
      list.push_back(std::move(entry));
    }
    return list;
  }

 private:
  static Key key_of(Rows& rows) {
    return {rows.integer(0), rows.text(1), rows.text(2), rows.integer(3) != 0};
  }
  // The entry of a row's first four columns; null where no candidate was measured for it.
  ReportEntry* find(Rows& rows) {
    auto it = entries_.find(key_of(rows));
    return it == entries_.end() ? nullptr : &it->second;
  }

  void plans() {
    Rows rows(connection_, kPlans);
    while (rows.next()) {
      const Key key = key_of(rows);
      auto [it, fresh] = entries_.try_emplace(key);
      ReportEntry& entry = it->second;
      if (fresh) {
        entry.workload = read_workload(connection_, std::get<0>(key));
        entry.device = std::get<1>(key);
        entry.device_class = std::get<2>(key);
        entry.dependent_launch = std::get<3>(key);
      }
      count(entry, rows.text(4));
      const double time_us = rows.real(5);
      if (rows.text(4) != "ok" || !(time_us > 0)) continue;
      entry.times_us.push_back(time_us);
      if (rows.integer(7) == 0) continue;
      double& fastest = rows.integer(6) != 0 ? entry.library_us : entry.own_us;
      if (fastest == 0 || time_us < fastest) fastest = time_us;
    }
  }

  static void count(ReportEntry& entry, const std::string& status) {
    for (auto& [name, number] : entry.statuses)
      if (name == status) {
        ++number;
        return;
      }
    entry.statuses.emplace_back(status, 1);
  }

  void winners() {
    Rows rows(connection_, kWinners);
    while (rows.next())
      if (ReportEntry* entry = find(rows)) {
        entry->best = rows.integer(4);
        entry->label = rows.text(5);
        entry->schedule = rows.text(6);
        entry->best_us = rows.real(7);
        entry->spread_us = rows.real(8);
      }
  }

  void sessions() {
    Rows rows(connection_, kSessions);
    while (rows.next())
      if (ReportEntry* entry = find(rows)) {
        entry->counters_json = rows.text(4);
        if (rows.real(5) > 0) entry->unfused_us = rows.real(5);
      }
  }

  void history() {
    Rows rows(connection_, kHistory);
    while (rows.next())
      if (ReportEntry* entry = find(rows)) {
        std::string toolchain;
        for (const auto& [name, column] :
             {std::pair("driver", 5), std::pair("NVRTC", 6), std::pair("Tenon", 7)})
          if (!rows.text(column).empty())
            toolchain +=
                fmt::format("{}{} {}", toolchain.empty() ? "" : ", ", name, rows.text(column));
        entry->history.push_back({rows.text(4), toolchain, rows.real(8)});
      }
  }

  Connection& connection_;
  std::map<Key, ReportEntry> entries_;
};

}  // namespace

std::vector<ReportEntry> report_entries(const std::string& database, std::size_t most_times) {
  auto connection = open_connection(database, true);
  try {
    std::vector<ReportEntry> entries;
    connection->snapshot([&] { entries = Report(*connection).make(most_times); });
    return entries;
  } catch (const SQLite::Exception& error) {
    throw_translated(database, error);
  }
}

}  // namespace tenon::cache
