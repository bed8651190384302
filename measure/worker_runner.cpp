// The Runner over a worker process: asks, waits, names the culprit, replaces the worker.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>

#include "ir/error.h"
#include "measure/contender.h"
#include "measure/worker.h"

namespace tenon::measure {

namespace {

// How a request that got no answer ended.
struct Death {
  bool hung = false;
  std::int64_t candidate = -1;  // that ran; -1: none
  std::string how;
};

class WorkerRunner final : public Runner {
 public:
  WorkerRunner(std::string device_id, const ir::Workload& workload, std::stop_token stop,
               const WorkerOptions& options)
      : device_id_(std::move(device_id)),
        workload_(workload),
        stop_(std::move(stop)),
        options_(options),
        program_(options.program.empty() ? find_worker() : options.program) {
    start();
  }

  std::vector<Timing> time(const std::vector<Candidate>& candidates,
                           const Protocol& protocol) override {
    hang_limit_s_ = protocol.hang_limit_s;
    std::vector<Timing> timings(candidates.size());
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < candidates.size(); ++i) left.push_back(i);
    // Where a worker died and no candidate can be named, each is tried alone.
    bool alone = false;
    while (!left.empty()) {
      const std::vector<std::size_t> batch(left.begin(), alone ? left.begin() + 1 : left.end());
      std::vector<bool> done(candidates.size(), false);
      const auto death = time_batch(candidates, batch, protocol, timings, done);
      if (death) {
        if (death->candidate >= 0 || batch.size() == 1) {
          const std::size_t at =
              death->candidate < 0
                  ? 0
                  : std::min(static_cast<std::size_t>(death->candidate), batch.size() - 1);
          blame(timings[batch[at]], *death);
          done[batch[at]] = true;
        } else {
          alone = true;
        }
      } else if (std::find(done.begin(), done.end(), true) == done.end()) {
        alone = true;  // a device was lost without a culprit
        if (batch.size() == 1) {
          timings[batch[0]].not_run = false;
          done[batch[0]] = true;
        }
      }
      std::erase_if(left, [&](std::size_t i) { return done[i]; });
    }
    return timings;
  }

  verifier::Evidence accept(const Candidate& candidate, std::uint64_t seed) override {
    Writer to;
    write(to, candidate);
    to.integer(static_cast<std::int64_t>(seed));
    to.real(hang_limit_s_);
    Frame reply;
    auto death = ask(Message::kAccept, to.bytes(), Message::kEvidence, options_.grace_s, reply);
    if (death) {
      verifier::Evidence evidence;
      evidence.method = "numeric";
      evidence.verdict = verifier::Verdict::kUnknown;
      Timing told;
      blame(told, *death);
      evidence.reason = name(told.status) + ": " + told.reason;
      evidence.figures = "{}";
      return evidence;
    }
    Reader from(reply.content);
    const bool lost = from.integer() != 0;
    verifier::Evidence evidence = read_evidence(from);
    if (lost) worker_.reset();
    return evidence;
  }

 private:
  void start() {
    const double begin = now_s();
    worker_ = std::make_unique<WorkerProcess>(program_);
    Writer to;
    to.text(device_id_);
    write(to, workload_);
    if (!worker_->send(Message::kOpen, to.bytes())) failed_start(worker_->end());
    Frame reply;
    while (!worker_->readable()) {
      // Starting takes a moment; only where it takes longer does an interruption cut it short.
      if (stop_.stop_requested() && now_s() - begin > options_.grace_s) interrupt();
      if (now_s() - begin > options_.start_limit_s) {
        worker_.reset();
        failed_start(
            fmt::format("it did not open {} within {:.0f} s", device_id_, options_.start_limit_s));
      }
    }
    if (!worker_->receive(reply)) failed_start(worker_->end());
    if (reply.message != Message::kOpened) rethrow(reply);
    spdlog::debug("worker for {} is ready after {:.2f} s", device_id_, now_s() - begin);
  }

