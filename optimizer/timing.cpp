// Steps that use the device: screening by successive halving, numeric acceptance, and the
// final interleaved measurement.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "optimizer/session.h"

namespace tenon::optimizer {

using measure::Status;

namespace {

constexpr std::size_t kBatch = 12;     // candidates interleaved and loaded at once
constexpr std::size_t kFinalists = 6;  // measured by the full protocol
constexpr double kNever = 1e300;       // a deadline that does not pass

// Candidates still in the race, fastest first; those without a time keep their order behind.
std::vector<std::size_t> running(const Session& session) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < session.candidates.size(); ++i)
    if (session.candidates[i].status == Status::kOk) out.push_back(i);
  std::stable_sort(out.begin(), out.end(), [&](std::size_t a, std::size_t b) {
    const CandidateState& x = session.candidates[a];
    const CandidateState& y = session.candidates[b];
    if (x.timed != y.timed) return x.timed;
    return x.timed && x.timing.median_us < y.timing.median_us;
  });
  return out;
}

bool is_reference(const Session& session, std::size_t i) {
  return session.graphs[session.candidates[i].graph].unfused;
}

// Times `which` and records the outcome of each.
void time_batch(Session& session, const std::vector<std::size_t>& which,
                const measure::Protocol& protocol) {
  std::vector<measure::Candidate> batch;
  for (std::size_t i : which) batch.push_back(session.candidates[i].runnable());
  std::vector<measure::Timing> timings = session.runner->time(batch, protocol);
  session.database->transaction([&] {
    for (std::size_t j = 0; j < which.size(); ++j) {
      CandidateState& candidate = session.candidates[which[j]];
      candidate.timing = std::move(timings[j]);
      candidate.timed = candidate.timing.status == Status::kOk;
      spdlog::debug("{}: {} {:.2f} us over {} samples", ir::print(candidate.schedule),
                    measure::name(candidate.timing.status), candidate.timing.median_us,
                    candidate.timing.samples_us.size());
      if (!candidate.timed) {
        candidate.status = candidate.timing.status;
        candidate.reason = candidate.timing.reason;
        ++session.report.search.failed[measure::name(candidate.status)];
      }
      store_measurement(session, candidate, "measured");
      session.progress.advance();
    }
  });
}

// The fastest `count`, with the fastest unfused candidate always among them: it is the reference.
std::vector<std::size_t> best_and_reference(const Session& session, std::size_t count) {
  std::vector<std::size_t> out;
  bool have_reference = false;
  for (std::size_t i : running(session)) {
    if (!session.candidates[i].timed) break;
    bool reference = is_reference(session, i);
    if (out.size() < count || (reference && !have_reference)) out.push_back(i);
    have_reference = have_reference || reference;
  }
  return out;
}

}  // namespace

void screen_candidates(Session& session) {
  auto begin = std::chrono::steady_clock::now();
  std::vector<std::size_t> field = running(session);
  session.progress.begin("screening", static_cast<std::int64_t>(field.size()));
  measure::Protocol protocol;
  protocol.dependent_launch = session.options.dependent_launch;
  // Successive halving: few samples for all, more for the faster third, until finalists remain.
  // A third of the time left is kept for acceptance and the final measurement.
  const double deadline = session.elapsed() + session.left() * 2 / 3;
  for (int samples = 3; !field.empty(); samples *= 3) {
    protocol.samples = samples;
    for (std::size_t at = 0; at < field.size(); at += kBatch) {
      // The first batch is always timed, unless the user interrupts.
      if (!session.may_go_on(at == 0 && samples == 3 ? kNever : deadline)) break;
      auto first = field.begin() + static_cast<std::ptrdiff_t>(at);
      auto last = field.begin() + static_cast<std::ptrdiff_t>(std::min(at + kBatch, field.size()));
      time_batch(session, {first, last}, protocol);
    }
    if (field.size() <= 2 * kFinalists || !session.may_go_on(deadline)) break;
    field = best_and_reference(session, std::max(2 * kFinalists, field.size() / 3));
  }
  for (const CandidateState& c : session.candidates) session.report.search.measured += c.timed;
  session.progress.end(fmt::format("{} candidates timed", session.report.search.measured),
                       seconds_since(begin));
}

namespace {

// The order in which results are checked: the fastest, then the reference, then the others by time.
std::vector<std::size_t> acceptance_order(const Session& session) {
  std::vector<std::size_t> order;
  for (std::size_t i : running(session))
    if (session.candidates[i].timed) order.push_back(i);
  auto reference = std::find_if(order.begin(), order.end(),
                                [&](std::size_t i) { return is_reference(session, i); });
  if (reference != order.end() && reference != order.begin())
    std::rotate(order.begin() + 1, reference, reference + 1);
  return order;
}

void accept_one(Session& session, CandidateState& candidate) {
  candidate.numeric = session.runner->accept(candidate.runnable(), session.options.seed);
  candidate.has_numeric = true;
  store_numeric(session, candidate);
  session.progress.advance();
  if (candidate.numeric.verdict == verifier::Verdict::kPass) return;
  candidate.status = Status::kWrongResult;
  candidate.reason = candidate.numeric.reason;
  ++session.report.search.failed[measure::name(candidate.status)];
  store_measurement(session, candidate, "measured");
  session.report.notes.push_back(fmt::format("candidate '{}' gives a wrong result: {}",
                                             ir::print(candidate.schedule), candidate.reason));
}

}  // namespace

void accept_candidates(Session& session) {
  auto begin = std::chrono::steady_clock::now();
  session.progress.begin("checking results", static_cast<std::int64_t>(kFinalists));
  std::size_t accepted = 0;
  bool have_reference = false;
  for (std::size_t i : acceptance_order(session)) {
    const bool reference = is_reference(session, i);
    if (accepted >= kFinalists && (have_reference || !reference)) continue;
    // A winner and the reference are checked whatever the budget; more finalists while it lasts.
    const bool enough = accepted > 0 && (have_reference || session.stop.stop_requested());
    if (enough && !session.may_go_on(session.options.budget_seconds * 0.85)) break;
    if (accepted > 0 && !enough && !reference && session.elapsed() > session.options.budget_seconds)
      continue;
    accept_one(session, session.candidates[i]);
    if (session.candidates[i].status != Status::kOk) continue;
    ++accepted;
    have_reference = have_reference || reference;
  }
  session.progress.end(fmt::format("{} candidates accepted", accepted), seconds_since(begin));
}

void measure_finalists(Session& session) {
  auto begin = std::chrono::steady_clock::now();
  std::vector<std::size_t> finalists;
  for (std::size_t i : best_and_reference(session, session.candidates.size()))
    if (session.candidates[i].usable()) finalists.push_back(i);
  session.progress.begin("measuring finalists", static_cast<std::int64_t>(finalists.size()));
  if (!finalists.empty()) {
    measure::Protocol protocol;
    protocol.dependent_launch = session.options.dependent_launch;
    protocol.samples = session.options.samples;
    time_batch(session, finalists, protocol);
  }
  session.progress.end(fmt::format("{} finalists", finalists.size()), seconds_since(begin));
}

}  // namespace tenon::optimizer
