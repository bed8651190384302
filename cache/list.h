// Overviews of a whole database.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cache/connection.h"
#include "cache/database.h"

namespace tenon::cache {

std::vector<Database::Listing> list_plans(Connection& connection, Database::Which which,
                                          std::int64_t of);
std::vector<std::pair<std::string, std::int64_t>> count_tables(Connection& connection);
std::vector<std::string> check_contents(Connection& connection, const Damage& damage);

}  // namespace tenon::cache
