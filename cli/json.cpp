#include "cli/json.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/weights.h"

namespace tenon::cli {

using json = nlohmann::json;

namespace {
json best_json(const optimizer::BestReport& best) {
  json evidence = json::object();
  for (const auto& [method, e] : best.evidence) evidence[method] = to_json(e);
  return {{"id", best.plan},
          {"mugraph", best.mugraph_id},
          {"mugraph_text", best.mugraph},
          {"label", best.label},
          {"schedule", best.schedule},
          {"kind", best.kind},
          {"time_us", best.time_us},
          {"spread_us", best.spread_us},
          {"reference_time_us", best.reference_time_us},
          {"weights_bytes", best.weights.bytes()},
          {"prepared_bytes", best.weights.prepared_bytes},
          {"copies_weights", !best.weights.copies.empty()},
          {"evidence", evidence},
          {"notes", best.notes}};
}
}  // namespace

json parsed_json(const std::string& text) {
  json value = json::parse(text, nullptr, false);
  return value.is_discarded() ? json(text) : value;
}

std::optional<ir::HeldWeights> weights_of(const cache::Stored& stored) {
  try {
    return ir::held_weights(ir::parse_plan(stored.plan.text));
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::string describe(const ir::HeldWeights& weights) {
  const std::string copies = weights.copies.empty() ? "no copy of the weights"
                                                    : fmt::format("copies of the weights: {}",
                                                                  fmt::join(weights.copies, ", "));
  return fmt::format("{:.3f} MB in memory: {:.3f} MB of the caller's, {:.3f} MB prepared ({})",
                     static_cast<double>(weights.bytes()) * 1e-6,
                     static_cast<double>(weights.parameter_bytes) * 1e-6,
                     static_cast<double>(weights.prepared_bytes) * 1e-6, copies);
}

json to_json(const ir::Workload& w) {
  json out = {{"program", w.program.signature.program}, {"dtype", std::string(ir::name(w.dtype))}};
  for (std::size_t d = 0; d < w.extents.size(); ++d)
    out[w.program.signature.dims[d]] = w.extents[d];
  out["attributes"] = w.attributes;
  if (w.keep_weights) out["keep_weights"] = true;
  if (!w.row_strides.empty()) out["row_strides"] = w.row_strides;
  return out;
}

json to_json(const verifier::Evidence& e) {
  json out = {{"verdict", verifier::name(e.verdict)},
              {"seconds", e.seconds},
              {"figures", parsed_json(e.figures)}};
  if (!e.reason.empty()) out["reason"] = e.reason;
  if (!e.counterexample.empty()) out["counterexample"] = parsed_json(e.counterexample);
  return out;
}

json to_json(const optimizer::Report& report) {
  const optimizer::SearchReport& s = report.search;
  json out = {{"workload", to_json(report.workload)},
              {"device", report.device},
              {"device_name", report.device_name},
              {"best", report.best ? best_json(*report.best) : json()},
              {"search",
               {{"enumerated", s.enumerated},
                {"pruned", s.pruned},
                {"pruned_by", s.pruned_by},
                {"deduplicated", s.deduplicated},
                {"distinct", s.distinct},
                {"verified", s.verified},
                {"lowerable", s.lowerable},
                {"not_lowerable", s.not_lowerable},
                {"compiled", s.compiled},
                {"measured", s.measured},
                {"failed", s.failed},
                {"rank_correlation", s.rank_correlation ? json(*s.rank_correlation) : json()},
                {"seconds", s.seconds}}},
              {"stop_reason", report.stop_reason},
              {"from_database", report.from_database},
              {"database", report.database},
              {"notes", report.notes}};
  out["candidates"] = json::array();
  for (const optimizer::CandidateReport& c : report.candidates)
    out["candidates"].push_back({{"mugraph", c.mugraph_id},
                                 {"label", c.label},
                                 {"schedule", c.schedule},
                                 {"status", c.status},
                                 {"reason", c.reason},
                                 {"time_us", c.time_us},
                                 {"spread_us", c.spread_us},
                                 {"samples", c.samples},
                                 {"unfused", c.unfused}});
  out["steps"] = json::array();
  for (const optimizer::StepTime& step : report.steps)
    out["steps"].push_back({{"step", step.step}, {"seconds", step.seconds}});
  return out;
}

json to_json(const cache::Stored& s) {
  json evidence = json::array();
  for (const cache::EvidenceRow& e : s.evidence)
    evidence.push_back({{"method", e.method},
                        {"verdict", e.verdict},
                        {"reason", e.reason},
                        {"seconds", e.seconds},
                        {"created", e.created},
                        {"figures", parsed_json(e.figures_json)}});
  json kernels = json::array();
  for (const cache::KernelRow& k : s.kernels)
    kernels.push_back({{"target", k.target},
                       {"registers", k.registers},
                       {"shared_bytes", k.shared_bytes},
                       {"spill_bytes", k.spill_bytes},
                       {"compile_seconds", k.compile_seconds},
                       {"nvrtc", k.nvrtc},
                       {"options", k.options},
                       {"cubin_sha256", k.cubin_sha256}});
  json weights = {json(), json(), json()};
  if (const auto held = weights_of(s))
    weights = {held->bytes(), held->prepared_bytes, !held->copies.empty()};
  return {{"plan", s.plan.id},
          {"program", s.workload.program},
          {"dims", parsed_json(s.workload.dims_json)},
          {"dtype", s.workload.dtype},
          {"attributes", parsed_json(s.workload.attributes_json)},
          {"mugraph", s.mugraph.sha256},
          {"label", s.mugraph.label},
          {"schedule", s.schedule.text},
          {"status", s.measurement.status},
          {"reason", s.measurement.reason},
          {"kind", s.measurement.kind},
          {"time_us", s.measurement.time_us},
          {"spread_us", s.measurement.spread_us},
          {"samples", s.measurement.samples_us},
          {"protocol", s.measurement.protocol},
          {"disturbance", s.measurement.disturbance},
          {"measured", s.measurement.created},
          {"reference_time_us", s.reference_time_us},
          {"usable", s.usable},
          {"note", s.note},
          {"evidence", evidence},
          {"kernels", kernels},
          {"device_name", s.environment.device_name},
          {"device_class", s.environment.device_class},
          {"driver", s.environment.driver},
          {"nvrtc", s.environment.nvrtc},
          {"tenon", s.environment.tenon},
          {"launch", s.plan.dependent_launch ? "dependent" : "plain"},
          {"uses_library", s.plan.uses_library},
          {"m_min", s.plan.m_min},
          {"m_max", s.plan.m_max},
          {"weights_bytes", weights[0]},
          {"prepared_bytes", weights[1]},
          {"copies_weights", weights[2]}};
}

}  // namespace tenon::cli
