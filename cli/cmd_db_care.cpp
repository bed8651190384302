// tenon db prune and check.
#include <fmt/format.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "cache/prune.h"
#include "cli/db.h"
#include "codegen/codegen.h"
#include "ir/error.h"
#include "optimizer/reverify.h"
#include "optimizer/session.h"
#include "runtime/load.h"

namespace tenon::cli {

namespace {

using nlohmann::json;

std::string nvrtc_here() { return codegen::nvrtc_available() ? codegen::nvrtc_version() : ""; }

// Winners whose time comes from another Tenon or NVRTC than this one.
std::vector<std::string> stale_winners(cache::Database& database) {
  std::vector<std::string> stale;
  const std::string tenon = optimizer::tenon_version(), nvrtc = nvrtc_here();
  for (const auto& line : database.list(true)) {
    auto stored = database.by_plan(line.plan);
    if (!stored) continue;
    const cache::EnvironmentRow& e = stored->environment;
    if (e.tenon != tenon)
      stale.push_back(
          fmt::format("plan {} was measured with Tenon {}; this is {}", line.plan, e.tenon, tenon));
    else if (!e.nvrtc.empty() && !nvrtc.empty() && e.nvrtc != nvrtc)
      stale.push_back(fmt::format("plan {} was compiled by NVRTC {}; here it is {}", line.plan,
                                  e.nvrtc, nvrtc));
  }
  return stale;
}

// What does not stand up to being tried again, and what could not be.
void reverify(cache::Database& database, const DbArguments& a, std::vector<std::string>& problems,
              std::vector<std::string>& notes) {
  optimizer::ReverifyOptions options;
  options.seed = static_cast<std::uint64_t>(
      parse_integer("--seed", a.seed, 0, std::numeric_limits<std::int64_t>::max()));
  options.device = runtime::open_device(a.device)->info().id;
  std::size_t count = 0;
  for (const auto& line : database.list(true)) {
    auto stored = database.by_plan(line.plan);
    if (!stored) continue;
    ++count;
    const optimizer::Reverification result = optimizer::reverify(*stored, options);
    for (const std::string& worse : result.worse)
      problems.push_back(fmt::format("plan {}: {}", line.plan, worse));
    if (!result.not_repeated.empty())
      notes.push_back(fmt::format("plan {}: the numeric test was not repeated: {}", line.plan,
                                  result.not_repeated));
  }
  notes.push_back(fmt::format("the evidence of {} winners was run again", count));
}

}  // namespace

int db_prune(const DbArguments& a) {
  cache::PruneOptions options;
  if (!a.older_than.empty()) options.older_than = date_before("--older-than", a.older_than);
  if (!a.keep.empty()) options.keep = static_cast<int>(parse_integer("--keep", a.keep, 0, 1000000));
  options.stale = a.stale;
  options.tenon = optimizer::tenon_version();
  options.nvrtc = nvrtc_here();
  options.apply = a.apply;
  if (options.older_than.empty() && options.keep < 0 && !options.stale)
    throw UserError("prune needs a condition: --older-than, --keep or --stale");
  const cache::RowCounts removed = cache::prune_database(database_path(a), options);
  if (a.json) {
    fmt::print("{}\n", json{{"applied", a.apply}, {"rows", removed}}.dump(2));
    return kDone;
  }
  for (const auto& [table, count] : removed)
    if (count > 0) fmt::print("{:<12} {}\n", table, count);
  fmt::print("{}\n",
             a.apply ? "these rows were taken out" : "these rows would go; --apply takes them out");
  return kDone;
}

int db_check(const DbArguments& a) {
  auto database = open_database(a);
  std::vector<std::string> problems = database->check(runtime::plan_damage), notes;
  for (const auto& [table, count] : cache::orphans_of(database->path()))
    if (count > 0)
      notes.push_back(
          fmt::format("{} rows of {} that nothing refers to (tenon db prune takes them "
                      "along)",
                      count, table));
  for (std::string& sentence : stale_winners(*database)) notes.push_back(std::move(sentence));
  if (a.reverify) reverify(*database, a, problems, notes);
  if (a.json) {
    fmt::print("{}\n",
               json{{"database", database->path()}, {"problems", problems}, {"notes", notes}}.dump(
                   2, ' ', false, json::error_handler_t::replace));
  } else {
    for (const std::string& problem : problems) fmt::print("problem: {}\n", problem);
    for (const std::string& note : notes) fmt::print("note: {}\n", note);
    fmt::print("{}: {}\n", database->path(),
               problems.empty() ? "in order" : fmt::format("{} problems", problems.size()));
  }
  return problems.empty() ? kDone : kNothingFound;
}

}  // namespace tenon::cli
