// A session that was interrupted goes on: what it measured is taken as it is.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "optimizer/session.h"

namespace tenon::optimizer {

namespace {

std::string first_word(const std::string& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

// When a process started, in ticks since boot: with its id it names a process for good. Empty when
// there is none.
std::string start_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  // The second field, the command, is in parentheses and may hold anything; start time is the 22nd.
  std::size_t at = text.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  if (at == std::string::npos) return "";
  return text.substr(at + 1, text.find(' ', at + 1) - at - 1);
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

const char* const kBootId = "/proc/sys/kernel/random/boot_id";

}  // namespace

std::string process_identity() {
  const std::string process = std::to_string(getpid());
  return fmt::format("{} {} {} {}", host_name(), first_word(kBootId), process, start_of(process));
}

bool may_still_run(const std::string& identity) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= identity.size();) {
    const std::size_t end = std::min(identity.find(' ', at), identity.size());
    words.push_back(identity.substr(at, end - at));
    at = end + 1;
  }
  if (words.size() != 4) return false;       // nobody said that it runs
  if (words[0] != host_name()) return true;  // it cannot be seen from here
  if (words[1] != first_word(kBootId)) return false;
  return !words[3].empty() && start_of(words[2]) == words[3];
}

bool resume(Session& session, const cache::SessionRow& wanted) {
  if (session.options.retune) return false;
  auto found = session.database->unfinished_session(wanted.workload, wanted.environment,
                                                    wanted.options_json);
  if (!found || found->seed != wanted.seed) return false;
  if (found->stop_reason.empty() && may_still_run(found->owner)) return false;
  session.session_row = found->id;
  session.resumed_from = found->started;
  for (cache::MeasurementRow& row : session.database->measurements_of(found->id)) {
    const auto key = std::pair(row.plan, row.settings);
    session.known[key] = std::move(row);  // the newest stays
  }
  return true;
}

bool take_known(Session& session, CandidateState& candidate, const std::string& settings) {
  auto it = session.known.find({candidate.plan_row, settings});
  if (it == session.known.end()) return false;
  const cache::MeasurementRow& row = it->second;
  // What was disturbed is measured again.
  if (!row.decides) return false;
  measure::Timing timing;
  timing.status = measure::status_from_name(row.status);
  timing.reason = row.reason;
  timing.samples_us = row.samples_us;
  timing.median_us = row.time_us;
  timing.spread_us = row.spread_us;
  timing.protocol = row.protocol;
  timing.disturbance = row.disturbance;
  candidate.timing = std::move(timing);
  return true;
}

bool take_known_numeric(Session& session, CandidateState& candidate) {
  if (session.resumed_from.empty()) return false;
  auto stored = session.database->by_plan(candidate.plan_row);
  if (!stored) return false;
  for (auto row = stored->evidence.rbegin(); row != stored->evidence.rend(); ++row) {
    if (row->plan != candidate.plan_row || row->method != "numeric") continue;
    // Of this session, and on the same inputs.
    if (row->created < session.resumed_from) return false;
    const auto figures = nlohmann::json::parse(row->figures_json, nullptr, false);
    if (!figures.is_object() || figures.value("seed", std::uint64_t{0}) != session.options.seed ||
        !figures.contains("seed"))
      return false;
    candidate.numeric = {row->method,
                         verifier::verdict_from_name(row->verdict),
                         row->reason,
                         row->figures_json,
                         row->counterexample_json,
                         row->seconds};
    return true;
  }
  return false;
}

}  // namespace tenon::optimizer
