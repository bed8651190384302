// JSON views of what the pipeline reports.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cache/database.h"
#include "optimizer/optimize.h"

namespace tenon::cli {

// A column that holds JSON; text that does not parse stays text.
nlohmann::json parsed_json(const std::string& text);
// What a stored plan keeps in memory; nothing where its text is missing or damaged.
std::optional<ir::HeldWeights> weights_of(const cache::Stored& stored);
// One line of it.
std::string describe(const ir::HeldWeights& weights);

nlohmann::json to_json(const ir::Workload& workload);
nlohmann::json to_json(const verifier::Evidence& evidence);
nlohmann::json to_json(const optimizer::Report& report);
// A stored plan, its newest measurement and what it was measured on.
nlohmann::json to_json(const cache::Stored& stored);

}  // namespace tenon::cli
