#include "cache/store.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>

#include "cache/blob.h"
#include "ir/error.h"
#include "ir/sha256.h"

namespace tenon::cache {
namespace {

// "2026-11-30T18:07:16.123Z": UTC, and sorts as text.
std::string now() {
  auto time = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  auto milliseconds = time.time_since_epoch().count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(time)), milliseconds);
}

std::int64_t last_id(Connection& connection) { return connection.database().getLastInsertRowid(); }

// The id in the first column, or 0.
std::int64_t first_id(Rows&& rows) { return rows.next() ? rows.integer(0) : 0; }

// `given`, which must be the hash of `bytes`, or that hash where it is empty.
std::string hash_of(const std::string& given, const std::string& bytes, const char* what) {
  std::string hash = ir::sha256_hex(bytes);
  TENON_CHECK(given.empty() || given == hash,
              std::string(what) + " and its SHA-256 do not belong together");
  return hash;
}

}  // namespace

std::int64_t store(Connection& connection, const WorkloadRow& row) {
  const char* find = "SELECT id FROM workload WHERE key = ? AND m = ?";
  if (std::int64_t id = first_id(Rows(connection, find, row.key, row.m))) return id;
  Rows(connection,
       "INSERT INTO workload (key, program, program_text, program_sha256, m, dims, dtype, "
       "attributes) "
       "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
       row.key, row.program, row.program_text, ir::sha256_hex(row.program_text), row.m,
       row.dims_json, row.dtype, row.attributes_json)
      .run();
  return last_id(connection);
}

std::int64_t store(Connection& connection, const EnvironmentRow& row) {
  const char* find =
      "SELECT id FROM environment WHERE device_name = ? AND device_class = ? AND sm_count = ? AND "
      "driver = ? AND nvrtc = ? AND tenon = ?";
  if (std::int64_t id = first_id(Rows(connection, find, row.device_name, row.device_class,
                                      row.sm_count, row.driver, row.nvrtc, row.tenon))) {
    return id;
  }
  Rows(connection,
       "INSERT INTO environment (device_name, device_class, sm_count, driver, nvrtc, tenon) "
       "VALUES (?, ?, ?, ?, ?, ?)",
       row.device_name, row.device_class, row.sm_count, row.driver, row.nvrtc, row.tenon)
      .run();
  return last_id(connection);
}

std::int64_t store(Connection& connection, const MuGraphRow& row) {
  // The identity is that of the canonical text, which only the IR can make: it is not checked here.
  const std::string sha256 = row.sha256.empty() ? ir::sha256_hex(row.text) : row.sha256;
  const char* find = "SELECT id FROM mugraph WHERE sha256 = ?";
  if (std::int64_t id = first_id(Rows(connection, find, sha256))) return id;
  Rows(connection, "INSERT INTO mugraph (sha256, text, label, program) VALUES (?, ?, ?, ?)", sha256,
       row.text, row.label, row.program)
      .run();
  return last_id(connection);
}

std::int64_t store(Connection& connection, const ScheduleRow& row) {
  const std::string sha256 = row.sha256.empty() ? ir::sha256_hex(row.text) : row.sha256;
  const char* find = "SELECT id FROM schedule WHERE sha256 = ?";
  if (std::int64_t id = first_id(Rows(connection, find, sha256))) return id;
  Rows(connection, "INSERT INTO schedule (sha256, text) VALUES (?, ?)", sha256, row.text).run();
  return last_id(connection);
}

std::int64_t store(Connection& connection, const EvidenceRow& row) {
  // Evidence of the same kind with the same figures (seeds among them) says nothing new.
  const char* find =
      "SELECT id FROM evidence WHERE mugraph = ? AND plan IS ? AND verdict = ? AND method = ? AND "
      "program_sha256 = ? AND figures = ?";
  if (std::int64_t id =
          first_id(Rows(connection, find, row.mugraph, Reference{row.plan}, row.verdict, row.method,
                        row.program_sha256, row.figures_json))) {
    return id;
  }
  Rows(connection,
       "INSERT INTO evidence (mugraph, plan, program_sha256, method, verdict, reason, figures, "
       "counterexample, seconds, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
       row.mugraph, Reference{row.plan}, row.program_sha256, row.method, row.verdict, row.reason,
       row.figures_json, row.counterexample_json, row.seconds,
       row.created.empty() ? now() : row.created)
      .run();
  const std::int64_t id = last_id(connection);
  if (row.plan != 0 && row.method == "numeric" && row.verdict == "pass")
    Rows(connection, "UPDATE plan SET checked = 1 WHERE id = ?", row.plan).run();
  return id;
}

std::int64_t store(Connection& connection, const KernelRow& row) {
  KernelRow checked = row;
  checked.source_sha256 = hash_of(row.source_sha256, row.source, "a kernel's source");
  return store_sourceless(connection, checked);
}

std::int64_t store_sourceless(Connection& connection, const KernelRow& row) {
  const std::string& source_sha256 = row.source_sha256;
  const std::string cubin_sha256 =
      row.cubin.empty() ? std::string() : hash_of(row.cubin_sha256, row.cubin, "a cubin");
  const char* find =
      "SELECT id FROM kernel WHERE source_sha256 = ? AND options = ? AND target = ? AND nvrtc = ? "
      "AND "
      "cubin_sha256 = ?";
  if (std::int64_t id = first_id(Rows(connection, find, source_sha256, row.options, row.target,
                                      row.nvrtc, cubin_sha256))) {
    if (!row.source.empty())
      Rows(connection, "UPDATE kernel SET source = ? WHERE id = ? AND source = ''", row.source, id)
          .run();
    return id;
  }
  Rows(connection,
       "INSERT INTO kernel (source_sha256, source, options, target, nvrtc, cubin, cubin_sha256, "
       "resources, "
       "registers, shared_bytes, spill_bytes, compile_seconds, status, log) "
       "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
       source_sha256, row.source, row.options, row.target, row.nvrtc, Blob{row.cubin, true},
       cubin_sha256, row.resources_json, row.registers, row.shared_bytes, row.spill_bytes,
       row.compile_seconds, row.status, row.log)
      .run();
  return last_id(connection);
}

