// Opening and creating database files, and bringing them to the current version.
#pragma once

#include <memory>
#include <string>

#include "cache/connection.h"

namespace tenon::cache {

// Database::open's contract.
std::unique_ptr<Connection> open_connection(const std::string& path, bool read_only);

// Applies the migrations that `connection` lacks, all in one transaction.
void migrate(Connection& connection);

}  // namespace tenon::cache
