// The order in which candidates are tried. A strategy proposes candidates and learns what they
// measured; what compiles and times them is the caller's. Not thread-safe: one caller at a time.
//
//   estimate    one schedule of every µGraph, then all others by the cost model's estimate
//   neighbours  estimate, and beside it what differs in one parameter from the fastest measured
//   tree        Monte-Carlo tree search over µGraph, family and shaping parameters
//   exhaustive  every schedule of the space, in the order of estimate
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/mugraph.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "ir/workload.h"
#include "search/schedule_space.h"

namespace tenon::search {

struct Proposal {
  std::size_t graph = 0;  // index in ScheduleSpace::graphs
  ir::Schedule schedule;
  double estimated_us = 0;
};

// What there is to choose from. `ranked[g]` are schedules of `graphs[g]`, cheapest first; a graph
// without any cannot be lowered. Referenced values outlive the strategy.
struct ScheduleSpace {
  std::vector<const ir::MuGraph*> graphs;
  std::vector<std::vector<RankedSchedule>> ranked;
  std::vector<bool> first;  // graphs to begin with, as the reference; may be empty
  const ir::Workload* workload = nullptr;
  const ir::Target* target = nullptr;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // The next candidate, each at most once; nothing when there is none now, though there may be
  // after further observations.
  virtual std::optional<Proposal> next() = 0;
  // What a proposal measured, in microseconds; nothing when it failed.
  virtual void observe(const Proposal& proposal, std::optional<double> us) = 0;
  // Proposals known now and not yet made.
  virtual std::size_t remaining() const = 0;
};

const std::vector<std::string>& strategy_names();

// Throws UserError for an unknown name.
std::unique_ptr<Strategy> make_strategy(const std::string& name, ScheduleSpace space);

}  // namespace tenon::search
