#include "cache/read_rows.h"

#include <fmt/format.h>

#include "cache/blob.h"
#include "ir/error.h"
#include "ir/sha256.h"

namespace tenon::cache {
namespace {

PlanRow read_plan(Connection& connection, std::int64_t id) {
  PlanRow row;
  {
    Rows rows(connection,
              "SELECT id, workload, mugraph, schedule, device_class, text, sha256, m_min, m_max, "
              "dependent_launch, uses_library FROM plan WHERE id = ?",
              id);
    TENON_CHECK(rows.next(), fmt::format("there is no plan {}", id));
    row.id = rows.integer(0);
    row.workload = rows.integer(1);
    row.mugraph = rows.integer(2);
    row.schedule = rows.integer(3);
    row.device_class = rows.text(4);
    row.text = rows.text(5);
    row.sha256 = rows.text(6);
    row.m_min = rows.integer(7);
    row.m_max = rows.integer(8);
    row.dependent_launch = rows.integer(9) != 0;
    row.uses_library = rows.integer(10) != 0;
  }
  Rows rows(connection, "SELECT kernel FROM plan_kernel WHERE plan = ? ORDER BY position", id);
  while (rows.next()) row.kernels.push_back(rows.integer(0));
  return row;
}

WorkloadRow read_workload(Connection& connection, std::int64_t id) {
  Rows rows(connection,
            "SELECT id, key, program, program_text, m, dims, dtype, attributes FROM workload WHERE "
            "id = ?",
            id);
  WorkloadRow row;
  if (!rows.next()) return row;
  row.id = rows.integer(0);
  row.key = rows.text(1);
  row.program = rows.text(2);
  row.program_text = rows.text(3);
  row.m = rows.integer(4);
  row.dims_json = rows.text(5);
  row.dtype = rows.text(6);
  row.attributes_json = rows.text(7);
  return row;
}

EnvironmentRow read_environment(Connection& connection, std::int64_t id) {
  Rows rows(connection,
            "SELECT id, device_name, device_class, sm_count, driver, nvrtc, tenon FROM environment "
            "WHERE id = ?",
            id);
  EnvironmentRow row;
  if (!rows.next()) return row;
  row.id = rows.integer(0);
  row.device_name = rows.text(1);
  row.device_class = rows.text(2);
  row.sm_count = static_cast<int>(rows.integer(3));
  row.driver = rows.text(4);
  row.nvrtc = rows.text(5);
  row.tenon = rows.text(6);
  return row;
}

MuGraphRow read_mugraph(Connection& connection, std::int64_t id) {
  Rows rows(connection, "SELECT id, sha256, text, label, program FROM mugraph WHERE id = ?", id);
  MuGraphRow row;
  if (!rows.next()) return row;
  row.id = rows.integer(0);
  row.sha256 = rows.text(1);
  row.text = rows.text(2);
  row.label = rows.text(3);
  row.program = rows.text(4);
  return row;
}

ScheduleRow read_schedule(Connection& connection, std::int64_t id) {
  Rows rows(connection, "SELECT id, sha256, text FROM schedule WHERE id = ?", id);
  ScheduleRow row;
  if (!rows.next()) return row;
  row.id = rows.integer(0);
  row.sha256 = rows.text(1);
  row.text = rows.text(2);
  return row;
}

// Of each method and verdict the newest, in the order of storing.
std::vector<EvidenceRow> read_evidence(Connection& connection, const PlanRow& plan,
                                       const std::string& program_sha256) {
  Rows rows(connection,
            "SELECT id, mugraph, plan, method, verdict, reason, figures, counterexample, seconds, "
            "created, program_sha256 FROM evidence WHERE id IN ("
            "SELECT max(id) FROM evidence WHERE mugraph = ?1 AND plan IS NULL AND "
            "program_sha256 IN ('', ?3) GROUP BY verdict, method UNION ALL "
            "SELECT max(id) FROM evidence WHERE plan = ?2 AND "
            "program_sha256 IN ('', ?3) GROUP BY verdict, method) ORDER BY id",
            plan.mugraph, plan.id, program_sha256);
  std::vector<EvidenceRow> list;
  while (rows.next()) {
    EvidenceRow row;
    row.id = rows.integer(0);
    row.mugraph = rows.integer(1);
    row.plan = rows.integer(2);
    row.method = rows.text(3);
    row.verdict = rows.text(4);
    row.reason = rows.text(5);
    row.figures_json = rows.text(6);
    row.counterexample_json = rows.text(7);
    row.seconds = rows.real(8);
    row.created = rows.text(9);
    row.program_sha256 = rows.text(10);
    list.push_back(std::move(row));
  }
  return list;
}

// Leaves `row` as it is where there is no such kernel.
void read_kernel(Connection& connection, std::int64_t id, KernelRow& row) {
  Rows rows(
      connection,
      "SELECT id, source_sha256, source, options, target, nvrtc, cubin, cubin_sha256, resources, "
      "registers, shared_bytes, spill_bytes, compile_seconds, status, log FROM kernel WHERE id = ?",
      id);
  if (!rows.next()) return;
  row.id = rows.integer(0);
  row.source_sha256 = rows.text(1);
  row.source = rows.text(2);
  row.options = rows.text(3);
  row.target = rows.text(4);
  row.nvrtc = rows.text(5);
  row.cubin = rows.text(6);
  row.cubin_sha256 = rows.text(7);
  row.resources_json = rows.text(8);
  row.registers = static_cast<int>(rows.integer(9));
  row.shared_bytes = static_cast<int>(rows.integer(10));
  row.spill_bytes = static_cast<int>(rows.integer(11));
  row.compile_seconds = rows.real(12);
  row.status = rows.text(13);
  row.log = rows.text(14);
}

MeasurementRow measurement_in(Rows& rows) {
  MeasurementRow row;
  row.id = rows.integer(0);
  row.plan = rows.integer(1);
  row.environment = rows.integer(2);
  row.session = rows.integer(3);
  row.status = rows.text(4);
  row.reason = rows.text(5);
  row.kind = rows.text(6);
  row.time_us = rows.real(7);
  row.spread_us = rows.real(8);
  row.samples_us = decode_samples(rows.text(9));
  row.protocol = rows.text(10);
  row.created = rows.text(11);
  row.disturbance = rows.text(12);
  row.decides = rows.integer(13) != 0;
  row.settings = rows.text(14);
  return row;
}

MeasurementRow read_measurement_row(Connection& connection, std::int64_t id) {
  Rows rows(
      connection,
      "SELECT id, plan, environment, session, status, reason, kind, time_us, spread_us, samples, "
      "protocol, created, disturbance, decides, settings FROM measurement WHERE id = ?",
      id);
  return rows.next() ? measurement_in(rows) : MeasurementRow{};
}

}  // namespace

Stored read_stored(Connection& connection, std::int64_t plan, std::int64_t measurement) {
  Stored stored;
  stored.plan = read_plan(connection, plan);
  stored.workload = read_workload(connection, stored.plan.workload);
  stored.mugraph = read_mugraph(connection, stored.plan.mugraph);
  stored.schedule = read_schedule(connection, stored.plan.schedule);
  stored.evidence =
      read_evidence(connection, stored.plan, ir::sha256_hex(stored.workload.program_text));
  for (std::int64_t kernel : stored.plan.kernels) {
    read_kernel(connection, kernel, stored.kernels.emplace_back());
  }
  if (measurement != 0) {
    stored.measurement = read_measurement_row(connection, measurement);
    stored.environment = read_environment(connection, stored.measurement.environment);
    Rows rows(connection, "SELECT reference_us FROM session WHERE id = ?",
              stored.measurement.session);
    if (rows.next()) stored.reference_time_us = rows.real(0);
  }
  return stored;
}

std::vector<MeasurementRow> read_measurements(Connection& connection, std::int64_t session) {
  Rows rows(
      connection,
      "SELECT id, plan, environment, session, status, reason, kind, time_us, spread_us, samples, "
      "protocol, created, disturbance, decides, settings FROM measurement WHERE session = ? "
      "ORDER BY id",
      session);
  std::vector<MeasurementRow> list;
  while (rows.next()) list.push_back(measurement_in(rows));
  return list;
}

std::optional<SessionRow> read_unfinished(Connection& connection, std::int64_t workload,
                                          std::int64_t environment,
                                          const std::string& options_json) {
  Rows rows(connection,
            "SELECT id, workload, environment, options, seed, stop_reason, counters, reference_us, "
            "started, ended, owner FROM session WHERE workload = ?1 AND environment = ?2 AND "
            "json_valid(options) AND json_remove(options, '$.budget_seconds') = "
            "json_remove(?3, '$.budget_seconds') ORDER BY started DESC, id DESC LIMIT 1",
            workload, environment, options_json);
  if (!rows.next()) return std::nullopt;
  SessionRow row;
  row.id = rows.integer(0);
  row.workload = rows.integer(1);
  row.environment = rows.integer(2);
  row.options_json = rows.text(3);
  row.seed = rows.integer(4);
  row.stop_reason = rows.text(5);
  row.counters_json = rows.text(6);
  row.reference_time_us = rows.real(7);
  row.started = rows.text(8);
  row.ended = rows.text(9);
  row.owner = rows.text(10);
  if (!row.stop_reason.empty() && row.stop_reason != "interrupted") return std::nullopt;
  return row;
}

std::string checksum_problem(const Stored& stored) {
  const bool has_text = !stored.plan.text.empty();
  if (has_text && ir::sha256_hex(stored.plan.text) != stored.plan.sha256) {
    return "the text of the plan does not match its checksum";
  }
  for (std::size_t i = 0; i < stored.kernels.size(); ++i) {
    const KernelRow& kernel = stored.kernels[i];
    if (kernel.id == 0) return fmt::format("kernel {} is missing", stored.plan.kernels[i]);
    if (!kernel.cubin.empty() && ir::sha256_hex(kernel.cubin) != kernel.cubin_sha256) {
      return fmt::format("the cubin of kernel {} does not match its checksum", kernel.id);
    }
    // The plan's own text names the cubins it was made with, so that a row swapped for another,
    // checksum and all, is noticed too.
    if (has_text && !kernel.cubin_sha256.empty() &&
        stored.plan.text.find(kernel.cubin_sha256) == std::string::npos) {
      return fmt::format("the cubin of kernel {} is not one the plan names", kernel.id);
    }
  }
  return "";
}

std::string damage_of(const Stored& stored, const Damage& damage) {
  std::string problem = checksum_problem(stored);
  // A plan without a text was never chosen: there is nothing to read.
  return problem.empty() && damage && !stored.plan.text.empty() ? damage(stored) : problem;
}

}  // namespace tenon::cache
