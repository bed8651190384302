#include "cache/open.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <new>
#include <system_error>

#include "cache/schema.h"
#include "ir/error.h"

namespace tenon::cache {
namespace {

namespace fs = std::filesystem;

// Files up to this size are checked page by page before anything is written to them.
constexpr std::uintmax_t kQuickCheckBytes = 16 << 20;

std::string system_message(int code) { return std::generic_category().message(code); }

// The folder that holds `path`; "." for a bare name.
std::string folder_of(const std::string& path) {
  std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// The file header (https://sqlite.org/fileformat2.html, section 1.3), as far as it tells whose
// file this is before SQLite may touch it.
struct FileHeader {
  std::uint32_t user_version = 0;
  std::uint32_t application_id = 0;
  bool wal = true;  // packed databases have none
};

constexpr std::size_t kHeaderBytes = 100;

FileHeader parse_header(std::string_view text, const std::string& path) {
  std::array<unsigned char, kHeaderBytes> bytes{};
  std::memcpy(bytes.data(), text.data(), std::min(text.size(), bytes.size()));
  if (text.size() < bytes.size() || std::memcmp(bytes.data(), "SQLite format 3", 16) != 0) {
    throw UserError(
        fmt::format("'{}' is not a Tenon database (it is no SQLite file, or a damaged one); "
                    "name another with --db",
                    path));
  }
  auto word = [&bytes](std::size_t at) {
    return std::uint32_t{bytes[at]} << 24 | std::uint32_t{bytes[at + 1]} << 16 |
           std::uint32_t{bytes[at + 2]} << 8 | std::uint32_t{bytes[at + 3]};
  };
  return {word(60), word(68), bytes[18] == 2};
}

FileHeader read_header(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw UserError(fmt::format("database '{}' cannot be read: {}", path, system_message(errno)));
  }
  std::string bytes(kHeaderBytes, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return parse_header(bytes, path);
}

void refuse_newer(const std::string& path, std::int64_t version) {
  if (version > schema_version()) {
    throw UserError(fmt::format("database '{}' has version {}; this Tenon reads versions up to {}",
                                path, version, schema_version()));
  }
}

void check_header(const FileHeader& header, const std::string& path) {
  if (header.application_id != kApplicationId) {
    throw UserError(fmt::format(
        "'{}' is a SQLite file but not a Tenon database; name another with --db", path));
  }
  refuse_newer(path, header.user_version);
}

// `path` with what has a meaning in URIs escaped.
std::string uri_of(const std::string& path, const char* parameters) {
  std::string uri = "file:";
  for (char c : fs::absolute(path).string()) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  return uri + "?" + parameters;
}

bool exists_nonempty(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && status.st_size > 0;
}

using Schema = std::map<std::pair<std::string, std::string>, std::string>;  // (type, name) -> SQL

Schema read_schema(Connection& connection) {
  Schema schema;
  Rows rows(connection, "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL");
  while (rows.next()) schema[{rows.text(0), rows.text(1)}] = rows.text(2);
  return schema;
}

// What a database of the current version looks like. Made anew each time; it takes a millisecond.
Schema expected_schema() {
  Connection memory(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, ":memory:");
  migrate(memory);
  return read_schema(memory);
}

// Tables, indexes and views must be ours; others may stand beside them, triggers may not, since
// they would run with our statements.
void check_schema(Connection& connection) {
  Schema schema = read_schema(connection);
  auto fail = [&](const std::string& what) {
    throw UserError(fmt::format("database '{}' is not in order ({}); name another with --db",
                                connection.path(), what));
  };
  for (const auto& [key, sql] : expected_schema()) {
    auto found = schema.find(key);
    if (found == schema.end()) fail(fmt::format("its {} {} is missing", key.first, key.second));
    if (found->second != sql) fail(fmt::format("its {} {} differs", key.first, key.second));
  }
  for (const auto& [key, sql] : schema) {
    if (key.first == "trigger") fail(fmt::format("it has a trigger {}", key.second));
  }
}

void quick_check(Connection& connection) {
  Rows rows(connection, "PRAGMA quick_check(1)");
  std::string result = rows.next() ? rows.text(0) : "no answer";
  if (result != "ok") {
    for (char& c : result) {
      if (c == '\n') c = ' ';
    }
    throw UserError(fmt::format("database '{}' is corrupt ({}); move it away or restore a copy",
                                connection.path(), result));
  }
}

std::int64_t pragma(Connection& connection, const char* sql) {
  Rows rows(connection, sql);
  return rows.next() ? rows.integer(0) : 0;
}

// What everything that reads must see to after opening.
void check_for_reading(Connection& connection) {
  std::int64_t version = pragma(connection, "PRAGMA user_version");
  refuse_newer(connection.path(), version);
  if (version < schema_version()) {
    throw UserError(
        fmt::format("database '{}' has version {} and this Tenon reads version {}; open it for "
                    "writing once, which brings it up to date, or pack it anew",
                    connection.path(), version, schema_version()));
  }
  check_schema(connection);
}

bool writable(const std::string& path) {
  return access(folder_of(path).c_str(), W_OK) == 0 && access(path.c_str(), W_OK) == 0;
}

std::unique_ptr<Connection> open_reading(const std::string& path) {
  const FileHeader header = read_header(path);
  check_header(header, path);
  std::unique_ptr<Connection> connection;
  if (header.wal && writable(path)) {
    // Opened as for writing, so that the last one to close it removes the files of the WAL.
    connection = std::make_unique<Connection>(path, SQLite::OPEN_READWRITE, path);
    connection->database().exec("PRAGMA query_only = ON");
  } else {
    connection = std::make_unique<Connection>(reading_uri(path),
                                              SQLite::OPEN_READONLY | SQLite::OPEN_URI, path);
  }
  check_for_reading(*connection);
  return connection;
}

std::unique_ptr<Connection> open_writing(const std::string& path) {
  if (access(path.c_str(), R_OK | W_OK) != 0 || access(folder_of(path).c_str(), W_OK) != 0) {
    throw UserError(fmt::format("database '{}' cannot be written: {}; name another with --db", path,
                                system_message(errno)));
  }
  const std::uintmax_t size = fs::file_size(path);
  if (size > 0) check_header(read_header(path), path);
  auto connection = std::make_unique<Connection>(path, SQLite::OPEN_READWRITE, path);
  if (size > 0) {
    refuse_newer(path, pragma(*connection, "PRAGMA user_version"));
    if (size <= kQuickCheckBytes) quick_check(*connection);
    if (is_packed(*connection)) {
      throw UserError(fmt::format(
          "database '{}' is packed and read-only; merge it into another (tenon db merge)", path));
    }
  }
  connection->database().exec("PRAGMA synchronous = FULL");
  connection->database().exec("PRAGMA journal_mode = WAL");
  migrate(*connection);
  check_schema(*connection);
  return connection;
}

void sync_folder(const std::string& folder) {
  int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    fsync(descriptor);
    close(descriptor);
  }
}

// Makes a complete database aside and gives it its name at the end, so that a file of that name
// is whole at every moment, and that of two processes which create it one wins.
void create(const std::string& path) {
  const std::string folder = folder_of(path);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw UserError(
        fmt::format("database '{}' cannot be made, nor its folder: {}; name another with --db",
                    path, error.message()));
  }
  if (access(folder.c_str(), W_OK) != 0) {
    throw UserError(fmt::format("database '{}' cannot be written: {}; name another with --db", path,
                                system_message(errno)));
  }
  static std::atomic<unsigned> counter{0};
  const std::string fresh = fmt::format("{}.new-{}-{}", path, getpid(), counter++);
  struct Remove {
    const std::string& name;
    ~Remove() {
      for (const char* suffix : {"", "-wal", "-shm", "-journal"})
        std::remove((name + suffix).c_str());
    }
  } remove{fresh};
  {
    Connection connection(fresh, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, path);
    connection.database().exec("PRAGMA synchronous = FULL");
    migrate(connection);
    connection.database().exec("PRAGMA journal_mode = WAL");
  }
  if (link(fresh.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    // No hard links here: a plain rename, which loses only against a creator in the same moment.
    if (rename(fresh.c_str(), path.c_str()) != 0) {
      throw UserError(fmt::format("database '{}' cannot be written: {}; name another with --db",
                                  path, system_message(errno)));
    }
  }
  sync_folder(folder);
}

}  // namespace

bool is_packed(Connection& connection) {
  if (pragma(connection, "SELECT count(*) FROM sqlite_schema WHERE name = 'info'") == 0)
    return false;
  return pragma(connection, "SELECT count(*) FROM info WHERE name = 'pack'") != 0;
}

std::string reading_uri(const std::string& path) {
  // Without write permission SQLite cannot make the files that go with a WAL. Then the file is
  // taken as immutable, unless there is a WAL: someone else is writing it. A file without WAL is a
  // packed one, which nobody writes, unless a journal says otherwise.
  const bool wal = read_header(path).wal;
  const bool unwritable_folder = access(folder_of(path).c_str(), W_OK) != 0;
  const bool immutable = wal ? unwritable_folder && !exists_nonempty(path + "-wal")
                             : !exists_nonempty(path + "-journal");
  return uri_of(path, immutable ? "mode=ro&immutable=1" : "mode=ro");
}

std::unique_ptr<Connection> open_packed_connection(std::string_view bytes,
                                                   const std::string& name) {
  try {
    const FileHeader header = parse_header(bytes, name);
    check_header(header, name);
    auto connection = std::make_unique<Connection>(":memory:", SQLite::OPEN_READWRITE, name);
    auto* copy = static_cast<unsigned char*>(sqlite3_malloc64(bytes.size()));
    if (copy == nullptr) throw std::bad_alloc();
    std::memcpy(copy, bytes.data(), bytes.size());
    // From here on SQLite owns the copy, whether or not it likes it.
    if (sqlite3_deserialize(
            connection->database().getHandle(), "main", copy,
            static_cast<sqlite3_int64>(bytes.size()), static_cast<sqlite3_int64>(bytes.size()),
            SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY) != SQLITE_OK)
      throw UserError(fmt::format("database '{}' is corrupt; pack it anew", name));
    check_for_reading(*connection);
    if (!is_packed(*connection))
      throw UserError(fmt::format("'{}' is not a packed database", name));
    return connection;
  } catch (const SQLite::Exception& error) {
    throw_translated(name, error);
  }
}

void migrate(Connection& connection) {
  if (pragma(connection, "PRAGMA user_version") == schema_version()) return;
  // Rebuilding a table would otherwise cascade; the check below makes up for it.
  connection.database().exec("PRAGMA foreign_keys = OFF");
  connection.transaction([&] {
    // Read again under the lock: another process may have migrated in the meantime.
    std::int64_t version = pragma(connection, "PRAGMA user_version");
    refuse_newer(connection.path(), version);
    if (version == schema_version()) return;
    if (version == 0 && pragma(connection, "SELECT count(*) FROM sqlite_schema") != 0) {
      throw UserError(
          fmt::format("'{}' is a SQLite file but not a Tenon database; name another with --db",
                      connection.path()));
    }
    for (; version < schema_version(); ++version) {
      connection.database().exec(migrations()[static_cast<std::size_t>(version)]);
    }
    if (Rows(connection, "PRAGMA foreign_key_check").next()) {
      throw UserError(
          fmt::format("database '{}' cannot be brought to version {}: it has broken references",
                      connection.path(), schema_version()));
    }
    connection.database().exec(fmt::format("PRAGMA application_id = {}", kApplicationId));
    connection.database().exec(fmt::format("PRAGMA user_version = {}", schema_version()));
  });
  connection.database().exec("PRAGMA foreign_keys = ON");
}

std::unique_ptr<Connection> open_connection(const std::string& path, bool read_only) {
  if (path.empty()) throw UserError("database", path, "the name of a file");
  try {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
      if (errno != ENOENT || read_only) {
        throw UserError(errno == ENOENT ? fmt::format("database '{}' does not exist", path)
                                        : fmt::format("database '{}' cannot be opened: {}", path,
                                                      system_message(errno)));
      }
      create(path);
    } else if (!S_ISREG(status.st_mode)) {
      throw UserError(fmt::format("database '{}' is not a file; name another with --db", path));
    }
    return read_only ? open_reading(path) : open_writing(path);
  } catch (const SQLite::Exception& error) {
    throw_translated(path, error);
  } catch (const fs::filesystem_error& error) {
    throw UserError(
        fmt::format("database '{}' cannot be opened: {}", path, error.code().message()));
  }
}

}  // namespace tenon::cache
