// Steps that use the device: screening by successive halving, numeric acceptance, and the
// final interleaved measurement.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "optimizer/session.h"

namespace tenon::optimizer {

using measure::Status;

namespace {

constexpr std::size_t kFinalists = 6;  // measured by the full protocol
constexpr int kAttempts = 3;           // at a measurement that nothing disturbs

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

measure::Protocol protocol_of(const Session& session, int samples) {
  measure::Protocol protocol;
  protocol.dependent_launch = session.options.dependent_launch;
  protocol.samples = samples;
  double unfused_us = 0;
  for (const CandidateState& c : session.candidates)
    if (c.timed && session.graphs[c.graph].unfused &&
        (unfused_us == 0 || c.timing.median_us < unfused_us))
      unfused_us = c.timing.median_us;
  protocol.hang_limit_s = measure::hang_limit_s(unfused_us);
  return protocol;
}

bool decides(const Session& session, const measure::Timing& timing) {
  return session.options.force || timing.disturbance.empty();
}

namespace {

// Takes the outcome of a timing, which stands in candidate.timing.
void outcome(Session& session, CandidateState& candidate) {
  candidate.timed = candidate.timing.status == Status::kOk;
  spdlog::debug("{}: {} {:.2f} us over {} samples", ir::print(candidate.schedule),
                measure::name(candidate.timing.status), candidate.timing.median_us,
                candidate.timing.samples_us.size());
  if (!candidate.timed) {
    candidate.status = candidate.timing.status;
    candidate.reason = candidate.timing.reason;
    ++session.report.search.failed[measure::name(candidate.status)];
  }
  session.progress.advance();
}

}  // namespace

void time_batch(Session& session, const std::vector<CandidateState*>& which,
                const measure::Protocol& protocol) {
  std::vector<CandidateState*> fresh;
  for (CandidateState* candidate : which) {
    candidate->settings = protocol.text();
    if (take_known(session, *candidate, candidate->settings))
      outcome(session, *candidate);
    else
      fresh.push_back(candidate);
  }
  if (fresh.empty()) return;
  std::vector<measure::Candidate> batch;
  for (const CandidateState* candidate : fresh) batch.push_back(candidate->runnable());
  std::vector<measure::Timing> timings;
  try {
    timings = session.runner->time(batch, protocol);
  } catch (const measure::Interrupted&) {
    session.cut_off = true;
    return;
  }
  session.database->transaction([&] {
    for (std::size_t j = 0; j < fresh.size(); ++j) {
      if (timings[j].not_run) continue;
      fresh[j]->timing = std::move(timings[j]);
      outcome(session, *fresh[j]);
      store_measurement(session, *fresh[j], "measured");
    }
  });
}

namespace {

std::vector<CandidateState*> at(Session& session, const std::vector<std::size_t>& places) {
  std::vector<CandidateState*> out;
  for (std::size_t i : places) out.push_back(&session.candidates[i]);
  return out;
}

// Candidates and samples of the rounds that follow exploration.
struct Round {
  std::size_t candidates;
  int samples;
};
constexpr Round kRounds[] = {{4 * kBatch, 7}, {kBatch, 15}};
// Of calls so long that each sample is a burst from a card at rest.
constexpr Round kLongRounds[] = {{kBatch, 5}, {kFinalists, 11}};
constexpr double kLongCallUs = 100;

}  // namespace

// Successive halving: more samples for the fastest, until finalists remain.
void screen_candidates(Session& session) {
  auto begin = std::chrono::steady_clock::now();
  session.progress.begin("screening", 0);
  const double left = session.left();
  const double end = session.device->info().target.is_host() ? 0 : session.checking_seconds();
  const double deadline = session.elapsed() + std::clamp(left - end, left / 8, left / 2);
  std::size_t timed = 0;
  const std::vector<std::size_t> ranked = running(session);
  const bool slow = !ranked.empty() && session.candidates[ranked[0]].timing.median_us > kLongCallUs;
  for (const Round& round : slow ? kLongRounds : kRounds) {
    std::vector<std::size_t> field = best_and_reference(session, round.candidates);
    measure::Protocol protocol = protocol_of(session, round.samples);
    protocol.idle_ms = kShortIdleMs;
    timed = field.size();
    for (std::size_t first = 0; first < field.size() && session.may_go_on(deadline);
         first += kBatch) {
      const std::size_t last = std::min(first + kBatch, field.size());
      time_batch(session,
                 at(session, {field.begin() + static_cast<std::ptrdiff_t>(first),
                              field.begin() + static_cast<std::ptrdiff_t>(last)}),
                 protocol);
    }
  }
  session.progress.end(fmt::format("the fastest {} timed again", timed), seconds_since(begin));
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
  const bool known = take_known_numeric(session, candidate);
  if (!known)
    candidate.numeric = session.runner->accept(candidate.runnable(), session.options.seed);
  candidate.has_numeric = true;
  if (!known) store_numeric(session, candidate);
  session.progress.advance();
  candidate.status = measure::status_of(candidate.numeric);
  if (candidate.status == Status::kOk) return;
  candidate.reason = candidate.numeric.reason;
  ++session.report.search.failed[measure::name(candidate.status)];
  if (!known) store_measurement(session, candidate, "measured");
  session.report.notes.push_back(fmt::format(
      "candidate '{}' {}: {}", ir::print(candidate.schedule),
      candidate.status == Status::kWrongResult ? "gives a wrong result" : "failed its acceptance",
      candidate.reason));
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
    if (enough && !session.may_go_on(session.options.budget_seconds * 0.93)) break;
    if (accepted > 0 && !enough && !reference && session.elapsed() > session.options.budget_seconds)
      continue;
    try {
      accept_one(session, session.candidates[i]);
    } catch (const measure::Interrupted&) {
      session.cut_off = true;
      session.report.notes.push_back(fmt::format(
          "the interruption left no time to check candidate '{}' ({:.2f} us); the same "
          "command goes on from here",
          ir::print(session.candidates[i].schedule), session.candidates[i].timing.median_us));
      break;
    }
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
  const std::size_t count = finalists.size();
  session.progress.begin("measuring finalists", static_cast<std::int64_t>(count));
  // What was disturbed is measured again; by then it may be quiet.
  for (int attempt = 0; attempt < kAttempts && !finalists.empty(); ++attempt) {
    if (session.stop.stop_requested()) break;  // the times of the screening stand
    time_batch(session, at(session, finalists), protocol_of(session, session.options.samples));
    std::erase_if(finalists, [&](std::size_t i) {
      const CandidateState& c = session.candidates[i];
      return c.status != Status::kOk || c.timing.disturbance.empty();
    });
  }
  // The database must not take the few samples of the screening for those that did not become
  // quiet.
  session.database->transaction([&] {
    for (const CandidateState& c : session.candidates)
      if (c.usable() && c.timed && !decides(session, c.timing))
        session.database->retract(session.session_row, c.plan_row);
  });
  session.progress.end(fmt::format("{} finalists", count), seconds_since(begin));
}

}  // namespace tenon::optimizer
