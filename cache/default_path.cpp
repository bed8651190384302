#include <cstdlib>

#include "cache/database.h"
#include "ir/error.h"

namespace tenon::cache {

std::string default_path() {
  // An empty variable counts as unset, as the XDG base directory specification says.
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (std::string path = variable("TENON_DB"); !path.empty()) return path;
  if (std::string data = variable("XDG_DATA_HOME"); !data.empty()) return data + "/tenon/tuning.db";
  if (std::string home = variable("HOME"); !home.empty()) {
    return home + "/.local/share/tenon/tuning.db";
  }
  throw UserError(
      "there is no place for the database: none of TENON_DB, XDG_DATA_HOME and HOME is "
      "set; name a file with --db");
}

}  // namespace tenon::cache
