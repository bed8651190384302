// Reading winners: the rules by which a stored plan answers a query.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/connection.h"
#include "cache/database.h"

namespace tenon::cache {

// A plan that passes the structural conditions of a query, with the measurement that decides.
struct Candidate {
  std::int64_t plan = 0;
  std::int64_t mugraph = 0;
  std::int64_t tuned_m = 0;  // the m it was tuned at
  std::int64_t measurement = 0;
  std::string kind, status, reason;
  double time_us = 0;  // 0: none
  std::string stale;   // why the measurement is not fresh; empty when it is
  std::string program_sha256;
  std::string disturbance;  // of the measurement
  bool decides = true;
};

// Is there evidence that `plan` of `mugraph` is right? Empty when it is usable, else a clause that
// says what is missing. Estimated plans cannot have been compared on a device: for them only the
// random test counts.
std::string evidence_problem(Connection& connection, const Candidate& candidate);

// A candidate for the plan in the row: its deciding measurement under `query`.
void read_measurement(Connection& connection, const Query& query, Candidate& candidate);

// May the candidate's measurement decide at all: status ok, a positive finite time, a kind that
// is asked for? Empty when it may, else a clause that says why not.
std::string measurement_problem(const Candidate& candidate, const Query& query);

// Database::best; what was passed over because of a checksum is added to `passed_over`.
std::optional<Stored> select_best(Connection& connection, const Query& query,
                                  std::vector<std::string>& passed_over);

// Database::tuned.
std::vector<TunedInterval> select_tuned(Connection& connection, const Query& query);

// Database::by_plan.
std::optional<Stored> select_plan(Connection& connection, std::int64_t plan);

}  // namespace tenon::cache
