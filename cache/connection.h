// One SQLite connection: prepared statements, transactions, and SQLite's errors as Tenon's.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tenon::cache {

// What a failure of SQLite means for the user: UserError (corrupt, full, locked, unwritable, a
// value too large) or InternalError (a broken constraint, bad SQL). `path` names the file.
[[noreturn]] void throw_translated(const std::string& path, const SQLite::Exception& error);

// True when the error says that the file's contents are damaged.
bool is_corruption(const SQLite::Exception& error);

class Connection {
 public:
  // `uri` is a file name or, with OPEN_URI in `flags`, a URI; `path` is for messages.
  Connection(const std::string& uri, int flags, std::string path);

  const std::string& path() const { return path_; }
  SQLite::Database& database() { return database_; }

  // The prepared statement for `sql`, made once. `sql` must be a literal: it is its own key.
  SQLite::Statement& statement(const char* sql);

  // Runs `body` in an immediate transaction, or in a savepoint when one is open already; rolls
  // back when it throws.
  void transaction(const std::function<void()>& body);
  // Runs `body`, which only reads, on one state of the file, whatever others write meanwhile.
  void snapshot(const std::function<void()>& body);

 private:
  std::string path_;
  SQLite::Database database_;
  std::unordered_map<const char*, SQLite::Statement> statements_;
  int depth_ = 0;
};

// A statement in use: reset when it goes out of scope, so that it keeps no lock.
class Rows {
 public:
  template <class... Values>
  Rows(Connection& connection, const char* sql, const Values&... values)
      : statement_(connection.statement(sql)) {
    int index = 0;
    (bind(++index, values), ...);
  }
  ~Rows() { statement_.tryReset(); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  // Steps to the next row; false after the last.
  bool next() { return statement_.executeStep(); }
  // Runs a statement that returns no rows.
  void run() { statement_.exec(); }

  std::int64_t integer(int column) { return statement_.getColumn(column).getInt64(); }
  double real(int column) { return statement_.getColumn(column).getDouble(); }  // NULL is 0
  bool null(int column) { return statement_.isColumnNull(column); }
  // Text or bytes, as they are.
  std::string text(int column) {
    SQLite::Column value = statement_.getColumn(column);
    const void* data = value.getBlob();
    return data == nullptr ? std::string()
                           : std::string(static_cast<const char*>(data),
                                         static_cast<std::size_t>(value.getBytes()));
  }

 private:
  void bind(int index, std::int64_t value) { statement_.bind(index, value); }
  void bind(int index, int value) { statement_.bind(index, value); }
  void bind(int index, bool value) { statement_.bind(index, value ? 1 : 0); }
  void bind(int index, double value);  // NULL unless finite
  void bind(int index, const std::string& value) { statement_.bind(index, value); }
  void bind(int index, const struct Blob& value);
  void bind(int index, const struct Reference& value);

  SQLite::Statement& statement_;
};

// Bytes to be stored as a BLOB; NULL when `or_null` and empty.
struct Blob {
  std::string_view bytes;
  bool or_null = false;
};

// A reference that may be absent: 0 is stored as NULL.
struct Reference {
  std::int64_t id = 0;
};

}  // namespace tenon::cache
