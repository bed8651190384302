// A minimal database for shipping: winners only, with their cubins.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cache/database.h"

namespace tenon::cache {

struct PackSummary {
  std::int64_t plans = 0;
  std::int64_t bytes = 0;
  std::vector<std::string> left_out;  // one sentence each: plans whose checksum is wrong
};

// Why some lookups cannot use a plan, as Query::refuse; an empty answer: they can.
using Refusal = std::function<std::string(const Stored&)>;

// Writes to `target` the best plan of every workload, device class and launch mode of `source`,
// and beside it the best for lookups that pass over what uses the vendor's library, what one of
// `refusals` names, or several of these; with their cubins, verdicts and deciding measurements,
// without sources, logs and counterexamples. An ordinary database of the current schema, marked
// ('pack' in `info`), in one file without a log, so that it serves from a folder without write
// permission or from memory. `target` is replaced at once when it is complete. Throws UserError
// that names the file.
PackSummary pack_database(const std::string& source, const std::string& target,
                          const std::vector<Refusal>& refusals = {});

}  // namespace tenon::cache
