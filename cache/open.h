// Opening and creating database files, and bringing them to the current version.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cache/connection.h"

namespace tenon::cache {

// Database::open's contract.
std::unique_ptr<Connection> open_connection(const std::string& path, bool read_only);

// Database::open_packed's contract.
std::unique_ptr<Connection> open_packed_connection(std::string_view bytes, const std::string& name);

// The URI by which SQLite reads `path` and writes nothing: immutable where it is packed, or where
// the folder cannot be written.
std::string reading_uri(const std::string& path);

// Whether the database says of itself that it was packed for shipping.
bool is_packed(Connection& connection);

// Applies the migrations that `connection` lacks, all in one transaction.
void migrate(Connection& connection);

}  // namespace tenon::cache
