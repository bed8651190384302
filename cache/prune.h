// Taking out of a database what nobody will ask for.
#pragma once

#include <string>

#include "cache/transfer.h"

namespace tenon::cache {

// A plan goes when it meets every condition that is given; winners (view `best`) never go.
struct PruneOptions {
  std::string older_than;  // newest measurement before this date; empty: not asked for
  bool stale = false;      // never measured with this Tenon and this NVRTC (or without NVRTC)
  std::string tenon, nvrtc;
  int keep = -1;       // beyond so many of its workload, class and launch mode; -1: not asked for
  bool apply = false;  // false: nothing is changed, only counted
};

// With the plans go their measurements and evidence, and kernels, schedules, µGraphs, sessions,
// workloads and environments that nothing refers to any more; a µGraph that was refuted stays.
// Returns how many rows go, by table. Throws UserError.
RowCounts prune_database(const std::string& database, const PruneOptions& options);

// Rows that nothing refers to, by table; what prune takes along.
RowCounts orphans_of(const std::string& database);

}  // namespace tenon::cache
