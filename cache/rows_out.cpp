#include "cache/rows_out.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "cache/connection.h"
#include "cache/open.h"

namespace tenon::cache {
namespace {

// How one table is read: `select` gives its columns with references replaced by ranks, `order` is
// its natural key with ranks in the place of ids. `rank_` tables map ids to ranks.
struct Source {
  const char* table;
  const char* select;
  const char* joins;
  const char* order;
  bool ranked;  // others refer to it
};

constexpr Source kSources[] = {
    {"workload", "x.key, x.program, x.program_text, x.m, x.dims, x.dtype, x.attributes", "",
     "x.key, x.m", true},
    {"environment", "x.device_name, x.device_class, x.sm_count, x.driver, x.nvrtc, x.tenon", "",
     "x.device_name, x.device_class, x.sm_count, x.driver, x.nvrtc, x.tenon", true},
    {"mugraph", "x.sha256, x.text, x.label, x.program", "", "x.sha256", true},
    {"schedule", "x.sha256, x.text", "", "x.sha256", true},
    {"kernel",
     "x.source_sha256, x.source, x.options, x.target, x.nvrtc, hex(coalesce(x.cubin, x'')), "
     "x.cubin_sha256, x.resources, x.registers, x.shared_bytes, x.spill_bytes, x.compile_seconds, "
     "x.status, x.log",
     "", "x.source_sha256, x.options, x.target, x.nvrtc, x.cubin_sha256", true},
    {"plan",
     "w.rank, g.rank, s.rank, x.device_class, x.dependent_launch, x.m_min, x.m_max, "
     "x.uses_library, x.text, x.sha256",
     "JOIN rank_workload w ON w.id = x.workload JOIN rank_mugraph g ON g.id = x.mugraph "
     "JOIN rank_schedule s ON s.id = x.schedule",
     "w.rank, x.device_class, x.dependent_launch, x.m_min, x.m_max, g.rank, s.rank, x.sha256",
     true},
    {"plan_kernel", "p.rank, x.position, k.rank",
     "JOIN rank_plan p ON p.id = x.plan JOIN rank_kernel k ON k.id = x.kernel",
     "p.rank, x.position", false},
    {"evidence",
     "g.rank, coalesce(p.rank, 0), x.program_sha256, x.method, x.verdict, x.reason, x.figures, "
     "x.counterexample, x.seconds, x.created",
     "JOIN rank_mugraph g ON g.id = x.mugraph LEFT JOIN rank_plan p ON p.id = x.plan",
     "g.rank, coalesce(p.rank, 0), x.program_sha256, x.method, x.verdict, x.figures, x.created, "
     "x.reason",
     false},
    {"session",
     "w.rank, e.rank, x.options, x.seed, x.stop_reason, x.counters, x.reference_us, x.started, "
     "x.ended, x.owner",
     "JOIN rank_workload w ON w.id = x.workload JOIN rank_environment e ON e.id = x.environment",
     "w.rank, x.started, e.rank, x.options, x.seed, x.ended", true},
    {"measurement",
     "p.rank, e.rank, coalesce(s.rank, 0), x.kind, x.status, x.reason, x.time_us, x.spread_us, "
     "hex(x.samples), x.protocol, x.created, x.disturbance, x.decides, x.settings",
     "JOIN rank_plan p ON p.id = x.plan JOIN rank_environment e ON e.id = x.environment "
     "LEFT JOIN rank_session s ON s.id = x.session",
     "p.rank, x.kind, x.created, e.rank, coalesce(s.rank, 0), x.status, x.protocol, x.samples, "
     "x.reason",
     false}};

nlohmann::json value_of(const SQLite::Column& column) {
  if (column.isNull()) return nullptr;
  if (column.isInteger()) return column.getInt64();
  if (column.isFloat()) return column.getDouble();
  return column.getString();
}

}  // namespace

void for_each_row(const std::string& database, const RowSink& sink) {
  auto keeper = open_connection(database, true);  // checks the schema; keeps the WAL in place
  try {
    // Ranks stand in tables of their own, which a database that is only read cannot hold.
    Connection work(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_URI,
                    database);
    SQLite::Statement attach(work.database(), "ATTACH ? AS source");
    attach.bind(1, reading_uri(database));
    attach.exec();
    work.database().exec("BEGIN");
    for (const Source& source : kSources) {
      const std::string from =
          fmt::format("FROM source.{} x {} ORDER BY {}", source.table, source.joins, source.order);
      if (source.ranked) {
        work.database().exec(fmt::format(
            "CREATE TABLE rank_{} (id INTEGER PRIMARY KEY, rank INTEGER)", source.table));
        work.database().exec(fmt::format(
            "INSERT INTO rank_{0} SELECT x.id, row_number() OVER (ORDER BY {2}) FROM source.{0} x "
            "{1}",
            source.table, source.joins, source.order));
      }
      SQLite::Statement rows(work.database(), fmt::format("SELECT {} {}", source.select, from));
      while (rows.executeStep()) {
        nlohmann::json row = nlohmann::json::array({source.table});
        for (int i = 0; i < rows.getColumnCount(); ++i) row.push_back(value_of(rows.getColumn(i)));
        sink(row);
      }
    }
  } catch (const SQLite::Exception& error) {
    throw_translated(database, error);
  }
}

}  // namespace tenon::cache
