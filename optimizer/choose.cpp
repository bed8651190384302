// The last steps: the winner, and the report of everything tried.
#include <fmt/format.h>

#include <algorithm>

#include "optimizer/session.h"
#include "runtime/load.h"

namespace tenon::optimizer {

using measure::Status;

namespace {

CandidateReport report_of(const Session& session, const CandidateState& c) {
  const GraphState& graph = session.graphs[c.graph];
  CandidateReport out;
  out.mugraph_id = graph.id;
  out.label = graph.label;
  out.schedule = ir::print(c.schedule);
  out.status =
      session.executes() || c.status != Status::kOk ? measure::name(c.status) : "estimated";
  out.reason = c.reason;
  out.time_us = session.executes() ? c.timing.median_us : c.estimated_us;
  out.spread_us = c.timing.spread_us;
  out.samples = static_cast<int>(c.timing.samples_us.size());
  out.unfused = graph.unfused;
  out.checked = c.usable();
  return out;
}

// May this candidate win? On a compile: device it only has to be compiled.
bool eligible(const Session& session, const CandidateState& c) {
  if (!session.executes()) return c.status == Status::kOk;
  return c.usable() && c.timed && decides(session, c.timing);
}

// Says what disturbed measurements, and what follows from it.
void note_disturbances(Session& session) {
  std::size_t count = 0;
  const std::string* what = nullptr;
  for (const CandidateState& c : session.candidates) {
    if (!c.usable() || !c.timed || c.timing.disturbance.empty()) continue;
    ++count;
    what = &c.timing.disturbance;
  }
  if (count == 0) return;
  session.report.notes.push_back(
      fmt::format("{} of the finalists' measurements {} disturbed ({}){}", count,
                  count == 1 ? "was" : "were", *what,
                  session.options.force ? "; --force lets them decide"
                                        : " and may not choose a winner; measure again when the "
                                          "device is quiet, or with --force"));
}

// An earlier session may have left a plan that the database still holds for faster.
void note_other_winner(Session& session) {
  if (!session.executes() || !session.report.best) return;
  auto stored = session.database->best(runtime::make_query(
      session.options.workload, session.device->info(), session.options.dependent_launch));
  if (!stored || stored->plan.id == session.report.best->plan) return;
  session.report.best->notes.push_back(
      fmt::format("the database launches plan {}, measured at {:.2f} us before", stored->plan.id,
                  stored->measurement.time_us));
}

double time_of(const Session& session, const CandidateState& c) {
  return session.executes() ? c.timing.median_us : c.estimated_us;
}

}  // namespace

void choose_best(Session& session) {
  const CandidateState* best = nullptr;
  const CandidateState* second = nullptr;
  const CandidateState* reference = nullptr;
  auto faster = [&](const CandidateState& a, const CandidateState* b) {
    return b == nullptr || time_of(session, a) < time_of(session, *b);
  };
  for (const CandidateState& c : session.candidates) {
    if (!eligible(session, c)) continue;
    if (session.graphs[c.graph].unfused && faster(c, reference)) reference = &c;
    if (faster(c, best)) {
      second = best;
      best = &c;
    } else if (faster(c, second)) {
      second = &c;
    }
  }
  const bool quiet_reference = reference != nullptr;
  for (const CandidateState& c : session.candidates)  // a disturbed one compares, and it is said
    if (!quiet_reference && session.graphs[c.graph].unfused && c.usable() && c.timed &&
        faster(c, reference))
      reference = &c;
  note_disturbances(session);
  std::string& reason = session.report.stop_reason;
  reason = session.stop.stop_requested() ? "interrupted" : session.cut_off ? "budget" : "exhausted";
  if (best == nullptr) {
    if (reason == "exhausted") reason = "no candidate";
    return;
  }
  const GraphState& graph = session.graphs[best->graph];
  BestReport out;
  out.plan = best->plan_row;
  out.mugraph_id = graph.id;
  out.mugraph = graph.text;
  out.label = graph.label;
  out.schedule = ir::print(best->schedule);
  out.kind = session.executes() ? "measured" : "estimated";
  out.time_us = time_of(session, *best);
  out.spread_us = best->timing.spread_us;
  out.weights = ir::held_weights(best->generated.plan);
  out.evidence["random"] = graph.random;
  out.evidence["z3"] = graph.z3;
  out.evidence["induction"] = graph.induction;
  if (best->has_numeric) {
    out.evidence["numeric"] = best->numeric;
  } else {
    out.evidence["numeric"] = {"numeric",
                               verifier::Verdict::kUnknown,
                               "not checked: the device executes nothing",
                               "{}",
                               "",
                               0};
  }
  if (reference != nullptr) {
    out.reference_time_us = time_of(session, *reference);
    session.database->set_session_reference(session.session_row, out.reference_time_us);
    if (!quiet_reference)
      out.notes.push_back("the unfused form was disturbed: " + reference->timing.disturbance);
  } else {
    out.notes.push_back("the unfused form was not measured in this run");
  }
  if (second != nullptr && session.executes()) {
    double gap = time_of(session, *second) - out.time_us;
    if (gap <= std::max(best->timing.spread_us, second->timing.spread_us))
      out.notes.push_back(
          fmt::format("a tie: the second is {:.2f} us behind, inside the spread of {:.2f} us", gap,
                      std::max(best->timing.spread_us, second->timing.spread_us)));
  }
  session.report.best = std::move(out);
}

void end_session(Session& session) {
  for (const CandidateState& c : session.candidates)
    session.report.candidates.push_back(report_of(session, c));
  std::stable_sort(session.report.candidates.begin(), session.report.candidates.end(),
                   [](const CandidateReport& a, const CandidateReport& b) {
                     bool x = a.status == "ok" || a.status == "estimated";
                     bool y = b.status == "ok" || b.status == "estimated";
                     if (x != y) return x;
                     bool timed_x = a.time_us > 0, timed_y = b.time_us > 0;
                     if (timed_x != timed_y) return timed_x;
                     if (a.checked != b.checked) return a.checked;
                     return x && a.time_us < b.time_us;
                   });
  const SearchReport& s = session.report.search;
  std::string counters = fmt::format(
      R"({{"enumerated":{},"pruned":{},"deduplicated":{},"distinct":{},"verified":{},"lowerable":{},"compiled":{},"measured":{},"seconds":{:.3f}}})",
      s.enumerated, s.pruned, s.deduplicated, s.distinct, s.verified, s.lowerable, s.compiled,
      s.measured, s.seconds);
  session.database->finish_session(session.session_row, session.report.stop_reason, counters);
  note_other_winner(session);
}

}  // namespace tenon::optimizer
