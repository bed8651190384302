// What the steps leave in the database, and what they find there.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ir/sha256.h"
#include "optimizer/session.h"
#include "optimizer/version.h"
#include "runtime/load.h"

namespace tenon::optimizer {

using json = nlohmann::json;
using measure::Status;

std::string tenon_version() { return kVersion; }

namespace {

json named_dims(const ir::Workload& w) {
  json dims = json::object();
  for (std::size_t d = 0; d < w.extents.size(); ++d)
    dims[w.program.signature.dims[d]] = w.extents[d];
  return dims;
}

cache::EvidenceRow evidence_row(const Session& session, const verifier::Evidence& e,
                                std::int64_t mugraph, std::int64_t plan) {
  cache::EvidenceRow row;
  row.program_sha256 = ir::identity(session.options.workload.program);
  row.mugraph = mugraph;
  row.plan = plan;
  row.method = e.method;
  row.verdict = verifier::name(e.verdict);
  row.reason = e.reason;
  row.figures_json = e.figures;
  row.counterexample_json = e.counterexample;
  row.seconds = e.seconds;
  return row;
}

cache::SessionRow session_row_of(const Session& session) {
  const runtime::DeviceInfo& info = session.device->info();
  cache::SessionRow row;
  row.workload = session.workload_row;
  row.environment = session.environment_row;
  json options = {{"budget_seconds", session.options.budget_seconds},
                  {"device", info.id},
                  {"dependent_launch", session.options.dependent_launch},
                  {"schedules_per_graph", session.options.schedules_per_graph},
                  {"strategy", session.options.strategy},
                  {"samples", session.options.samples}};
  if (session.options.workload.keep_weights) options["keep_weights"] = true;
  row.options_json = options.dump();
  row.seed = static_cast<std::int64_t>(session.options.seed);
  row.owner = process_identity();
  return row;
}

}  // namespace

BestReport best_report(const cache::Stored& stored) {
  BestReport out;
  out.plan = stored.plan.id;
  out.mugraph_id = stored.mugraph.sha256;
  out.mugraph = stored.mugraph.text;
  out.label = stored.mugraph.label;
  out.schedule = stored.schedule.text;
  out.kind = stored.measurement.kind;
  out.time_us = stored.measurement.time_us;
  out.spread_us = stored.measurement.spread_us;
  out.reference_time_us = stored.reference_time_us;
  out.weights = ir::held_weights(ir::parse_plan(stored.plan.text));
  for (const cache::EvidenceRow& row : stored.evidence)
    out.evidence[row.method] = {row.method,
                                verifier::verdict_from_name(row.verdict),
                                row.reason,
                                row.figures_json,
                                row.counterexample_json,
                                row.seconds};
  return out;
}

// A stored answer serves where it was tuned for this very m; another m of its interval is tuned
// anew.
bool answer_from_database(Session& session) {
  std::string why;
  auto stored =
      session.database->best(runtime::make_query(session.options.workload, session.device->info(),
                                                 session.options.dependent_launch),
                             &why);
  if (!stored || stored->workload.m != runtime::dynamic_extent(session.options.workload))
    return false;
  bool wanted = session.executes() ? stored->usable : stored->measurement.kind == "estimated";
  if (!wanted) return false;
  // A session that was interrupted goes on, even where it left a winner.
  if (!session.options.answer_only && resume(session, session_row_of(session))) return false;
  session.report.from_database = true;
  session.report.stop_reason = "database";
  session.report.best = best_report(*stored);
  if (!why.empty()) session.report.best->notes.push_back(why);
  return true;
}

void identify(Session& session) {
  const runtime::DeviceInfo& info = session.device->info();
  const ir::Workload& w = session.options.workload;
  cache::WorkloadRow workload;
  workload.key = ir::key(w);
  workload.program = w.program.signature.program;
  workload.program_text = ir::print(w.program);
  workload.m = runtime::dynamic_extent(w);
  workload.dims_json = named_dims(w).dump();
  workload.dtype = std::string(ir::name(w.dtype));
  workload.attributes_json = json(w.attributes).dump();
  session.workload_row = session.database->put(workload);

  cache::EnvironmentRow environment;
  environment.device_name = info.name;
  environment.device_class = info.device_class;
  environment.sm_count = info.target.sm_count;
  environment.driver = info.driver;
  environment.nvrtc = info.target.is_host() ? "" : codegen::nvrtc_version();
  environment.tenon = tenon_version();
  session.environment_row = session.database->put(environment);
}

void begin_session(Session& session) {
  const runtime::DeviceInfo& info = session.device->info();
  const ir::Workload& w = session.options.workload;
  if (info.executes)
    session.runner = session.options.in_process
                         ? measure::make_local_runner(info.id, w)
                         : measure::make_worker_runner(info.id, w, session.stop);
  cache::SessionRow row = session_row_of(session);
  if (session.session_row != 0 || resume(session, row)) {
    session.database->resume_session(session.session_row, row.owner);
    session.report.notes.push_back(
        fmt::format("going on with the session of {}, which was interrupted: {} measurements are "
                    "there",
                    session.resumed_from, session.known.size()));
    session.progress.note(session.report.notes.back());
    return;
  }
  session.session_row = session.database->put(row);
}

void store_graph(Session& session, GraphState& graph) {
  cache::MuGraphRow row;
  row.sha256 = graph.id;
  row.text = graph.text;
  row.label = graph.label;
  row.program = session.options.workload.program.signature.program;
  graph.row = session.database->put(row);
  session.database->put(evidence_row(session, graph.random, graph.row, 0));
  session.database->put(evidence_row(session, graph.z3, graph.row, 0));
  session.database->put(evidence_row(session, graph.induction, graph.row, 0));
}

namespace {

std::int64_t store_kernel(Session& session, const codegen::Source& source,
                          const codegen::Compiled& compiled) {
  cache::KernelRow row;
  row.source = source.text;
  row.options = compiled.options;
  row.target = session.device->info().target.name;
  row.nvrtc = compiled.nvrtc_version;
  row.cubin = compiled.cubin;
  row.cubin_sha256 = compiled.sha256;
  json resources = json::array();
  for (const codegen::KernelResources& r : compiled.resources) {
    resources.push_back({{"entry", r.entry},
                         {"registers", r.registers},
                         {"static_shared_bytes", r.static_shared_bytes},
                         {"spill_bytes", r.spill_bytes},
                         {"stack_bytes", r.stack_bytes}});
    row.registers = std::max(row.registers, r.registers);
    row.shared_bytes = std::max(row.shared_bytes, r.static_shared_bytes);
    row.spill_bytes += r.spill_bytes;
  }
  row.resources_json = resources.dump();
  row.compile_seconds = compiled.seconds;
  row.status = compiled.ok ? measure::name(Status::kOk) : measure::name(Status::kCompileError);
  row.log = compiled.log;
  return session.database->put(row);
}

}  // namespace

void store_candidate(Session& session, CandidateState& candidate) {
  const std::string schedule_text = ir::print(candidate.schedule);
  cache::ScheduleRow schedule;
  schedule.sha256 = ir::identity(candidate.schedule);
  schedule.text = schedule_text;

  cache::PlanRow plan;
  plan.workload = session.workload_row;
  plan.mugraph = session.graphs[candidate.graph].row;
  plan.device_class = session.device->info().device_class;
  plan.dependent_launch = candidate.schedule.dependent_launch;
  for (std::size_t i = 0; i < candidate.compiled.size(); ++i)
    plan.kernels.push_back(
        store_kernel(session, candidate.generated.sources[i], *candidate.compiled[i]));
  const ir::LaunchPlan& made = candidate.generated.plan;
  if (candidate.status == Status::kOk) {
    plan.text = ir::print(made);
    plan.m_min = made.m_min;
    plan.m_max = made.m_max;
  } else {
    plan.m_min = plan.m_max = runtime::dynamic_extent(session.options.workload);
  }
  // A plan that was never made is still told apart by its µGraph and schedule.
  plan.sha256 = ir::sha256_hex(
      plan.text.empty() ? session.graphs[candidate.graph].id + schedule_text : plan.text);
  for (const ir::Launch& launch : made.main)
    plan.uses_library = plan.uses_library || launch.kind == ir::LaunchKind::kLibrary;
  plan.schedule = session.database->put(schedule);
  candidate.plan_row = session.database->put(plan);
}

void store_numeric(Session& session, const CandidateState& candidate) {
  session.database->put(evidence_row(session, candidate.numeric,
                                     session.graphs[candidate.graph].row, candidate.plan_row));
}

void store_measurement(Session& session, const CandidateState& candidate, const std::string& kind) {
  cache::MeasurementRow row;
  row.plan = candidate.plan_row;
  row.environment = session.environment_row;
  row.session = session.session_row;
  row.status = measure::name(candidate.status);
  row.reason = candidate.reason;
  row.kind = kind;
  row.time_us = candidate.timing.median_us;
  row.spread_us = candidate.timing.spread_us;
  row.samples_us = candidate.timing.samples_us;
  row.protocol = candidate.timing.protocol;
  row.disturbance = candidate.timing.disturbance;
  row.decides = decides(session, candidate.timing);
  row.settings = candidate.settings;
  session.database->put(row);
}

}  // namespace tenon::optimizer
