#include "cache/rows_in.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "cache/blob.h"
#include "cache/database.h"
#include "cache/list.h"
#include "cache/store.h"
#include "ir/error.h"
#include "ir/sha256.h"

namespace tenon::cache {

using nlohmann::json;

namespace {

const std::set<std::string> kVerdicts{"pass",    "proved",  "refuted",
                                      "unknown", "timeout", "unsupported"};
const std::set<std::string> kStatuses{"ok",      "compile_error", "launch_error", "wrong_result",
                                      "timeout", "crashed",       "unsupported"};

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  throw UserError("a blob is not hexadecimal");
}

std::string from_hex(const std::string& text) {
  if (text.size() % 2 != 0) throw UserError("a blob is not hexadecimal");
  std::string bytes(text.size() / 2, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(digit_of(text[2 * i]) * 16 + digit_of(text[2 * i + 1]));
  return bytes;
}

void must_hash(const std::string& bytes, const std::string& sha256, const char* what) {
  if (ir::sha256_hex(bytes) != sha256)
    throw UserError(fmt::format("{} does not match its checksum", what));
}

void must_be_one_of(const std::set<std::string>& known, const std::string& value,
                    const char* what) {
  if (known.count(value) == 0)
    throw UserError(fmt::format("{} is '{}'", what, value.substr(0, 40)));
}

}  // namespace

// The values of a row, taken one after another with their types checked.
class RowsIn::Fields {
 public:
  explicit Fields(const json& row) : row_(row) {}
  std::string text() {
    const json& value = next();
    if (!value.is_string()) fail("text");
    return value.get<std::string>();
  }
  std::int64_t integer() {
    const json& value = next();
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX))
      fail("an integer");
    return value.get<std::int64_t>();
  }
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    const std::int64_t value = integer();
    if (value < low || value > high)
      throw UserError(fmt::format("value {} is {}; accepted: {} to {}", at_ - 1, value, low, high));
    return value;
  }
  bool flag() { return integer(0, 1) != 0; }
  // 0 where there is none.
  double real() {
    const json& value = next();
    if (value.is_null()) return 0;
    if (!value.is_number() || !std::isfinite(value.get<double>())) fail("a finite number");
    return value.get<double>();
  }
  void end() const {
    if (at_ != row_.size()) throw UserError("it has too many values");
  }

 private:
  const json& next() {
    if (at_ >= row_.size()) throw UserError("it has too few values");
    return row_[at_++];
  }
  [[noreturn]] void fail(const char* wanted) const {
    throw UserError(
        fmt::format("value {} is {}; accepted: {}", at_ - 1, row_[at_ - 1].type_name(), wanted));
  }
  const json& row_;
  std::size_t at_ = 1;
};

RowsIn::RowsIn(Connection& connection) : connection_(connection) {
  for (const auto& [table, count] : count_tables(connection_)) before_[table] = count;
}

RowCounts RowsIn::added() const {
  RowCounts counts;
  for (const auto& [table, count] : count_tables(connection_))
    counts[table] = count - before_.at(table);
  return counts;
}

std::int64_t RowsIn::id_of(const std::vector<std::int64_t>& ids, std::int64_t rank,
                           const char* what) const {
  if (rank < 1 || static_cast<std::uint64_t>(rank) >= ids.size())
    throw UserError(fmt::format("it refers to {} {}, which is not there", what, rank));
  return ids[static_cast<std::size_t>(rank)];
}

