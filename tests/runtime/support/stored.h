// A tuning database with winners that a test made itself.
#pragma once

#include <string>
#include <vector>

#include "cache/database.h"
#include "ir/mugraph.h"
#include "ir/plan.h"
#include "ir/workload.h"
#include "runtime/device.h"

namespace tenon::test {

// Stores `plan` (with `cubins`, one for each module) for `workload` as measured at `time_us` on
// `device`, with evidence that makes it usable. Returns its number. `schedule`, where not empty, is
// stored in the place of the plan's own.
std::int64_t store_winner(cache::Database& database, const ir::Workload& workload,
                          const ir::MuGraph& graph, const ir::LaunchPlan& plan,
                          const std::vector<std::string>& cubins, const runtime::DeviceInfo& device,
                          double time_us, const std::string& schedule = "");

}  // namespace tenon::test
