// Rows into tables. Each returns the id, of the row that is there already where the natural key
// is the same. Must run inside a transaction.
#pragma once

#include "cache/connection.h"
#include "cache/database.h"

namespace tenon::cache {

std::int64_t store(Connection& connection, const WorkloadRow& row);
std::int64_t store(Connection& connection, const EnvironmentRow& row);
std::int64_t store(Connection& connection, const MuGraphRow& row);
std::int64_t store(Connection& connection, const ScheduleRow& row);
std::int64_t store(Connection& connection, const EvidenceRow& row);
std::int64_t store(Connection& connection, const KernelRow& row);
// The same where `source` may be empty although its hash is not that of nothing.
std::int64_t store_sourceless(Connection& connection, const KernelRow& row);
std::int64_t store(Connection& connection, const PlanRow& row);
std::int64_t store(Connection& connection, const MeasurementRow& row);
std::int64_t store(Connection& connection, const SessionRow& row);

void finish_session(Connection& connection, std::int64_t id, const std::string& stop_reason,
                    const std::string& counters_json);
void resume_session(Connection& connection, std::int64_t id, const std::string& owner);
void retract(Connection& connection, std::int64_t session, std::int64_t plan);
void set_session_reference(Connection& connection, std::int64_t id, double reference_time_us);

}  // namespace tenon::cache
