#include "optimizer/workloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/error.h"

namespace tenon::optimizer {

namespace {

using nlohmann::json;

constexpr std::size_t kMostWorkloads = 100000;
constexpr int kMostDepth = 4;

using Entry = std::map<std::string, std::string>;  // as text; what it means the program says

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw UserError(fmt::format("workloads: {}: {}", where, what));
}

bool passed_over(const std::string& field) {
  return field == "name" || field == "note" || field == "count";
}

// A scalar as text.
std::string text_of(const json& value, const std::string& where, const std::string& field) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return value.dump();
  fail(where, fmt::format("'{}' is {}; accepted: a number or a string", field, value.type_name()));
}

std::vector<Entry> entries_of_json(const std::string& text) {
  // The parser builds no deeper than this: what is nested further makes no sense here.
  bool too_deep = false;
  json parsed = json::parse(
      text,
      [&](int depth, json::parse_event_t, json&) {
        too_deep = too_deep || depth > kMostDepth;
        return !too_deep;
      },
      false);
  if (too_deep || parsed.is_discarded()) fail("the list", "it is no JSON that makes sense here");
  const json* list = &parsed;
  if (parsed.is_object()) {
    if (!parsed.contains("workloads")) fail("the list", "an object without 'workloads'");
    list = &parsed["workloads"];
  }
  if (!list->is_array()) fail("the list", "it is no array of objects");
  if (list->size() > kMostWorkloads)
    fail("the list",
         fmt::format("it has {} entries; accepted: up to {}", list->size(), kMostWorkloads));
  std::vector<Entry> entries;
  for (const json& item : *list) {
    const std::string where = fmt::format("entry {}", entries.size() + 1);
    if (!item.is_object()) fail(where, "it is no object");
    Entry entry;
    for (const auto& [field, value] : item.items()) {
      if (passed_over(field)) continue;
      if (value.is_object() && (field == "dims" || field == "attributes")) {
        for (const auto& [inner, number] : value.items())
          entry[inner] = text_of(number, where, inner);
      } else {
        entry[field] = text_of(value, where, field);
      }
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string trimmed(const std::string& text) {
  const char* blank = " \t\r";
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

// The cells of a line (RFC 4180, without line breaks inside quotes).
std::vector<std::string> cells_of(const std::string& line, const std::string& where) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += c;
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) fail(where, "a quote is not closed");
  for (std::string& cell : cells) cell = trimmed(cell);
  return cells;
}

std::vector<Entry> entries_of_csv(const std::string& text) {
  std::vector<Entry> entries;
  std::vector<std::string> columns;
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = trimmed(text.substr(at, end - at));
    at = end + 1;
    const std::string where = fmt::format("line {}", ++number);
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> cells = cells_of(line, where);
    if (columns.empty()) {
      columns = std::move(cells);
      for (const std::string& column : columns)
        if (column.empty() || std::count(columns.begin(), columns.end(), column) > 1)
          fail(where, fmt::format("column '{}' has no name, or the name of another", column));
      continue;
    }
    if (cells.size() != columns.size())
      fail(where, fmt::format("it has {} cells, the first line {}", cells.size(), columns.size()));
    if (entries.size() == kMostWorkloads)
      fail("the list", fmt::format("accepted: up to {} entries", kMostWorkloads));
    Entry entry;
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (!passed_over(columns[i]) && !cells[i].empty()) entry[columns[i]] = cells[i];
    entries.push_back(std::move(entry));
  }
  return entries;
}

double number_of(const std::string& text, const std::string& where, const std::string& field) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    fail(where, fmt::format("'{}' is '{}'; accepted: a finite number", field, text.substr(0, 40)));
  return value;
}

ir::Workload workload_of(Entry entry, const std::string& where, const LoadProgram& load,
                         const std::string& default_program) {
  auto take = [&](const char* field, const std::string& fallback) {
    auto node = entry.extract(field);
    return node.empty() ? fallback : node.mapped();
  };
  const std::string name = take("program", default_program);
  if (name.empty()) fail(where, "it has no 'program'");
  const std::string dtype_name = take("dtype", "bf16");
  auto dtype = ir::dtype_from_name(dtype_name);
  if (!dtype || *dtype == ir::DType::kElem)
    fail(where,
         fmt::format("'dtype' is '{}'; accepted: bf16, fp16, fp32", dtype_name.substr(0, 40)));
  try {
    const ir::Program program = load(name);
    std::map<std::string, std::int64_t> dims;
    std::map<std::string, double> attributes;
    for (const auto& [field, text] : entry) {
      const double value = number_of(text, where, field);
      const auto& known = program.signature.dims;
      if (std::find(known.begin(), known.end(), field) == known.end()) {
        attributes[field] = value;  // make_workload refuses what the program has not
      } else if (value >= 1 && value <= 2147483647.0 && value == std::floor(value)) {
        dims[field] = static_cast<std::int64_t>(value);
      } else {
        fail(where, fmt::format("'{}' is '{}'; accepted: an integer from 1 to 2147483647", field,
                                text.substr(0, 40)));
      }
    }
    return ir::make_workload(program, dims, *dtype, attributes);
  } catch (const UserError& error) {
    const std::string what = error.what();
    if (what.rfind("workloads: ", 0) == 0) throw;
    fail(where, what);
  }
}

}  // namespace

std::vector<ir::Workload> parse_workloads(const std::string& text, const LoadProgram& load,
                                          const std::string& program) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && (text[first] == '[' || text[first] == '{');
  std::vector<Entry> entries = is_json ? entries_of_json(text) : entries_of_csv(text);
  if (entries.empty()) fail("the list", "it has no entries");
  std::vector<ir::Workload> workloads;
  for (std::size_t i = 0; i < entries.size(); ++i)
    workloads.push_back(
        workload_of(std::move(entries[i]), fmt::format("entry {}", i + 1), load, program));
  return workloads;
}

}  // namespace tenon::optimizer
