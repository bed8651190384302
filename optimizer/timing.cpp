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

void accept_candidates(Session& session) {
  auto begin = std::chrono::steady_clock::now();
  session.progress.begin("checking results", static_cast<std::int64_t>(kFinalists));
  std::size_t accepted = 0;
  bool reference_tried = false;
  for (std::size_t i : running(session)) {
    CandidateState& candidate = session.candidates[i];
    if (!candidate.timed) break;
    bool reference = is_reference(session, i);
    if (accepted >= kFinalists && (reference_tried || !reference)) continue;
    if (accepted > 0 &&
        !session.may_go_on(reference_tried ? session.options.budget_seconds : kNever))
      break;
    candidate.numeric = session.runner->accept(candidate.runnable(), session.options.seed);
    candidate.has_numeric = true;
    reference_tried = reference_tried || reference;
    store_numeric(session, candidate);
    if (candidate.numeric.verdict == verifier::Verdict::kPass) {
      ++accepted;
    } else {
      candidate.status = Status::kWrongResult;
      candidate.reason = candidate.numeric.reason;
      ++session.report.search.failed[measure::name(candidate.status)];
      store_measurement(session, candidate, "measured");
      session.report.notes.push_back(fmt::format("candidate '{}' gives a wrong result: {}",
                                                 ir::print(candidate.schedule), candidate.reason));
    }
    session.progress.advance();
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
