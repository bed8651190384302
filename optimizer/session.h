// What the steps of the pipeline share.
#pragma once

#include <chrono>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cache/database.h"
#include "codegen/codegen.h"
#include "ir/schedule.h"
#include "measure/measure.h"
#include "optimizer/optimize.h"
#include "runtime/device.h"
#include "search/strategy.h"

namespace tenon::optimizer {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct GraphState {
  ir::MuGraph graph;
  std::string id;
  std::string label;
  std::string text;
  verifier::Evidence random, z3, induction;
  bool accepted = false;  // random passed and nothing refuted it
  bool unfused = false;
  std::int64_t row = 0;  // in the database
};

struct CandidateState {
  std::size_t graph = 0;  // index in Session::graphs
  ir::Schedule schedule;
  double estimated_us = 0;
  codegen::Generated generated;
  // Shared: candidates of one µGraph often have the same prepare module.
  std::vector<std::shared_ptr<const codegen::Compiled>> compiled;
  measure::Status status = measure::Status::kOk;
  std::string reason;
  measure::Timing timing;  // of the last round it was in
  bool timed = false;
  verifier::Evidence numeric;
  bool has_numeric = false;
  std::int64_t plan_row = 0;
  std::string settings;   // of its last timing, as stored
  bool recorded = false;  // in the database, whatever its status

  bool spills() const;  // does one of its kernels?
  bool usable() const {
    return status == measure::Status::kOk && has_numeric &&
           numeric.verdict == verifier::Verdict::kPass;
  }
  measure::Candidate runnable() const;
};

struct Session {
  Session(const Options& o, Progress& p, std::stop_token s) : options(o), progress(p), stop(s) {}

  const Options& options;
  Progress& progress;
  std::stop_token stop;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  std::unique_ptr<runtime::Device> device;
  std::unique_ptr<cache::Database> database;
  std::unique_ptr<measure::Runner> runner;  // null on compile: devices
  std::vector<GraphState> graphs;
  std::unique_ptr<search::Strategy> strategy;
  std::deque<CandidateState> candidates;  // grows while others are compiled: places stay
  Report report;

  std::int64_t workload_row = 0, environment_row = 0, session_row = 0;
  // Where this goes on with a session that was interrupted: when that one started, and its
  // measurements by plan and settings.
  std::string resumed_from;
  std::map<std::pair<std::int64_t, std::string>, cache::MeasurementRow> known;

  double elapsed() const { return seconds_since(start); }
  double left() const { return options.budget_seconds - elapsed(); }
  // About how long the winner's and the reference's results take to be checked: what a budget must
  // leave for the end.
  double checking_seconds() const;
  bool executes() const { return device->info().executes; }
  // Should the step go on with more candidates? Not when the user interrupts or `deadline` (in
  // seconds since the start) has passed; then something is cut off, and the report says why.
  bool may_go_on(double deadline);
  bool cut_off = false;
};

// The steps, in the order in which optimize() takes them.
void identify(Session& session);  // rows of workload and environment
bool answer_from_database(Session& session);
void begin_session(Session& session);
void enumerate_graphs(Session& session);
void verify_graphs(Session& session);
void make_space(Session& session);
void compile_candidates(Session& session);  // of compile: devices
void rank_by_estimate(Session& session);
void explore_candidates(Session& session);  // of devices that execute: compiles and times
void screen_candidates(Session& session);
void accept_candidates(Session& session);
void measure_finalists(Session& session);
void choose_best(Session& session);
void end_session(Session& session);

// Generates and compiles one candidate (candidates.cpp); each distinct source once, however many
// threads ask for it. The candidate's status says when it did not succeed.
class Compiler {
 public:
  explicit Compiler(const Session& session) : session_(session) {}
  void compile(CandidateState& candidate);

 private:
  std::shared_ptr<const codegen::Compiled> compile_source(const codegen::Source& source);
  const Session& session_;
  std::mutex mutex_;
  std::map<std::string, std::shared_future<std::shared_ptr<const codegen::Compiled>>> made_;
};
CandidateState candidate_of(const Session& session, const search::Proposal& proposal);
// Stores what compiling gave and counts it.
void record_compiled(Session& session, CandidateState& candidate);
// A note of how many candidates the budget left untried, where there are any.
void note_left_out(Session& session, std::size_t count);
// How candidates are timed, with the hang limit that follows from the unfused form's time.
measure::Protocol protocol_of(const Session& session, int samples);
// May its time choose a winner, or was it disturbed?
bool decides(const Session& session, const measure::Timing& timing);
// Times `which` by `protocol`, records and stores the outcome of each (timing.cpp). An interruption
// leaves them as they are.
void time_batch(Session& session, const std::vector<CandidateState*>& which,
                const measure::Protocol& protocol);
// Pause of bursts before the final measurement, which takes the protocol's own.
inline constexpr double kShortIdleMs = 12;
// Candidates timed together, loaded at once.
inline constexpr std::size_t kBatch = 12;

// Going on with an interrupted session (resume.cpp). resume() looks for one that is like `wanted`
// and takes it over; the others take what it stored, where there is something.
bool resume(Session& session, const cache::SessionRow& wanted);
bool take_known(Session& session, CandidateState& candidate, const std::string& settings);
bool take_known_numeric(Session& session, CandidateState& candidate);
// This process for good, as sessions name their owner; and whether such a one may still run.
std::string process_identity();
bool may_still_run(const std::string& identity);

// Rows of the database for what the steps made (store.cpp).
void store_graph(Session& session, GraphState& graph);
void store_candidate(Session& session, CandidateState& candidate);
void store_numeric(Session& session, const CandidateState& candidate);
void store_measurement(Session& session, const CandidateState& candidate, const std::string& kind);
BestReport best_report(const cache::Stored& stored);
std::string tenon_version();

}  // namespace tenon::optimizer
