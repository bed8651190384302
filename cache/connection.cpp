#include "cache/connection.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cmath>
#include <exception>
#include <string_view>

#include "ir/error.h"

namespace tenon::cache {
namespace {

// How long a writer waits for another one. Writes are short; only a stopped process holds longer.
constexpr int kBusyTimeoutMs = 30000;
// No value in a tuning database is larger; a file that claims so is refused before allocating.
constexpr int kMaxValueBytes = 64 << 20;

}  // namespace

bool is_corruption(const SQLite::Exception& error) {
  int code = error.getErrorCode() & 0xff;
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_FORMAT) return true;
  // A damaged number of the schema's format has no code of its own (sqlite3InitOne).
  return code == SQLITE_ERROR && std::string_view(error.what()) == "unsupported file format";
}

void throw_translated(const std::string& path, const SQLite::Exception& error) {
  const int extended = error.getExtendedErrorCode();
  const std::string detail = error.what();
  if (is_corruption(error)) {
    throw UserError(
        fmt::format("database '{}' is corrupt ({}); move it away or restore a copy", path, detail));
  }
  switch (error.getErrorCode() & 0xff) {
    case SQLITE_FULL:
      throw UserError(fmt::format("database '{}' cannot be written: the disk is full", path));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw UserError(
          fmt::format("database '{}' has been locked by another process for longer than {} s", path,
                      kBusyTimeoutMs / 1000));
    case SQLITE_READONLY:
      throw UserError(
          fmt::format("database '{}' is read-only ({}); name another with --db", path, detail));
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
      throw UserError(fmt::format("database '{}' cannot be opened ({})", path, detail));
    case SQLITE_IOERR:
      throw UserError(fmt::format("database '{}' cannot be read or written ({}, code {})", path,
                                  detail, extended));
    case SQLITE_NOMEM:
      throw UserError(fmt::format("there is no memory left to work on database '{}'", path));
    case SQLITE_TOOBIG:
      throw UserError(fmt::format("a value in database '{}' is larger than {} MiB", path,
                                  kMaxValueBytes >> 20));
    default:
      throw InternalError(fmt::format("SQLite on '{}': {} (code {})", path, detail, extended));
  }
}

Connection::Connection(const std::string& uri, int flags, std::string path)
    : path_(std::move(path)), database_(uri, flags, kBusyTimeoutMs) {
  sqlite3_limit(database_.getHandle(), SQLITE_LIMIT_LENGTH, kMaxValueBytes);
  sqlite3_extended_result_codes(database_.getHandle(), 1);
  // The file may come from anywhere: nothing in its schema may call functions with effects, and
  // malformed cells are noticed when they are read.
  database_.exec("PRAGMA trusted_schema = OFF");
  database_.exec("PRAGMA cell_size_check = ON");
  database_.exec("PRAGMA foreign_keys = ON");
}

SQLite::Statement& Connection::statement(const char* sql) {
  auto found = statements_.find(sql);
  if (found == statements_.end()) {
    found = statements_.try_emplace(sql, database_, sql).first;
  }
  found->second.tryReset();
  found->second.clearBindings();
  return found->second;
}

void Connection::transaction(const std::function<void()>& body) {
  const std::string name = fmt::format("nested{}", depth_);
  const bool outermost = depth_ == 0;
  database_.exec(outermost ? std::string("BEGIN IMMEDIATE") : "SAVEPOINT " + name);
  ++depth_;
  try {
    body();
    database_.exec(outermost ? std::string("COMMIT") : "RELEASE " + name);
    --depth_;
  } catch (...) {
    --depth_;
    // A full disk, for one, makes SQLite roll back by itself; then there is nothing left to undo.
    if (sqlite3_get_autocommit(database_.getHandle()) == 0) {
      database_.tryExec(outermost ? std::string("ROLLBACK") : "ROLLBACK TO " + name);
      if (!outermost) database_.tryExec("RELEASE " + name);
    }
    throw;
  }
}

void Connection::snapshot(const std::function<void()>& body) {
  if (depth_ > 0) return body();
  Rows(*this, "BEGIN").run();
  ++depth_;
  struct End {
    Connection& connection;
    ~End() {
      --connection.depth_;
      // Nothing was written: this cannot lose anything.
      connection.database_.tryExec("COMMIT");
    }
  } end{*this};
  body();
}

void Rows::bind(int index, double value) {
  if (std::isfinite(value)) {
    statement_.bind(index, value);
  } else {
    statement_.bind(index);
  }
}

void Rows::bind(int index, const Blob& value) {
  if (value.or_null && value.bytes.empty()) {
    statement_.bind(index);
  } else {
    // A null pointer would be stored as NULL: give the empty blob an address.
    const char* data = value.bytes.empty() ? "" : value.bytes.data();
    statement_.bind(index, static_cast<const void*>(data), static_cast<int>(value.bytes.size()));
  }
}

void Rows::bind(int index, const Reference& value) {
  if (value.id == 0) {
    statement_.bind(index);
  } else {
    statement_.bind(index, value.id);
  }
}

}  // namespace tenon::cache
