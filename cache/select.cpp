#include "cache/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "cache/blob.h"
#include "cache/read_rows.h"
#include "ir/sha256.h"

namespace tenon::cache {
namespace {

struct TunedWorkload {
  std::int64_t id;
  std::int64_t m;
  std::string program_sha256;
};

// How far from `asked` a workload tuned at `m` is, as a ratio >= 1.
double distance(std::int64_t m, std::int64_t asked) {
  auto low = static_cast<double>(std::min(m, asked)),
       high = static_cast<double>(std::max(m, asked));
  return low >= 1 ? high / low : HUGE_VAL;
}

// The workloads of a key, nearest in m first; of two as near the larger, whose plans have the
// asked m in the reach of their tiles.
std::vector<TunedWorkload> workloads_of(Connection& connection, const Query& query) {
  std::vector<TunedWorkload> workloads;
  Rows rows(connection, "SELECT id, m, program_sha256 FROM workload WHERE key = ?",
            query.workload_key);
  while (rows.next()) workloads.push_back({rows.integer(0), rows.integer(1), rows.text(2)});
  std::stable_sort(workloads.begin(), workloads.end(), [&](const auto& a, const auto& b) {
    return std::tuple(distance(a.m, query.m), -a.m) < std::tuple(distance(b.m, query.m), -b.m);
  });
  return workloads;
}

// `measured`: only those that passed the numeric test, which an index leads to; a thousand others
// may have been screened.
std::vector<Candidate> candidates_of(Connection& connection, const Query& query,
                                     const TunedWorkload& workload, bool measured) {
  std::vector<Candidate> candidates;
  {
    const char* checked =
        "SELECT id, mugraph FROM plan INDEXED BY plan_checked WHERE workload = ? AND "
        "device_class = ? AND dependent_launch = ? AND m_min <= ? AND m_max >= ? AND "
        "(uses_library = 0 OR ?) AND text <> '' AND checked = 1";
    const char* all =
        "SELECT id, mugraph FROM plan WHERE workload = ? AND device_class = ? AND "
        "dependent_launch = ? AND m_min <= ? AND m_max >= ? AND (uses_library = 0 OR ?) AND "
        "text <> ''";
    Rows rows(connection, measured ? checked : all, workload.id, query.device_class,
              query.dependent_launch, query.m, query.m, query.allow_library);
    while (rows.next()) {
      Candidate candidate;
      candidate.plan = rows.integer(0);
      candidate.mugraph = rows.integer(1);
      candidate.tuned_m = workload.m;
      candidate.program_sha256 = workload.program_sha256;
      candidates.push_back(std::move(candidate));
    }
  }
  for (Candidate& candidate : candidates) read_measurement(connection, query, candidate);
  std::erase_if(candidates,
                [&](const Candidate& c) { return !measurement_problem(c, query).empty(); });
  return candidates;
}

std::string name_of(const Candidate& candidate) { return fmt::format("plan {}", candidate.plan); }

}  // namespace

void read_measurement(Connection& connection, const Query& query, Candidate& candidate) {
  Rows rows(connection,
            "SELECT m.id, m.kind, m.status, m.reason, m.time_us, e.device_name, e.driver, e.nvrtc, "
            "e.tenon, m.disturbance, m.decides "
            "FROM measurement m JOIN environment e ON e.id = m.environment WHERE m.plan = ? "
            "ORDER BY m.kind = 'measured' DESC, m.decides DESC, e.device_name = ? DESC, m.created "
            "DESC, m.id DESC "
            "LIMIT 1",
            candidate.plan, query.device_name);
  if (!rows.next()) return;
  candidate.measurement = rows.integer(0);
  candidate.kind = rows.text(1);
  candidate.status = rows.text(2);
  candidate.reason = rows.text(3);
  candidate.time_us = rows.real(4);
  candidate.disturbance = rows.text(9);
  candidate.decides = rows.integer(10) != 0;
  auto differs = [&](const char* what, const std::string& asked, int column) {
    std::string stored = rows.text(column);
    if (!asked.empty() && stored != asked && candidate.stale.empty()) {
      candidate.stale =
          fmt::format("{} with {} '{}', not '{}'", candidate.kind, what, stored, asked);
    }
  };
  differs("device", query.device_name, 5);
  differs("driver", query.driver, 6);
  differs("NVRTC", query.nvrtc, 7);
  differs("Tenon", query.tenon, 8);
}

std::string measurement_problem(const Candidate& candidate, const Query& query) {
  if (candidate.measurement == 0) return "it was never measured";
  if (candidate.kind != "measured" && !query.include_estimated) return "its time is only estimated";
  if (candidate.status != "ok") {
    return fmt::format("its newest measurement ended as {}{}{}", candidate.status,
                       candidate.reason.empty() ? "" : ": ", candidate.reason);
  }
  if (!candidate.decides)
    return fmt::format("it was only measured while disturbed: {}", candidate.disturbance);
  // Written as acceptance: no time, or one that is no number, does not pass.
  if (!(candidate.time_us > 0 && std::isfinite(candidate.time_us))) {
    return "its newest measurement has no time";
  }
  return "";
}

std::string evidence_problem(Connection& connection, const Candidate& candidate) {
  // Of the µGraph and of the plan apart, so that each goes by its index: many plans share a µGraph.
  Rows refuted(connection,
               "SELECT method, reason FROM evidence WHERE mugraph = ?1 AND plan IS NULL AND "
               "verdict = 'refuted' AND program_sha256 IN ('', ?3) UNION ALL "
               "SELECT method, reason FROM evidence WHERE plan = ?2 AND "
               "verdict = 'refuted' AND program_sha256 IN ('', ?3) LIMIT 1",
               candidate.mugraph, candidate.plan, candidate.program_sha256);
  if (refuted.next()) {
    return fmt::format("it was refuted by the {} test: {}", refuted.text(0), refuted.text(1));
  }
  Rows random(
      connection,
      "SELECT 1 FROM evidence WHERE mugraph = ?1 AND plan IS NULL AND verdict = 'pass' AND "
      "method = 'random' AND program_sha256 IN ('', ?3) UNION ALL "
      "SELECT 1 FROM evidence WHERE plan = ?2 AND verdict = 'pass' AND method = 'random' AND "
      "program_sha256 IN ('', ?3) LIMIT 1",
      candidate.mugraph, candidate.plan, candidate.program_sha256);
  if (!random.next()) return "it has not passed the random test";
  if (candidate.kind != "measured") return "";
  // What was compared on a device is this plan, not its µGraph.
  Rows numeric(connection,
               "SELECT 1 FROM evidence WHERE plan = ?1 AND verdict = 'pass' AND "
               "method = 'numeric' AND program_sha256 IN ('', ?2) LIMIT 1",
               candidate.plan, candidate.program_sha256);
  return numeric.next() ? "" : "it has not passed the numeric test";
}

std::optional<Stored> select_best(Connection& connection, const Query& query,
                                  std::vector<std::string>& passed_over) {
  // Measured plans of any m come before estimated ones.
  for (const char* kind : {"measured", "estimated"}) {
    if (kind == std::string("estimated") && !query.include_estimated) break;
    for (const TunedWorkload& workload : workloads_of(connection, query)) {
      std::vector<Candidate> candidates =
          candidates_of(connection, query, workload, kind == std::string("measured"));
      std::erase_if(candidates, [&](const Candidate& c) { return c.kind != kind; });
      std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
        return std::tuple(!a.stale.empty(), a.time_us, a.plan) <
               std::tuple(!b.stale.empty(), b.time_us, b.plan);
      });
      for (const Candidate& candidate : candidates) {
        if (!evidence_problem(connection, candidate).empty()) continue;
        Stored stored = read_stored(connection, candidate.plan, candidate.measurement);
        if (std::string problem = damage_of(stored, query.damage); !problem.empty()) {
          passed_over.push_back(fmt::format("{} was passed over: {}", name_of(candidate), problem));
          continue;
        }
        if (query.refuse && !query.refuse(stored).empty()) continue;
        stored.usable = candidate.kind == "measured";
        stored.fresh = candidate.stale.empty();
        if (!stored.fresh) stored.note = fmt::format("stale: {}", candidate.stale);
        if (!stored.usable)
          stored.note +=
              (stored.note.empty() ? "" : "; ") + std::string("estimated, never measured");
        if (!candidate.disturbance.empty())
          stored.note += fmt::format("{}measured while disturbed: {}",
                                     stored.note.empty() ? "" : "; ", candidate.disturbance);
        if (candidate.tuned_m != query.m) {
          stored.note +=
              fmt::format("{}tuned at m={}", stored.note.empty() ? "" : "; ", candidate.tuned_m);
        }
        return stored;
      }
    }
  }
  return std::nullopt;
}

