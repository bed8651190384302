// Which stored plan serves which number of rows: made once when a layer is bound, then a look-up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/database.h"
#include "ir/workload.h"

namespace tenon::runtime {

// Rows low … high, inclusive, are served by `plans[plan]` of the table; where `chunk` is not 0 no
// stored plan is valid for them, and a call is cut into calls of `chunk` rows, each looked up anew.
struct Segment {
  std::int64_t low = 0, high = 0;
  std::size_t plan = 0;
  std::int64_t chunk = 0;
};

struct DispatchTable {
  std::vector<cache::Stored> plans;
  std::vector<Segment> segments;  // ascending, without a gap from the first to the last m
  std::string note;               // the first thing the database had to say (stale …)
};

// Every row of the outputs depends on the same row of the activations alone, so that a call may
// be cut between rows: "m" leads every activation and output and is summed nowhere.
bool is_row_wise(const ir::Program& program);

// Which plan of `query` (its m is ignored) serves each m from `m_min` to `m_max`: the one that
// Database::best answers. Where it has none, the nearest plan serves in chunks if `row_wise`. An
// m that nothing can serve is a miss: the table is empty and `why` names it and what is nearest.
DispatchTable make_dispatch(cache::Database& database, const cache::Query& query,
                            std::int64_t m_min, std::int64_t m_max, bool row_wise,
                            std::string& why);

}  // namespace tenon::runtime
