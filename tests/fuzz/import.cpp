// The import file: as it is, checksum and all, and its rows as if the checksum were right.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "cache/open.h"
#include "cache/rows_in.h"
#include "cache/transfer.h"
#include "ir/error.h"

namespace {

using namespace tenon;

// Files of this process, in memory.
std::string scratch(const char* name) {
  return "/dev/shm/tenon-fuzz-" + std::to_string(getpid()) + name;
}

void whole_file(const std::string& bytes) {
  const std::string file = scratch(".export"), database = scratch(".imported.db");
  std::ofstream(file, std::ios::binary) << bytes;
  try {
    cache::import_database(database, file);
  } catch (const UserError&) {
  }
  for (const char* suffix : {"", "-wal", "-shm"}) std::remove((database + suffix).c_str());
  std::remove(file.c_str());
}

void rows(const std::string& bytes) {
  static cache::Connection* const connection = [] {
    auto* made =
        new cache::Connection(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, ":memory:");
    cache::migrate(*made);
    return made;
  }();
  struct Undo {};
  try {
    connection->transaction([&] {
      cache::RowsIn in(*connection);
      for (std::size_t at = 0; at < bytes.size();) {
        const std::size_t end = std::min(bytes.find('\n', at), bytes.size());
        const auto row = nlohmann::json::parse(bytes.substr(at, end - at), nullptr, false);
        if (!row.is_discarded() && row.is_array()) in.add(row);
        at = end + 1;
      }
      in.added();
      throw Undo();
    });
  } catch (const Undo&) {
  } catch (const UserError&) {
  } catch (const SQLite::Exception&) {
    // A constraint of the schema: import says it in a sentence.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (size % 16 == 0) whole_file(bytes);
  rows(bytes);
  return 0;
}