std::vector<TunedInterval> select_tuned(Connection& connection, const Query& query) {
  std::vector<TunedInterval> tuned;
  Rows rows(
      connection,
      "SELECT DISTINCT w.m, p.m_min, p.m_max FROM workload w JOIN plan p ON p.workload = w.id "
      "WHERE w.key = ? AND p.device_class = ? AND p.dependent_launch = ? AND "
      "(p.uses_library = 0 OR ?) AND p.text <> '' ORDER BY w.m, p.m_min, p.m_max",
      query.workload_key, query.device_class, query.dependent_launch, query.allow_library);
  while (rows.next()) tuned.push_back({rows.integer(0), rows.integer(1), rows.integer(2)});
  return tuned;
}

std::optional<Stored> select_plan(Connection& connection, std::int64_t plan) {
  Candidate candidate;
  candidate.plan = plan;
  {
    Rows rows(
        connection,
        "SELECT p.mugraph, w.program_sha256, w.m FROM plan p JOIN workload w ON w.id = p.workload "
        "WHERE p.id = ?",
        plan);
    if (!rows.next()) return std::nullopt;
    candidate.mugraph = rows.integer(0);
    candidate.program_sha256 = rows.text(1);
    candidate.tuned_m = rows.integer(2);
  }
  Query any;
  any.include_estimated = true;
  read_measurement(connection, any, candidate);
  Stored stored = read_stored(connection, plan, candidate.measurement);
  std::string problem = checksum_problem(stored);
  if (!problem.empty()) {
    for (KernelRow& kernel : stored.kernels) kernel.cubin.clear();
  } else if (problem = measurement_problem(candidate, any);
             problem.empty() && stored.plan.text.empty()) {
    problem = "it has no launch plan";
  } else if (problem.empty()) {
    problem = evidence_problem(connection, candidate);
    if (problem.empty() && candidate.kind != "measured") problem = "its time is only estimated";
  }
  stored.usable = problem.empty();
  stored.note = problem;
  return stored;
}

}  // namespace tenon::cache
