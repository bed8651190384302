// tenon db ls and stats.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/db.h"
#include "cli/json.h"
#include "cli/table.h"
#include "ir/error.h"

namespace tenon::cli {

namespace {

using nlohmann::json;
using Listing = cache::Database::Listing;

struct Range {
  std::string dim;
  std::int64_t low = 1, high = std::numeric_limits<std::int64_t>::max();
};

// "m=1:64", "m=16", "m=64:".
Range parse_range(const std::string& text) {
  const std::size_t equals = text.find('='), colon = text.find(':');
  if (equals == std::string::npos || equals == 0)
    throw UserError("--range", text, "NAME=LOW:HIGH or NAME=V");
  const std::string name = "the bound of --range " + text;
  Range range;
  range.dim = text.substr(0, equals);
  const auto limit = std::numeric_limits<std::int64_t>::max();
  const std::string first =
      text.substr(equals + 1, colon == std::string::npos ? std::string::npos : colon - equals - 1);
  if (colon == std::string::npos || !first.empty())
    range.low = parse_integer(name, first, 0, limit);
  if (colon == std::string::npos)
    range.high = range.low;
  else if (colon + 1 < text.size())
    range.high = parse_integer(name, text.substr(colon + 1), 0, limit);
  if (range.high < range.low)
    throw UserError("--range", text, "NAME=LOW:HIGH with LOW no greater than HIGH");
  return range;
}

bool in_range(const Listing& line, const Range& range) {
  const json dims = json::parse(line.dims_json, nullptr, false);
  if (!dims.is_object() || !dims.contains(range.dim) || !dims[range.dim].is_number_integer())
    return false;
  const auto extent = dims[range.dim].get<std::int64_t>();
  return extent >= range.low && extent <= range.high;
}

double speedup(const Listing& line) {
  return line.time_us > 0 && line.reference_time_us > 0 ? line.reference_time_us / line.time_us : 0;
}

// Keeps what the filters let through.
void filter(std::vector<Listing>& lines, const DbArguments& a) {
  const std::string statuses =
      "ok, compile_error, launch_error, wrong_result, timeout, crashed, unsupported";
  if (!a.status.empty() && (", " + statuses + ",").find(", " + a.status + ",") == std::string::npos)
    throw UserError("--status", a.status, statuses);
  if (!a.dtype.empty() && a.dtype != "bf16" && a.dtype != "fp16" && a.dtype != "fp32")
    throw UserError("--dtype", a.dtype, "bf16, fp16, fp32");
  std::vector<Range> ranges;
  for (const std::string& text : a.ranges) ranges.push_back(parse_range(text));
  const std::string after = a.newer_than.empty() ? "" : date_before("--newer-than", a.newer_than);
  const std::string before = a.older_than.empty() ? "" : date_before("--older-than", a.older_than);
  std::erase_if(lines, [&](const Listing& line) {
    if (!a.program.empty() && line.program != a.program) return true;
    if (!a.dtype.empty() && line.dtype != a.dtype) return true;
    if (!a.on.empty() && line.device.find(a.on) == std::string::npos &&
        line.device_class.find(a.on) == std::string::npos)
      return true;
    if (!a.status.empty() && line.status != a.status) return true;
    if (!after.empty() && line.created < after) return true;
    if (!before.empty() && line.created >= before) return true;
    return !std::all_of(ranges.begin(), ranges.end(),
                        [&](const Range& range) { return in_range(line, range); });
  });
}

void sort(std::vector<Listing>& lines, const std::string& by) {
  auto order = [&](auto less) { std::stable_sort(lines.begin(), lines.end(), less); };
  if (by == "time") {
    order([](const Listing& x, const Listing& y) {
      return std::pair(!(x.time_us > 0), x.time_us) < std::pair(!(y.time_us > 0), y.time_us);
    });
  } else if (by == "speedup") {
    order([](const Listing& x, const Listing& y) { return speedup(x) > speedup(y); });
  } else if (by == "date") {
    order([](const Listing& x, const Listing& y) { return x.created > y.created; });
  } else if (by != "workload") {
    throw UserError("--sort", by, "workload, time, speedup, date");
  }
}

json to_json(const Listing& r) {
  return {{"plan", r.plan},
          {"program", r.program},
          {"dims", parsed_json(r.dims_json)},
          {"dtype", r.dtype},
          {"device", r.device},
          {"device_class", r.device_class},
          {"launch", r.dependent_launch ? "dependent" : "plain"},
          {"mugraph", r.mugraph},
          {"label", r.label},
          {"schedule", r.schedule},
          {"status", r.status},
          {"kind", r.kind},
          {"time_us", r.time_us},
          {"spread_us", r.spread_us},
          {"samples", r.samples},
          {"reference_time_us", r.reference_time_us},
          {"created", r.created},
          {"usable", r.usable},
          {"disturbance", r.disturbance},
          {"best", r.best}};
}

void print_table(const std::vector<Listing>& lines) {
  Table table({{"plan", Table::Align::kRight},
               {"best"},
               {"program"},
               {"dims"},
               {"dtype"},
               {"launch"},
               {"device", Table::Align::kLeft, 24},
               {"form", Table::Align::kLeft, 36},
               {"schedule", Table::Align::kLeft, 40},
               {"status"},
               {"kind"},
               {"µs", Table::Align::kRight},
               {"± µs", Table::Align::kRight},
               {"× unfused", Table::Align::kRight}});
  for (const Listing& r : lines)
    table.add({std::to_string(r.plan), r.best ? "*" : "", r.program, r.dims, r.dtype,
               r.dependent_launch ? "dependent" : "plain", r.device, r.label, r.schedule, r.status,
               r.kind + (r.disturbance.empty() ? "" : ", disturbed"),
               r.time_us > 0 ? fmt::format("{:.2f}", r.time_us) : "",
               r.samples > 0 ? fmt::format("{:.2f}", r.spread_us) : "",
               speedup(r) > 0 ? fmt::format("{:.2f}", speedup(r)) : ""});
  if (!table.empty()) fmt::print("{}", table.render());
}

}  // namespace

void print_csv(const std::vector<Listing>& lines) {
  fmt::print(
      "plan,best,program,dims,dtype,device,device_class,launch,mugraph,label,schedule,status,kind,"
      "time_us,spread_us,samples,reference_time_us,created\n");
  for (const Listing& r : lines) {
    const std::string cells[] = {std::to_string(r.plan),
                                 r.best ? "1" : "0",
                                 r.program,
                                 r.dims,
                                 r.dtype,
                                 r.device,
                                 r.device_class,
                                 r.dependent_launch ? "dependent" : "plain",
                                 r.mugraph,
                                 r.label,
                                 r.schedule,
                                 r.status,
                                 r.kind,
                                 fmt::format("{}", r.time_us),
                                 fmt::format("{}", r.spread_us),
                                 std::to_string(r.samples),
                                 fmt::format("{}", r.reference_time_us),
                                 r.created};
    std::string text;
    for (const std::string& cell : cells) text += (text.empty() ? "" : ",") + csv_cell(cell);
    fmt::print("{}\n", text);
  }
}

int db_list(const DbArguments& a) {
  const auto most = static_cast<std::size_t>(
      a.limit.empty() ? 0 : parse_integer("--limit", a.limit, 1, std::numeric_limits<int>::max()));
  std::vector<Listing> none;
  filter(none, a);
  sort(none, a.sort);  // bad arguments are said before anything is opened
  auto database = open_database(a);
  // A failure is never the best of a workload: to see failures is to see all.
  const bool all = a.all || (!a.status.empty() && a.status != "ok");
  std::vector<Listing> lines =
      database->list(all ? cache::Database::Which::kAll : cache::Database::Which::kFirst);
  filter(lines, a);
  sort(lines, a.sort);
  const std::size_t found = lines.size();
  if (most > 0 && lines.size() > most) lines.resize(most);
  if (a.json) {
    json list = json::array();
    for (const Listing& line : lines) list.push_back(to_json(line));
    const json out = {{"database", database->path()}, {"found", found}, {"plans", list}};
    fmt::print("{}\n", out.dump(2, ' ', false, json::error_handler_t::replace));
  } else if (a.csv) {
    print_csv(lines);
  } else {
    print_table(lines);
    fmt::print("{} {}{} in {}{}\n", found, all ? "plan" : "workload", found == 1 ? "" : "s",
               database->path(), all ? "" : ", each with its best plan (--all shows every plan)");
  }
  return kDone;
}

int db_stats(const DbArguments& a) {
  std::vector<Listing> none;
  filter(none, a);
  auto database = open_database(a);
  std::vector<std::pair<std::string, std::int64_t>> figures;
  for (const auto& [table, count] : database->table_counts())
    figures.emplace_back("rows of " + table, count);
  // The rows of tables are those of the file; what is said of plans is of those the filters let
  // through.
  auto lines = database->list(false);
  filter(lines, a);
  std::map<std::string, std::int64_t> statuses, devices;
  std::int64_t winners = 0, disturbed = 0;
  for (const Listing& line : lines) {
    winners += line.best;
    disturbed += !line.disturbance.empty();
    ++statuses[line.status.empty() ? "never measured" : line.kind + ", " + line.status];
    ++devices[line.device];
  }
  figures.emplace_back("winners", winners);
  figures.emplace_back("plans whose newest measurement was disturbed", disturbed);
  for (const auto& [status, count] : statuses) figures.emplace_back("plans: " + status, count);
  for (const auto& [device, count] : devices) figures.emplace_back("plans on " + device, count);
  std::error_code error;
  const auto bytes = std::filesystem::file_size(database->path(), error);
  if (!error) figures.emplace_back("bytes of the file", static_cast<std::int64_t>(bytes));
  if (a.json) {
    json out = json::object();
    for (const auto& [name, count] : figures)
      out[name.rfind("rows of ", 0) == 0 ? name.substr(8) : name] = count;
    fmt::print("{}\n", out.dump(2, ' ', false, json::error_handler_t::replace));
  } else if (a.csv) {
    fmt::print("figure,value\n");
    for (const auto& [name, count] : figures) fmt::print("{},{}\n", csv_cell(name), count);
  } else {
    Table table({{"figure"}, {"value", Table::Align::kRight}});
    for (const auto& [name, count] : figures) table.add({name, std::to_string(count)});
    fmt::print("{}{}\n", table.render(), database->path());
  }
  return kDone;
}

}  // namespace tenon::cli
