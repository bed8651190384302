// Every row of a database as a JSON array, in the canonical order (inner header of transfer).
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace tenon::cache {

// ["table", value …]: references are the ranks (from 1, 0 for none) of rows that came before, blobs
// hexadecimal text.
using RowSink = std::function<void(const nlohmann::json& row)>;
void for_each_row(const std::string& database, const RowSink& sink);

}  // namespace tenon::cache
