// Steps that make candidates: schedules for every accepted µGraph, code, cubins.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <mutex>

#include "optimizer/session.h"
#include "search/schedule_space.h"

namespace tenon::optimizer {

using measure::Status;

measure::Candidate CandidateState::runnable() const {
  measure::Candidate out{generated.plan, {}};
  for (const auto& module : compiled) out.cubins.push_back(module->cubin);
  return out;
}

void make_candidates(Session& session) {
  auto begin = std::chrono::steady_clock::now();
  session.progress.begin("binding schedules", 0);
  const ir::Target& target = session.device->info().target;
  for (std::size_t g = 0; g < session.graphs.size(); ++g) {
    if (!session.graphs[g].accepted) continue;
    std::string why;
    auto ranked = search::schedules(session.graphs[g].graph, session.options.workload, target,
                                    session.options.schedules_per_graph, &why);
    if (ranked.empty()) {
      ++session.report.search.not_lowerable[why.empty() ? "no legal schedule" : why];
      continue;
    }
    ++session.report.search.lowerable;
    for (search::RankedSchedule& r : ranked) {
      CandidateState candidate;
      candidate.graph = g;
      candidate.schedule = std::move(r.schedule);
      candidate.schedule.dependent_launch = session.options.dependent_launch && !target.is_host();
      candidate.estimated_us = r.estimated_us;
      session.candidates.push_back(std::move(candidate));
    }
  }
  // Every µGraph's best schedule first, so that no form goes untried, then all others by estimate.
  std::vector<char> later(session.candidates.size(), 0);
  for (std::size_t i = 1; i < later.size(); ++i)
    later[i] = session.candidates[i].graph == session.candidates[i - 1].graph;
  std::vector<std::size_t> order(session.candidates.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(later[a], session.candidates[a].estimated_us) <
           std::pair(later[b], session.candidates[b].estimated_us);
  });
  std::vector<CandidateState> sorted;
  for (std::size_t i : order) sorted.push_back(std::move(session.candidates[i]));
  session.candidates = std::move(sorted);
  session.progress.end(fmt::format("{} candidates of {} µGraphs", session.candidates.size(),
                                   session.report.search.lowerable),
                       seconds_since(begin));
}

namespace {

// Compiles each distinct source once, however many threads ask for it.
class Compiler {
 public:
  explicit Compiler(const ir::Target& target) : target_(target) {}

  std::shared_ptr<const codegen::Compiled> compile(const codegen::Source& source) {
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
      promise.set_value(
          std::make_shared<const codegen::Compiled>(codegen::compile(source, target_)));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
    return known.get();
  }

 private:
  const ir::Target& target_;
  std::mutex mutex_;
  std::map<std::string, std::shared_future<std::shared_ptr<const codegen::Compiled>>> made_;
};

void compile_one(Session& session, Compiler& compiler, CandidateState& candidate) {
  const ir::Target& target = session.device->info().target;
  try {
    candidate.generated = codegen::generate(session.graphs[candidate.graph].graph,
                                            candidate.schedule, session.options.workload, target);
  } catch (const codegen::Rejected& rejected) {
    candidate.status = Status::kUnsupported;
    candidate.reason = rejected.what();
    spdlog::info("{} is rejected: {}", ir::print(candidate.schedule), candidate.reason);
    return;
  }
  for (std::size_t i = 0; i < candidate.generated.sources.size(); ++i) {
    candidate.compiled.push_back(compiler.compile(candidate.generated.sources[i]));
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

bool spills(const CandidateState& candidate) {
  for (const auto& module : candidate.compiled)
    for (const codegen::KernelResources& r : module->resources)
      if (r.spill_bytes > 0) return true;
  return false;
}

}  // namespace

void compile_candidates(Session& session) {
  auto begin = std::chrono::steady_clock::now();
  session.progress.begin("compiling", static_cast<std::int64_t>(session.candidates.size()));
  // Half of what is left is for compiling; the first round (one schedule of every µGraph) always
  // is.
  const double deadline = session.elapsed() + std::max(1.0, session.left() / 2);
  const std::size_t must = session.report.search.lowerable;
  Compiler compiler(session.device->info().target);
  std::mutex mutex;
  std::vector<char> tried(session.candidates.size(), 0);
  // Workers take the next candidate in order: what the deadline leaves out is the least promising.
  std::atomic<std::size_t> next{0};
  tbb::parallel_for(0, tbb::this_task_arena::max_concurrency(), [&](int) {
    for (std::size_t i = next++; i < session.candidates.size(); i = next++) {
      if (session.stop.stop_requested() || (i >= must && session.elapsed() > deadline)) return;
      compile_one(session, compiler, session.candidates[i]);
      tried[i] = 1;
      std::lock_guard lock(mutex);
      session.progress.advance();
    }
  });

  std::vector<CandidateState> kept;
  session.database->transaction([&] {
    for (std::size_t i = 0; i < session.candidates.size(); ++i) {
      CandidateState& candidate = session.candidates[i];
      if (!tried[i]) continue;
      // A kernel that spills is kept only where its µGraph has no other.
      if (candidate.status == Status::kOk && spills(candidate)) candidate.estimated_us *= 4;
      store_candidate(session, candidate);
      if (candidate.status == Status::kOk) {
        ++session.report.search.compiled;
      } else {
        ++session.report.search.failed[measure::name(candidate.status)];
        store_measurement(session, candidate, "measured");
      }
      kept.push_back(std::move(candidate));
    }
  });
  std::size_t left_out = session.candidates.size() - kept.size();
  session.candidates = std::move(kept);
  if (left_out > 0)
    session.report.notes.push_back(
        fmt::format("the budget left {} candidates uncompiled", left_out));
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
