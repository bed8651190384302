// Steps that make candidates: the space of schedules for every accepted µGraph, code, cubins.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <iterator>
#include <set>

#include "optimizer/session.h"
#include "search/schedule_space.h"

namespace tenon::optimizer {

using measure::Status;

namespace {

// Part of the time left that compiling takes on a device that executes nothing; the rest stores.
constexpr double kCompileShare = 0.9;

}  // namespace

measure::Candidate CandidateState::runnable() const {
  measure::Candidate out{generated.plan, {}};
  for (const auto& module : compiled) out.cubins.push_back(module->cubin);
  return out;
}

bool CandidateState::spills() const {
  for (const auto& module : compiled)
    for (const codegen::KernelResources& r : module->resources)
      if (r.spill_bytes > 0) return true;
  return false;
}

void make_space(Session& session) {
  auto begin = std::chrono::steady_clock::now();
  session.progress.begin("binding schedules", 0);
  search::ScheduleSpace space;
  space.workload = &session.options.workload;
  space.target = &session.device->info().target;
  const bool exhaustive = session.options.strategy == "exhaustive";
  std::size_t count = 0;
  for (GraphState& g : session.graphs) {
    space.graphs.push_back(&g.graph);
    space.ranked.emplace_back();
    space.first.push_back(g.unfused);
    if (!g.accepted) continue;
    if (space.workload->keep_weights && !ir::weight_copies(g.graph).empty()) {
      ++session.report.search.not_lowerable["it keeps a copy of the weights"];
      continue;
    }
    std::string why;
    space.ranked.back() =
        search::schedules(g.graph, *space.workload, *space.target,
                          exhaustive ? 0 : session.options.schedules_per_graph, &why);
    count += space.ranked.back().size();
    if (space.ranked.back().empty())
      ++session.report.search.not_lowerable[why.empty() ? "no legal schedule" : why];
    else
      ++session.report.search.lowerable;
  }
  session.strategy = search::make_strategy(session.options.strategy, std::move(space));
  session.progress.end(
      fmt::format("{} schedules of {} µGraphs", count, session.report.search.lowerable),
      seconds_since(begin));
}

CandidateState candidate_of(const Session& session, const search::Proposal& proposal) {
  CandidateState candidate;
  candidate.graph = proposal.graph;
  candidate.schedule = proposal.schedule;
  candidate.schedule.dependent_launch =
      session.options.dependent_launch && !session.device->info().target.is_host();
  candidate.estimated_us = proposal.estimated_us;
  return candidate;
}

std::shared_ptr<const codegen::Compiled> Compiler::compile_source(const codegen::Source& source) {
  std::promise<std::shared_ptr<const codegen::Compiled>> promise;
  std::shared_future<std::shared_ptr<const codegen::Compiled>> known;
  bool mine = false;
  {
    std::lock_guard lock(mutex_);
    auto [it, inserted] = made_.try_emplace(source.text);
    if (inserted) it->second = promise.get_future().share();
    known = it->second;
    mine = inserted;
  }
  if (!mine) return known.get();
  try {
    promise.set_value(std::make_shared<const codegen::Compiled>(
        codegen::compile(source, session_.device->info().target)));
  } catch (...) {
    promise.set_exception(std::current_exception());
  }
  return known.get();
}

void Compiler::compile(CandidateState& candidate) {
  try {
    candidate.generated =
        codegen::generate(session_.graphs[candidate.graph].graph, candidate.schedule,
                          session_.options.workload, session_.device->info().target);
  } catch (const codegen::Rejected& rejected) {
    candidate.status = Status::kUnsupported;
    candidate.reason = rejected.what();
    spdlog::info("{} is rejected: {}", ir::print(candidate.schedule), candidate.reason);
    return;
  }
  for (std::size_t i = 0; i < candidate.generated.sources.size(); ++i) {
    candidate.compiled.push_back(compile_source(candidate.generated.sources[i]));
    const codegen::Compiled& compiled = *candidate.compiled.back();
    if (!compiled.ok) {
      candidate.status = Status::kCompileError;
      candidate.reason = compiled.log;
      spdlog::info("{} does not compile: {}", ir::print(candidate.schedule), compiled.log);
      return;
    }
    candidate.generated.plan.modules[i].cubin_sha256 = compiled.sha256;
  }
}

void record_compiled(Session& session, CandidateState& candidate) {
  store_candidate(session, candidate);
  candidate.recorded = true;
  if (candidate.status == Status::kOk) {
    ++session.report.search.compiled;
    return;
  }
  ++session.report.search.failed[measure::name(candidate.status)];
  if (session.known.count({candidate.plan_row, candidate.settings}) == 0)
    store_measurement(session, candidate, "measured");
}

void note_left_out(Session& session, std::size_t count) {
  if (count > 0)
    session.report.notes.push_back(fmt::format("the budget left {} candidates untried", count));
}

// On a device that only compiles: every µGraph's cheapest schedule, whatever the budget, then the
// others while it lasts.
void compile_candidates(Session& session) {
  auto begin = std::chrono::steady_clock::now();
  // The strategy puts off µGraphs that it has no hope for; here each has its turn first.
  std::set<std::size_t> seen;
  std::deque<CandidateState> others;
  while (auto proposal = session.strategy->next()) {
    CandidateState candidate = candidate_of(session, *proposal);
    (seen.insert(candidate.graph).second ? session.candidates : others)
        .push_back(std::move(candidate));
  }
  const std::size_t must = session.candidates.size();
  std::move(others.begin(), others.end(), std::back_inserter(session.candidates));
  session.progress.begin("compiling", static_cast<std::int64_t>(session.candidates.size()));
  // Nothing is timed afterwards; what is being compiled at the deadline is finished.
  const double deadline = session.elapsed() + kCompileShare * session.left();
  Compiler compiler(session);
  std::mutex mutex;
  std::vector<char> tried(session.candidates.size(), 0);
  // Workers take the next candidate in order: what the deadline leaves out is the least promising.
  std::atomic<std::size_t> next{0};
  tbb::parallel_for(0, tbb::this_task_arena::max_concurrency(), [&](int) {
    for (std::size_t i = next++; i < session.candidates.size(); i = next++) {
      if (session.stop.stop_requested() || (i >= must && session.elapsed() > deadline)) return;
      compiler.compile(session.candidates[i]);
      tried[i] = 1;
      std::lock_guard lock(mutex);
      session.progress.advance();
    }
  });

  std::deque<CandidateState> kept;
  session.database->transaction([&] {
    for (std::size_t i = 0; i < session.candidates.size(); ++i) {
      CandidateState& candidate = session.candidates[i];
      if (!tried[i]) continue;
      // A kernel that spills is kept only where its µGraph has no other.
      if (candidate.status == Status::kOk && candidate.spills()) candidate.estimated_us *= 4;
      record_compiled(session, candidate);
      kept.push_back(std::move(candidate));
    }
  });
  const std::size_t left_out = session.candidates.size() - kept.size();
  note_left_out(session, left_out);
  session.cut_off = session.cut_off || left_out > 0;
  session.candidates = std::move(kept);
  session.progress.end(fmt::format("{} candidates ready, {} failed", session.report.search.compiled,
                                   session.candidates.size() - session.report.search.compiled),
                       seconds_since(begin));
}

void rank_by_estimate(Session& session) {
  session.database->transaction([&] {
    for (CandidateState& candidate : session.candidates) {
      if (candidate.status != Status::kOk) continue;
      candidate.timing.median_us = candidate.estimated_us;
      candidate.timing.protocol = "cost model";
      store_measurement(session, candidate, "estimated");
    }
  });
}

}  // namespace tenon::optimizer
