// JSON views of what the pipeline reports.
#pragma once

#include <nlohmann/json.hpp>

#include "optimizer/optimize.h"

namespace tenon::cli {

nlohmann::json to_json(const ir::Workload& workload);
nlohmann::json to_json(const verifier::Evidence& evidence);
nlohmann::json to_json(const optimizer::Report& report);

}  // namespace tenon::cli
