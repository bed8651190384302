// tenon db export, import, merge and pack.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cache/pack.h"
#include "cache/transfer.h"
#include "cli/db.h"
#include "runtime/load.h"

namespace tenon::cli {

namespace {

using nlohmann::json;

std::string text_of(const cache::RowCounts& counts) {
  std::string text;
  for (const auto& [table, count] : counts)
    if (count > 0) text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", count, table);
  return text.empty() ? "no rows" : text;
}

int add_all(const DbArguments& a, const char* verb,
            cache::RowCounts (*body)(const std::string&, const std::string&)) {
  const std::string database = database_path(a);
  json out = json::object();
  for (const std::string& file : a.files) {
    const cache::RowCounts added = body(database, file);
    out[file] = added;
    if (!a.json) fmt::print("{} {}: {} new in {}\n", verb, file, text_of(added), database);
  }
  if (a.json) fmt::print("{}\n", out.dump(2));
  return kDone;
}

}  // namespace

int db_export(const DbArguments& a) {
  const cache::RowCounts counts = cache::export_database(database_path(a), a.file);
  if (a.json)
    fmt::print("{}\n", json{{"file", a.file}, {"rows", counts}}.dump(2));
  else
    fmt::print("{}: {}\n", a.file, text_of(counts));
  return kDone;
}

int db_import(const DbArguments& a) { return add_all(a, "imported", cache::import_database); }
int db_merge(const DbArguments& a) { return add_all(a, "merged", cache::merge_database); }

int db_pack(const DbArguments& a) {
  const cache::PackSummary summary = cache::pack_database(
      database_path(a), a.file, {runtime::copies_weights, runtime::needs_device});
  if (a.json) {
    fmt::print("{}\n", json{{"file", a.file},
                            {"plans", summary.plans},
                            {"bytes", summary.bytes},
                            {"left_out", summary.left_out}}
                           .dump(2));
  } else {
    for (const std::string& sentence : summary.left_out) fmt::print("{}\n", sentence);
    fmt::print("{}: {} plans, {:.1f} KB\n", a.file, summary.plans,
               static_cast<double>(summary.bytes) / 1e3);
  }
  return summary.left_out.empty() ? kDone : kNothingFound;
}

}  // namespace tenon::cli
