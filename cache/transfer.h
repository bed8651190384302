// Databases as portable files, and databases joined.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tenon::cache {

// Rows by table.
using RowCounts = std::map<std::string, std::int64_t>;

// Writes every row of `database` to `file` as JSON Lines (docs/database.md), with a checksum at
// the end. Rows are in an order that their contents alone decide: databases that hold the same
// give the same bytes. Throws UserError that names the file.
RowCounts export_database(const std::string& database, const std::string& file);

// Adds the rows of an exported file to `database` (made where it is missing): all of them or, where
// anything is wrong with the file, none. Rows that are there already are not doubled; of rows that
// differ in what their key leaves open, the same one stays in whatever order files are imported.
// The file is untrusted: checksum, types, references, and the hashes of programs, µGraphs,
// schedules, plans and cubins are checked. Returns how many rows are new. Throws UserError that
// names the file and the line.
RowCounts import_database(const std::string& database, const std::string& file);

// Adds the rows of the database `source` to `database`, as if exported and imported.
RowCounts merge_database(const std::string& database, const std::string& source);

}  // namespace tenon::cache
