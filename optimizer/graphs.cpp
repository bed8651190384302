// Steps that make µGraphs: enumeration, and the evidence that each equals its program.
#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "ir/error.h"
#include "optimizer/session.h"

namespace tenon::optimizer {

using verifier::Verdict;

namespace {

// TENON_DUMP_DIR: every distinct µGraph in the text form, named by its identity.
void dump_graphs(const std::vector<GraphState>& graphs) {
  const char* folder = std::getenv("TENON_DUMP_DIR");
  if (folder == nullptr || *folder == '\0') return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const GraphState& state : graphs) {
    std::ofstream out(std::filesystem::path(folder) / (state.id.substr(0, 12) + ".mugraph"));
    out << "# " << state.label << "\n" << state.text;
    if (!out) throw UserError("TENON_DUMP_DIR", folder, "a folder that can be written");
  }
}

// --dump-search: all of them in one file, each below a comment with its identity and its form.
void dump_search(const std::string& path, const std::vector<GraphState>& graphs) {
  if (path.empty()) return;
  std::ofstream out(path);
  for (const GraphState& state : graphs)
    out << "# " << state.id << "  " << state.label << "\n" << state.text << "\n";
  out.flush();
  if (!out) throw UserError("--dump-search", path, "a file that can be written");
}

}  // namespace

void enumerate_graphs(Session& session) {
  session.progress.begin("enumerating µGraphs", 0);
  auto begin = std::chrono::steady_clock::now();
  search::Options options = session.options.search;
  options.seed = session.options.seed;
  // A third of the budget at most: what is found must still be verified and measured.
  double share = session.options.budget_seconds / 3;
  if (options.budget_seconds == 0 || options.budget_seconds > share) options.budget_seconds = share;
  search::Result result =
      search::enumerate(session.options.workload.program, options, session.stop);

  SearchReport& report = session.report.search;
  report.enumerated = result.counters.enumerated;
  report.pruned_by = result.counters.pruned;
  for (const auto& [rule, count] : result.counters.pruned) report.pruned += count;
  report.deduplicated = result.counters.deduplicated;
  report.distinct = result.graphs.size();
  report.seconds = result.counters.seconds;
  for (const std::string& cut : result.counters.cuts)
    session.report.notes.push_back("the search was cut off: " + cut);

  int unfused = search::find_unfused(result.graphs);
  for (std::size_t i = 0; i < result.graphs.size(); ++i) {
    GraphState state;
    state.graph = std::move(result.graphs[i]);
    state.id = ir::identity(state.graph);
    state.label = ir::describe(state.graph);
    state.text = ir::print(state.graph);
    state.unfused = static_cast<int>(i) == unfused;
    session.graphs.push_back(std::move(state));
  }
  dump_graphs(session.graphs);
  dump_search(session.options.dump_search, session.graphs);
  session.progress.end(fmt::format("{} distinct µGraphs from {} partial ones",
                                   session.graphs.size(), report.enumerated),
                       seconds_since(begin));
}

void verify_graphs(Session& session) {
  session.progress.begin("verifying", static_cast<std::int64_t>(session.graphs.size()));
  auto begin = std::chrono::steady_clock::now();
  const ir::Program& program = session.options.workload.program;
  const double deadline = session.elapsed() + session.options.budget_seconds / 3;
  std::mutex progress_mutex;
  // Why no proof is tried; empty when one may be.
  auto obstacle = [&](const GraphState& state) -> verifier::Evidence {
    if (state.random.verdict != Verdict::kPass)
      return {"", Verdict::kUnknown, "not tried: the random test did not pass", "{}", "", 0};
    if (session.stop.stop_requested() || session.elapsed() >= deadline)
      return {"", Verdict::kTimeout, "not tried: the budget for proofs was spent", "{}", "", 0};
    return {};
  };
  auto prove = [&](GraphState& state, auto check, const char* method) {
    verifier::Evidence evidence = obstacle(state);
    if (evidence.reason.empty()) {
      verifier::Z3Options z3;
      const double left = deadline - session.elapsed();
      z3.timeout_ms = std::max(1, std::min(z3.timeout_ms, static_cast<int>(left * 1000)));
      evidence = check(program, state.graph, z3);
    }
    evidence.method = method;
    return evidence;
  };
  // Induction takes milliseconds, a bounded proof may take seconds: what the first says of every
  // µGraph is known before the second spends the budget.
  tbb::parallel_for(std::size_t{0}, session.graphs.size(), [&](std::size_t i) {
    GraphState& state = session.graphs[i];
    verifier::RandomOptions random;
    random.seed = session.options.seed + i;
    state.random = verifier::random_test(program, state.graph, random);
    state.induction = prove(state, verifier::induction_check, "induction");
  });
  tbb::parallel_for(std::size_t{0}, session.graphs.size(), [&](std::size_t i) {
    GraphState& state = session.graphs[i];
    state.z3 = prove(state, verifier::z3_check, "z3");
    state.accepted =
        state.random.verdict == Verdict::kPass && state.z3.verdict != Verdict::kRefuted;
    std::lock_guard lock(progress_mutex);
    session.progress.advance();
  });

  std::size_t proved = 0, unbounded = 0;
  session.database->transaction([&] {
    for (GraphState& state : session.graphs) store_graph(session, state);
  });
  for (const GraphState& state : session.graphs) {
    session.report.search.verified += state.accepted;
    proved += state.z3.verdict == Verdict::kProved || state.induction.verdict == Verdict::kProved;
    unbounded += state.induction.verdict == Verdict::kProved;
    if (!state.accepted)
      session.report.notes.push_back(fmt::format(
          "µGraph {} is not accepted: {}", state.id.substr(0, 12),
          state.random.verdict == Verdict::kPass ? state.z3.reason : state.random.reason));
  }
  session.progress.end(
      fmt::format("{} of {} pass the random test, {} are proved, {} of them for every extent",
                  session.report.search.verified, session.graphs.size(), proved, unbounded),
      seconds_since(begin));
}

}  // namespace tenon::optimizer