void RowsIn::add(const json& row) {
  if (!row.is_array() || row.empty() || !row[0].is_string())
    throw UserError("it is no row of a table");
  const std::string table = row[0].get<std::string>();
  constexpr std::int64_t kMost = std::int64_t{1} << 40, kMostInt = INT32_MAX;
  Fields f(row);
  // Of two rows with the same key the lesser in all else stays, so that the order of imports does
  // not matter; a session is the further along, the later it ended.
  if (table == "workload") {
    WorkloadRow r;
    r.key = f.text();
    r.program = f.text();
    r.program_text = f.text();
    r.m = f.integer(1, kMost);
    r.dims_json = f.text();
    r.dtype = f.text();
    r.attributes_json = f.text();
    f.end();
    // The key names the program it is for: a row cannot pass off another.
    const json key = json::parse(r.key, nullptr, false);
    if (!key.is_object() || key.value("program_id", json()) != ir::sha256_hex(r.program_text))
      throw UserError("the key of a workload does not name its program");
    workloads_.push_back(store(connection_, r));
    Rows(connection_,
         "UPDATE workload SET dims = ?2, attributes = ?3 WHERE id = ?1 AND (dims, attributes) > "
         "(?2, ?3)",
         workloads_.back(), r.dims_json, r.attributes_json)
        .run();
  } else if (table == "environment") {
    EnvironmentRow r;
    r.device_name = f.text();
    r.device_class = f.text();
    r.sm_count = static_cast<int>(f.integer(0, kMostInt));
    r.driver = f.text();
    r.nvrtc = f.text();
    r.tenon = f.text();
    f.end();
    environments_.push_back(store(connection_, r));
  } else if (table == "mugraph") {
    MuGraphRow r;
    r.sha256 = f.text();
    r.text = f.text();
    r.label = f.text();
    r.program = f.text();
    f.end();
    must_hash(r.text, r.sha256, "the text of a uGraph");
    mugraphs_.push_back(store(connection_, r));
    Rows(
        connection_,
        "UPDATE mugraph SET label = ?2, program = ?3 WHERE id = ?1 AND (label, program) > (?2, ?3)",
        mugraphs_.back(), r.label, r.program)
        .run();
  } else if (table == "schedule") {
    ScheduleRow r;
    r.sha256 = f.text();
    r.text = f.text();
    f.end();
    must_hash(r.text, r.sha256, "the text of a schedule");
    schedules_.push_back(store(connection_, r));
  } else if (table == "kernel") {
    KernelRow r;
    r.source_sha256 = f.text();
    r.source = f.text();
    r.options = f.text();
    r.target = f.text();
    r.nvrtc = f.text();
    r.cubin = from_hex(f.text());
    r.cubin_sha256 = f.text();
    r.resources_json = f.text();
    r.registers = static_cast<int>(f.integer(0, kMostInt));
    r.shared_bytes = static_cast<int>(f.integer(0, kMostInt));
    r.spill_bytes = static_cast<int>(f.integer(0, kMostInt));
    r.compile_seconds = f.real();
    r.status = f.text();
    r.log = f.text();
    f.end();
    must_be_one_of({"ok", "compile_error"}, r.status, "the status of a kernel");
    if (r.cubin.empty() != r.cubin_sha256.empty() || (r.status == "ok" && r.cubin.empty()))
      throw UserError("a kernel has a checksum without a cubin, or none where it needs one");
    if (!r.cubin.empty()) must_hash(r.cubin, r.cubin_sha256, "a cubin");
    // A packed database has no sources, only their hashes.
    if (!r.source.empty()) must_hash(r.source, r.source_sha256, "the source of a kernel");
    kernels_.push_back(store_sourceless(connection_, r));
    Rows(connection_,
         "UPDATE kernel SET compile_seconds = ?2, log = ?3, resources = ?4 WHERE id = ?1 AND "
         "(coalesce(compile_seconds, 0), log, resources) > (?2, ?3, ?4)",
         kernels_.back(), r.compile_seconds, r.log, r.resources_json)
        .run();
  } else if (table == "plan") {
    PlanRow r;
    r.workload = id_of(workloads_, f.integer(), "workload");
    r.mugraph = id_of(mugraphs_, f.integer(), "uGraph");
    r.schedule = id_of(schedules_, f.integer(), "schedule");
    r.device_class = f.text();
    r.dependent_launch = f.flag();
    r.m_min = f.integer(0, kMost);
    r.m_max = f.integer(0, kMost);
    r.uses_library = f.flag();
    r.text = f.text();
    r.sha256 = f.text();
    f.end();
    if (!r.text.empty()) must_hash(r.text, r.sha256, "the text of a plan");
    plans_.push_back(store(connection_, r));
  } else if (table == "plan_kernel") {
    const std::int64_t plan = id_of(plans_, f.integer(), "plan");
    const std::int64_t position = f.integer(0, 1000);
    const std::int64_t kernel = id_of(kernels_, f.integer(), "kernel");
    f.end();
    Rows(connection_,
         "INSERT INTO plan_kernel (plan, position, kernel) VALUES (?, ?, ?) "
         "ON CONFLICT (plan, position) DO UPDATE SET kernel = excluded.kernel WHERE "
         "(SELECT k.source_sha256 || k.options || k.nvrtc || k.cubin_sha256 FROM kernel k WHERE "
         "k.id = excluded.kernel) < "
         "(SELECT k.source_sha256 || k.options || k.nvrtc || k.cubin_sha256 FROM kernel k WHERE "
         "k.id = plan_kernel.kernel)",
         plan, position, kernel)
        .run();
  } else if (table == "evidence") {
    EvidenceRow r;
    r.mugraph = id_of(mugraphs_, f.integer(), "uGraph");
    if (std::int64_t plan = f.integer(); plan != 0) r.plan = id_of(plans_, plan, "plan");
    r.program_sha256 = f.text();
    r.method = f.text();
    r.verdict = f.text();
    r.reason = f.text();
    r.figures_json = f.text();
    r.counterexample_json = f.text();
    r.seconds = f.real();
    r.created = f.text();
    f.end();
    must_be_one_of(kVerdicts, r.verdict, "a verdict");
    const std::int64_t id = store(connection_, r);
    Rows(connection_,
         "UPDATE evidence SET created = ?2, reason = ?3, counterexample = ?4, seconds = ?5 WHERE "
         "id = ?1 AND (created, reason, counterexample, coalesce(seconds, 0)) > (?2, ?3, ?4, ?5)",
         id, r.created, r.reason, r.counterexample_json, r.seconds)
        .run();
  } else if (table == "session") {
    SessionRow r;
    r.workload = id_of(workloads_, f.integer(), "workload");
    r.environment = id_of(environments_, f.integer(), "environment");
    r.options_json = f.text();
    r.seed = f.integer();
    r.stop_reason = f.text();
    r.counters_json = f.text();
    r.reference_time_us = f.real();
    r.started = f.text();
    r.ended = f.text();
    r.owner = f.text();
    f.end();
    if (r.started.empty()) throw UserError("a session has no start");
    sessions_.push_back(store(connection_, r));
    Rows(connection_,
         "UPDATE session SET stop_reason = ?3, counters = ?4, reference_us = nullif(?5, 0), "
         "ended = ?2, owner = ?6 WHERE id = ?1 AND "
         "(ended, stop_reason, counters, coalesce(reference_us, 0), owner) < (?2, ?3, ?4, ?5, ?6)",
         sessions_.back(), r.ended, r.stop_reason, r.counters_json, r.reference_time_us, r.owner)
        .run();
  } else if (table == "measurement") {
    MeasurementRow r;
    r.plan = id_of(plans_, f.integer(), "plan");
    r.environment = id_of(environments_, f.integer(), "environment");
    if (std::int64_t session = f.integer(); session != 0)
      r.session = id_of(sessions_, session, "session");
    r.kind = f.text();
    r.status = f.text();
    r.reason = f.text();
    r.time_us = f.real();
    r.spread_us = f.real();
    const std::string samples = from_hex(f.text());
    r.samples_us = decode_samples(samples);
    r.protocol = f.text();
    r.created = f.text();
    r.disturbance = f.text();
    r.decides = f.flag();
    r.settings = f.text();
    f.end();
    must_be_one_of({"measured", "estimated"}, r.kind, "the kind of a measurement");
    must_be_one_of(kStatuses, r.status, "the status of a measurement");
    if (samples.size() % sizeof(double) != 0) throw UserError("samples are no whole numbers");
    if (r.created.empty()) throw UserError("a measurement has no date");
    store(connection_, r);
  } else {
    throw UserError(fmt::format("there is no table '{}'", table.substr(0, 40)));
  }
}

}  // namespace tenon::cache
