// The schema as a list of forward migrations. A database at version v has had the first v of
// them applied; one that was ever released is never edited, only followed by another.
#pragma once

#include <string>
#include <vector>

namespace tenon::cache {

// PRAGMA application_id of every Tenon database: "Tenn".
inline constexpr int kApplicationId = 0x54656e6e;

// migrations()[v] is the SQL that leads from version v to v + 1.
const std::vector<std::string>& migrations();

inline int schema_version() { return static_cast<int>(migrations().size()); }

// The tables, those referred to before those that refer to them.
const std::vector<std::string>& table_names();

}  // namespace tenon::cache