std::int64_t store(Connection& connection, const PlanRow& row) {
  // Without a text the hash is the caller's: it tells candidates that got no plan apart.
  const std::string sha256 =
      row.text.empty() ? row.sha256 : hash_of(row.sha256, row.text, "a plan's text");
  const char* find =
      "SELECT id FROM plan WHERE workload = ? AND device_class = ? AND dependent_launch = ? AND "
      "m_min = ? "
      "AND m_max = ? AND mugraph = ? AND schedule = ? AND sha256 = ?";
  std::int64_t id =
      first_id(Rows(connection, find, row.workload, row.device_class, row.dependent_launch,
                    row.m_min, row.m_max, row.mugraph, row.schedule, sha256));
  if (id == 0) {
    Rows(connection,
         "INSERT INTO plan (workload, mugraph, schedule, device_class, dependent_launch, m_min, "
         "m_max, "
         "uses_library, text, sha256) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
         row.workload, row.mugraph, row.schedule, row.device_class, row.dependent_launch, row.m_min,
         row.m_max, row.uses_library, row.text, sha256)
        .run();
    id = last_id(connection);
  }
  // The same plan names the same cubins, but a row may have been stored before they were made.
  std::int64_t position = 0;
  for (std::int64_t kernel : row.kernels) {
    Rows(connection,
         "INSERT INTO plan_kernel (plan, position, kernel) VALUES (?, ?, ?) "
         "ON CONFLICT (plan, position) DO UPDATE SET kernel = excluded.kernel",
         id, position++, kernel)
        .run();
  }
  return id;
}

std::int64_t store(Connection& connection, const MeasurementRow& row) {
  const std::string samples = encode_samples(row.samples_us);
  if (!row.created.empty()) {
    const char* find =
        "SELECT id FROM measurement WHERE plan = ? AND kind = ? AND created = ? AND environment = "
        "? AND "
        "session IS ? AND status = ? AND protocol = ? AND samples = ?";
    if (std::int64_t id =
            first_id(Rows(connection, find, row.plan, row.kind, row.created, row.environment,
                          Reference{row.session}, row.status, row.protocol, Blob{samples}))) {
      return id;
    }
  }
  Rows(connection,
       "INSERT INTO measurement (plan, environment, session, kind, status, reason, time_us, "
       "spread_us, "
       "samples, protocol, created, disturbance, decides, settings) "
       "VALUES (?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?, ?, ?, ?, ?, ?)",
       row.plan, row.environment, Reference{row.session}, row.kind, row.status, row.reason,
       row.time_us, row.spread_us, Blob{samples}, row.protocol,
       row.created.empty() ? now() : row.created, row.disturbance, row.decides, row.settings)
      .run();
  return last_id(connection);
}

std::int64_t store(Connection& connection, const SessionRow& row) {
  if (!row.started.empty()) {
    const char* find =
        "SELECT id FROM session WHERE workload = ? AND started = ? AND environment = ? AND options "
        "= ? AND "
        "seed = ?";
    if (std::int64_t id = first_id(Rows(connection, find, row.workload, row.started,
                                        row.environment, row.options_json, row.seed))) {
      return id;
    }
  }
  Rows(connection,
       "INSERT INTO session (workload, environment, options, seed, stop_reason, counters, "
       "reference_us, "
       "started, ended, owner) VALUES (?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?, ?)",
       row.workload, row.environment, row.options_json, row.seed, row.stop_reason,
       row.counters_json, row.reference_time_us, row.started.empty() ? now() : row.started,
       row.ended, row.owner)
      .run();
  return last_id(connection);
}

void finish_session(Connection& connection, std::int64_t id, const std::string& stop_reason,
                    const std::string& counters_json) {
  Rows(connection, "UPDATE session SET stop_reason = ?, counters = ?, ended = ? WHERE id = ?",
       stop_reason, counters_json, now(), id)
      .run();
  TENON_CHECK(connection.database().getChanges() == 1, fmt::format("there is no session {}", id));
}

void resume_session(Connection& connection, std::int64_t id, const std::string& owner) {
  Rows(connection, "UPDATE session SET owner = ?, stop_reason = '', ended = '' WHERE id = ?", owner,
       id)
      .run();
  TENON_CHECK(connection.database().getChanges() == 1, fmt::format("there is no session {}", id));
}

void retract(Connection& connection, std::int64_t session, std::int64_t plan) {
  Rows(connection, "UPDATE measurement SET decides = 0 WHERE session = ? AND plan = ?", session,
       plan)
      .run();
}

void set_session_reference(Connection& connection, std::int64_t id, double reference_time_us) {
  Rows(connection, "UPDATE session SET reference_us = nullif(?, 0) WHERE id = ?", reference_time_us,
       id)
      .run();
  TENON_CHECK(connection.database().getChanges() == 1, fmt::format("there is no session {}", id));
}

}  // namespace tenon::cache
