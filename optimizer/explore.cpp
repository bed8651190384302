// The longest step on a device that executes: candidates are compiled by many threads while
// others are timed, and the strategy learns from each time what to propose next.
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <set>
#include <thread>

#include "measure/statistics.h"
#include "optimizer/session.h"
#include "optimizer/untried.h"

namespace tenon::optimizer {

using measure::Status;

namespace {

constexpr int kScreeningSamples = 3;
// Part of the time left that goes to exploration; the rest re-measures, checks and decides.
constexpr double kShare = 0.68;
// Less where checking takes long, but some in any case.
constexpr double kLeastShare = 0.2;
constexpr double kScreening = 0.12;
// What is slower than the best by this factor at first sight is not sampled further.
constexpr double kDropAbove = 1.5;
// Compiled candidates that wait to be timed at most: what is proposed later knows more.
constexpr std::size_t kReady = 2 * kBatch;

class Explorer {
 public:
  explicit Explorer(Session& session)
      : session_(session), compiler_(session), deadline_(session.elapsed() + share(session)) {}

  ~Explorer() { finish(); }

  void run() {
    // On the host there is nothing to compile, and timing wants the cores for itself.
    if (!session_.device->info().target.is_host()) start_threads();
    for (;;) {
      std::vector<CandidateState*> batch = next_batch();
      if (batch.empty()) break;
      time(batch);
      if (over()) break;
    }
    finish();
    if (failure_) std::rethrow_exception(failure_);
    if (!session_.stop.stop_requested()) {
      const std::vector<CandidateState*> untried = take_untried(ready_, tried_, best_us_);
      if (!untried.empty()) time(untried);
    }
    // What was compiled but not timed is as if it had not been proposed.
    std::erase_if(session_.candidates, [](const CandidateState& c) { return !c.recorded; });
    const std::size_t left = session_.strategy->remaining() + ready_.size();
    note_left_out(session_, left);
    session_.cut_off = session_.cut_off || left > 0;
  }

 private:
  static double share(const Session& session) {
    const double left = session.left();
    const double end =
        session.device->info().target.is_host() ? 0 : 1.3 * session.checking_seconds();
    return std::clamp((1 - kScreening) * left - end, kLeastShare * left, kShare * left);
  }

  void start_threads() {
    const unsigned cores = std::thread::hardware_concurrency();
    for (unsigned i = 0; i + 1 < std::max(2u, cores); ++i)
      threads_.emplace_back([this] { compile_until_told(); });
  }

  void finish() {
    {
      std::lock_guard lock(mutex_);
      finished_ = true;
    }
    changed_.notify_all();
    threads_.clear();  // joins
  }

  bool over() const { return session_.stop.stop_requested() || session_.elapsed() > deadline_; }

  // Takes a proposal into the list of candidates; null when there is none now. The lock is held.
  CandidateState* propose() {
    auto proposal = session_.strategy->next();
    starved_ = !proposal;
    if (!proposal) return nullptr;
    session_.candidates.push_back(candidate_of(session_, *proposal));
    return &session_.candidates.back();
  }

  void compile_until_told() {
    std::unique_lock lock(mutex_);
    while (!finished_) {
      CandidateState* candidate = ready_.size() < kReady ? propose() : nullptr;
      if (!candidate) {
        changed_.wait(lock);
        continue;
      }
      ++compiling_;
      lock.unlock();
      std::exception_ptr failure;
      try {
        compiler_.compile(*candidate);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      --compiling_;
      if (failure) {
        failure_ = failure;
        finished_ = true;
      } else {
        ready_.push_back(candidate);
      }
      changed_.notify_all();
    }
  }

  // Up to a batch of compiled candidates; empty when nothing is left or the time is up.
  std::vector<CandidateState*> next_batch() {
    std::unique_lock lock(mutex_);
    while (ready_.size() < kBatch && !finished_ && !session_.stop.stop_requested()) {
      if (session_.elapsed() > deadline_ && (timed_any_ || !ready_.empty())) break;
      if (threads_.empty()) {
        CandidateState* candidate = propose();
        if (!candidate) break;
        compiler_.compile(*candidate);
        ready_.push_back(candidate);
      } else {
        // Nobody compiles and there was nothing to propose: only further times can change that.
        if (compiling_ == 0 && starved_) break;
        changed_.wait_for(lock, std::chrono::milliseconds(50));
      }
    }
    std::vector<CandidateState*> batch;
    while (batch.size() < kBatch && !ready_.empty()) {
      batch.push_back(ready_.front());
      ready_.pop_front();
    }
    changed_.notify_all();
    return batch;
  }

  void time(const std::vector<CandidateState*>& batch) {
    std::vector<CandidateState*> runnable;
    session_.database->transaction([&] {
      for (CandidateState* candidate : batch) {
        // No kernel that spills is ever chosen: every µGraph has schedules that do not.
        if (candidate->status == Status::kOk && candidate->spills()) {
          candidate->status = Status::kUnsupported;
          candidate->reason = "spills registers to local memory";
        }
        record_compiled(session_, *candidate);
        if (candidate->status != Status::kOk) continue;
        runnable.push_back(candidate);
      }
    });
    measure::Protocol protocol = protocol_of(session_, kScreeningSamples);
    protocol.screening = true;
    protocol.idle_ms = kShortIdleMs;
    protocol.drop_above_us = best_us_ * kDropAbove;
    time_batch(session_, runnable, protocol);
    std::lock_guard lock(mutex_);
    for (CandidateState* candidate : batch) {
      timed_any_ = timed_any_ || candidate->timed;
      tried_.insert(candidate->graph);
      std::optional<double> us;
      if (candidate->timed) us = candidate->timing.median_us;
      if (us && (best_us_ == 0 || *us < best_us_)) best_us_ = *us;
      session_.strategy->observe(
          {candidate->graph, proposed(candidate->schedule), candidate->estimated_us}, us);
    }
    starved_ = false;
    changed_.notify_all();
  }

  // The schedule as the strategy knows it: how launches follow each other is not its business.
  static ir::Schedule proposed(ir::Schedule schedule) {
    schedule.dependent_launch = false;
    return schedule;
  }

  Session& session_;
  Compiler compiler_;
  const double deadline_;
  double best_us_ = 0;           // the fastest so far; 0: none
  std::set<std::size_t> tried_;  // µGraphs of which a candidate was looked at

  std::mutex mutex_;  // of the strategy, the list of candidates and what follows
  std::condition_variable changed_;
  std::deque<CandidateState*> ready_;
  std::size_t compiling_ = 0;
  bool finished_ = false, starved_ = false, timed_any_ = false;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;
};

}  // namespace

void explore_candidates(Session& session) {
  auto begin = std::chrono::steady_clock::now();
  session.progress.begin("exploring", static_cast<std::int64_t>(session.strategy->remaining()));
  Explorer(session).run();
  std::vector<double> estimated, measured;
  for (const CandidateState& c : session.candidates) {
    if (!c.timed) continue;
    estimated.push_back(c.estimated_us);
    measured.push_back(c.timing.median_us);
  }
  session.report.search.measured += measured.size();
  session.report.search.rank_correlation = measure::rank_correlation(estimated, measured);
  session.progress.end(fmt::format("{} candidates compiled, {} timed",
                                   session.report.search.compiled, session.report.search.measured),
                       seconds_since(begin));
}

}  // namespace tenon::optimizer