  [[noreturn]] void failed_start(const std::string& why) {
    worker_.reset();
    throw DeviceError(fmt::format("worker '{}' does not start: {}", program_, why));
  }

  [[noreturn]] void interrupt() {
    worker_.reset();
    throw Interrupted("the session was interrupted");
  }

  // Sends a request and waits for its answer. Returns how the worker died where it did; throws
  // Interrupted, and what the worker threw.
  std::optional<Death> ask(Message message, const std::string& content, Message wanted,
                           double grace_s, Frame& reply) {
    if (!worker_) start();
    if (!worker_->send(message, content)) return died(false);
    double stopped = 0;
    while (!worker_->readable()) {
      if (stop_.stop_requested()) {
        if (stopped == 0) stopped = stop_seen_ > 0 ? stop_seen_ : stop_seen_ = now_s();
        if (now_s() - stopped >= grace_s) interrupt();
      }
      if (worker_->board().overdue()) return died(true);
    }
    try {
      if (!worker_->receive(reply)) return died(false);
      if (reply.message == Message::kFailed) rethrow(reply);
      if (reply.message != wanted) throw Malformed();
    } catch (const Malformed&) {
      return died(false);
    }
    return std::nullopt;
  }

  Death died(bool hung) {
    Death death;
    death.hung = hung;
    death.candidate = worker_->board().running();
    death.how = worker_->end();
    worker_.reset();
    spdlog::info("worker for {} {}: candidate {}", device_id_,
                 hung ? "was killed for a hang" : death.how, death.candidate);
    return death;
  }

  [[noreturn]] void rethrow(const Frame& reply) {
    Reader from(reply.content);
    const auto failure = static_cast<Failure>(from.integer());
    const std::string sentence = from.text();
    switch (failure) {
      case Failure::kUser:
        throw UserError(sentence);
      case Failure::kDevice:
        worker_.reset();
        throw DeviceError(sentence);
      case Failure::kInternal:
        break;
    }
    worker_.reset();
    throw InternalError("in the worker: " + sentence);
  }

  // Times the candidates `batch` names and fills in those that were run.
  std::optional<Death> time_batch(const std::vector<Candidate>& candidates,
                                  const std::vector<std::size_t>& batch, const Protocol& protocol,
                                  std::vector<Timing>& timings, std::vector<bool>& done) {
    Writer to;
    write(to, protocol);
    to.integer(static_cast<std::int64_t>(batch.size()));
    for (std::size_t i : batch) write(to, candidates[i]);
    Frame reply;
    if (auto death = ask(Message::kTime, to.bytes(), Message::kTimings, 0, reply)) return death;
    try {
      Reader from(reply.content);
      const bool lost = from.integer() != 0;
      if (from.count(8) != batch.size()) throw Malformed();
      for (std::size_t i : batch) timings[i] = read_timing(from);
      from.end();
      for (std::size_t i : batch) done[i] = !timings[i].not_run;
      if (lost) worker_.reset();
      return std::nullopt;
    } catch (const Malformed&) {
      return died(false);
    }
  }

  void blame(Timing& timing, const Death& death) const {
    timing = Timing();
    timing.status = death.hung ? Status::kTimeout : Status::kCrashed;
    timing.reason = death.hung ? fmt::format(
                                     "no end within the limit; the unfused form's time "
                                     "allows {:.3g} s",
                                     hang_limit_s_)
                               : "its process " + death.how;
  }

  std::string device_id_;
  ir::Workload workload_;
  std::stop_token stop_;
  WorkerOptions options_;
  std::string program_;
  double hang_limit_s_ = Protocol().hang_limit_s;
  double stop_seen_ = 0;
  std::unique_ptr<WorkerProcess> worker_;
};

}  // namespace

std::unique_ptr<Runner> make_worker_runner(const std::string& device_id,
                                           const ir::Workload& workload, std::stop_token stop,
                                           const WorkerOptions& options) {
  return std::make_unique<WorkerRunner>(device_id, workload, std::move(stop), options);
}

}  // namespace tenon::measure
