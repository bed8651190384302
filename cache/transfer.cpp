#include "cache/transfer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "cache/open.h"
#include "cache/rows_in.h"
#include "cache/rows_out.h"
#include "cache/schema.h"
#include "ir/error.h"
#include "ir/sha256.h"

namespace tenon::cache {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr int kMostDepth = 2;
// A cubin of the largest size in hexadecimal, and what stands around it.
constexpr std::size_t kMostLine = (std::size_t{64} << 21) + (1 << 20);

// The checksum of a file: each line's hash is over the hash so far and the line, so that the whole
// never has to be held.
class LineHash {
 public:
  void add(const std::string& line) { hash_ = ir::sha256_hex(hash_ + line); }
  const std::string& hex() const { return hash_; }

 private:
  std::string hash_ = ir::sha256_hex("");
};

json parse_line(const std::string& line) {
  bool too_deep = false;
  json parsed = json::parse(
      line,
      [&](int depth, json::parse_event_t, json&) {
        too_deep = too_deep || depth > kMostDepth;
        return !too_deep;
      },
      false);
  if (too_deep || parsed.is_discarded()) throw UserError("it is not the JSON of a row");
  return parsed;
}

// Reads a file's lines; `row` is called for each row when the whole was found to be in order.
class ExportedFile {
 public:
  explicit ExportedFile(const std::string& path) : path_(path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error))
      throw UserError(fmt::format("cannot read '{}': it is not a regular file", path));
    check();
  }

  void for_each(const std::function<void(const json&)>& row) const {
    std::ifstream in(path_, std::ios::binary);
    std::string line;
    std::int64_t number = 0;
    try {
      while (number <= rows_ && next(in, line))
        if (++number > 1) row(parse_line(line));
    } catch (const UserError& error) {
      fail(number, error.what());
    }
  }

 private:
  [[noreturn]] void fail(std::int64_t line, const std::string& what) const {
    throw UserError(fmt::format("cannot import '{}': line {}: {}", path_, line, what));
  }

  bool next(std::ifstream& in, std::string& line) const {
    line.clear();
    // Not getline: a line that never ends must not be held.
    std::streambuf* buffer = in.rdbuf();
    for (int c = buffer->sbumpc(); c != EOF; c = buffer->sbumpc()) {
      if (c == '\n') return true;
      if (line.size() == kMostLine) throw UserError("it is too long for a row");
      line.push_back(static_cast<char>(c));
    }
    return !line.empty();
  }

  void check() {
    std::ifstream in(path_, std::ios::binary);
    if (!in) throw UserError(fmt::format("cannot read '{}': {}", path_, std::strerror(errno)));
    std::string line, last;
    std::int64_t number = 0;
    LineHash hash;
    try {
      while (next(in, line)) {
        if (++number == 1) check_header(line);
        if (number > 1) hash.add(last);
        last.swap(line);
      }
      if (number < 2) throw UserError("the file is cut off");
      const json footer = parse_line(last);
      if (!footer.is_object() || !footer.contains("rows") || !footer["rows"].is_number_integer() ||
          !footer.contains("sha256") || !footer["sha256"].is_string())
        throw UserError("the file is cut off: its last line is no checksum");
      if (footer["sha256"].get<std::string>() != hash.hex() ||
          footer["rows"].get<std::int64_t>() != number - 2)
        throw UserError("the file does not match its checksum");
    } catch (const UserError& error) {
      fail(number, error.what());
    }
    rows_ = number - 2;
  }

  static void check_header(const std::string& line) {
    const json header = parse_line(line);
    if (!header.is_object() || !header.contains("tenon_export") ||
        !header["tenon_export"].is_number_integer())
      throw UserError("it is not a file that tenon db export wrote");
    const std::int64_t format = header["tenon_export"].get<std::int64_t>();
    if (format != kFormat)
      throw UserError(fmt::format("it has format {}; this Tenon reads format {}", format, kFormat));
  }

  std::string path_;
  std::int64_t rows_ = 0;
};

RowCounts add_rows(const std::string& database,
                   const std::function<void(const std::function<void(const json&)>&)>& rows) {
  auto connection = open_connection(database, false);
  RowCounts counts;
  try {
    connection->transaction([&] {
      RowsIn in(*connection);
      rows([&](const json& row) { in.add(row); });
      counts = in.added();
    });
  } catch (const SQLite::Exception& error) {
    throw_translated(database, error);
  }
  return counts;
}

}  // namespace

RowCounts export_database(const std::string& database, const std::string& file) {
  const std::string fresh = fmt::format("{}.new-{}", file, getpid());
  struct Remove {
    const std::string& name;
    ~Remove() { std::remove(name.c_str()); }
  } remove{fresh};
  RowCounts counts;
  {
    std::ofstream out(fresh, std::ios::binary);
    if (!out) throw UserError(fmt::format("cannot write '{}': {}", file, std::strerror(errno)));
    LineHash hash;
    auto put = [&](const json& value) {
      // Text that is no UTF-8 (a compiler's log) loses what is none.
      const std::string line = value.dump(-1, ' ', false, json::error_handler_t::replace);
      hash.add(line);
      out << line << '\n';
      // At once, while errno still is this write's.
      if (!out) throw UserError(fmt::format("cannot write '{}': {}", file, std::strerror(errno)));
    };
    std::int64_t total = 0;
    put({{"tenon_export", kFormat}, {"schema", schema_version()}});
    for_each_row(database, [&](const json& row) {
      ++counts[row[0].get<std::string>()];
      ++total;
      put(row);
    });
    out << json{{"rows", total}, {"sha256", hash.hex()}}.dump() << '\n';
    out.flush();
    if (!out) throw UserError(fmt::format("cannot write '{}': {}", file, std::strerror(errno)));
  }
  if (std::rename(fresh.c_str(), file.c_str()) != 0)
    throw UserError(fmt::format("cannot write '{}': {}", file, std::strerror(errno)));
  return counts;
}

RowCounts import_database(const std::string& database, const std::string& file) {
  ExportedFile exported(file);  // in order as a whole before anything is opened
  return add_rows(database, [&](const auto& row) { exported.for_each(row); });
}

RowCounts merge_database(const std::string& database, const std::string& source) {
  std::error_code error;
  if (std::filesystem::equivalent(database, source, error))
    throw UserError(fmt::format("cannot merge '{}' into itself", source));
  open_connection(source, true);  // what is wrong with it is said before the other is touched
  return add_rows(database, [&](const auto& row) {
    for_each_row(source, [&](const json& values) {
      try {
        row(values);
      } catch (const UserError& what) {
        throw UserError(fmt::format("cannot merge '{}': a row of {}: {}", source,
                                    values[0].get<std::string>(), what.what()));
      }
    });
  });
}

}  // namespace tenon::cache
