// JSON views of what the pipeline reports.
#pragma once

#include <nlohmann/json.hpp>

#include "cache/database.h"
#include "optimizer/optimize.h"

namespace tenon::cli {

nlohmann::json to_json(const ir::Workload& workload);
nlohmann::json to_json(const verifier::Evidence& evidence);
nlohmann::json to_json(const optimizer::Report& report);
// A stored plan, its newest measurement and what it was measured on.
nlohmann::json to_json(const cache::Stored& stored);

}  // namespace tenon::cli
