// Whole rows back as values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/connection.h"
#include "cache/database.h"

namespace tenon::cache {

// The plan with everything that belongs to it; `measurement` 0: none. The plan must exist.
Stored read_stored(Connection& connection, std::int64_t plan, std::int64_t measurement);

// Database::measurements_of and Database::unfinished_session.
std::vector<MeasurementRow> read_measurements(Connection& connection, std::int64_t session);
std::optional<SessionRow> read_unfinished(Connection& connection, std::int64_t workload,
                                          std::int64_t environment,
                                          const std::string& options_json);

// Empty when plan text and cubins have the checksums stored with them and the text names the
// cubins; else a clause that says what does not. A plan without text names none.
std::string checksum_problem(const Stored& stored);
// The same, and then what `damage` says, where there is such a function.
std::string damage_of(const Stored& stored, const Damage& damage);

}  // namespace tenon::cache
