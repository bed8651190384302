// The pipeline: program and shape in, verified and measured winner out and stored.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cache/database.h"
#include "ir/weights.h"
#include "ir/workload.h"
#include "measure/measure.h"
#include "optimizer/progress.h"
#include "search/search.h"
#include "verifier/verifier.h"

namespace tenon::optimizer {

struct Options {
  ir::Workload workload;
  std::string device = "auto";
  std::string database;     // path; empty: cache::default_path()
  std::string dump_search;  // a file for every distinct µGraph in the text form; empty: none
  double budget_seconds = 60;
  std::uint64_t seed = 0;
  bool retune = false;            // measure again even when the database has an answer
  bool dependent_launch = false;  // the objective: plain launches, or a dependent chain
  search::Options search;
  // Schedules of a µGraph that the cost model puts forward; strategies find others.
  std::size_t schedules_per_graph = 24;
  std::string strategy = "neighbours";  // search/strategy.h
  int samples = 20;                     // of the final measurement
  bool in_process = false;              // candidates run here, not in a worker: to debug them
  bool answer_only = false;             // from the database or not at all
  bool force = false;                   // measurements that were disturbed may choose the winner
};

// One candidate as reported: a row of the table that optimize prints.
struct CandidateReport {
  std::string mugraph_id;
  std::string label;
  std::string schedule;
  std::string status;  // measure::name(Status), or "estimated"
  std::string reason;
  double time_us = 0;  // median of the last round it was in; estimated where not measured
  double spread_us = 0;
  int samples = 0;
  bool unfused = false;
  bool checked = false;  // its results were accepted and it was measured as a finalist
};

struct BestReport {
  std::int64_t plan = 0;  // id in the database
  std::string mugraph_id;
  std::string mugraph;  // text
  std::string label;
  std::string schedule;
  std::string kind;  // "measured" or "estimated"
  double time_us = 0;
  double spread_us = 0;
  ir::HeldWeights weights;                             // in memory between launches
  double reference_time_us = 0;                        // the unfused form in the same run
  std::map<std::string, verifier::Evidence> evidence;  // "random", "z3", "numeric"
  std::vector<std::string> notes;                      // ties, staleness …
};

struct SearchReport {
  std::uint64_t enumerated = 0, pruned = 0, deduplicated = 0, distinct = 0;
  std::map<std::string, std::uint64_t> pruned_by;
  std::uint64_t verified = 0, lowerable = 0, compiled = 0, measured = 0;
  std::map<std::string, std::uint64_t> not_lowerable;  // by reason
  std::map<std::string, std::uint64_t> failed;         // candidates by status
  // Spearman's, of the cost model's estimates with the times of what was measured in this run.
  std::optional<double> rank_correlation;
  double seconds = 0;
};

struct StepTime {
  std::string step;
  double seconds = 0;
};

struct Report {
  ir::Workload workload;
  std::string device;  // id
  std::string device_name;
  std::string database;
  bool from_database = false;  // answered without measuring
  std::optional<BestReport> best;
  std::vector<CandidateReport> candidates;  // fastest first
  SearchReport search;
  std::vector<StepTime> steps;
  std::string stop_reason;  // "exhausted", "budget", "interrupted", "database", "no candidate"
  std::vector<std::string> notes;
};

// Throws UserError for bad input (before the database is touched), DeviceError for a missing
// device or toolchain. `stop` ends the search early with the best so far stored.
Report optimize(const Options& options, Progress& progress, std::stop_token stop = {});

}  // namespace tenon::optimizer
