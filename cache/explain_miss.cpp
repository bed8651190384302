#include "cache/explain_miss.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "cache/read_rows.h"
#include "cache/select.h"

namespace tenon::cache {
namespace {

using nlohmann::json;

// Beyond so many rows an explanation is not worth its time.
constexpr int kMostExamined = 10000;

// "k" of {"dims": {"k": 576}} as ("k", "576"): the fields of a workload key, one level deep.
std::vector<std::pair<std::string, std::string>> fields_of(const std::string& key) {
  std::vector<std::pair<std::string, std::string>> fields;
  json parsed = json::parse(key, nullptr, false);
  if (!parsed.is_object()) return fields;
  auto text = [](const json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  for (const auto& [name, value] : parsed.items()) {
    if (!value.is_object()) {
      fields.emplace_back(name, text(value));
      continue;
    }
    for (const auto& [inner, number] : value.items()) fields.emplace_back(inner, text(number));
  }
  return fields;
}

// Two programs of one name: the first line in which they differ, as the layout of an input.
std::string program_difference(const std::string& stored, const std::string& asked) {
  std::istringstream have(stored), want(asked);
  std::string has, wants;
  while (!asked.empty() && std::getline(have, has) && std::getline(want, wants))
    if (has != wants) return fmt::format("the program has '{}', not '{}'", has, wants);
  return "the program has another text";
}

// What is compared: a workload's key and its program.
struct Named {
  std::string key, program_text;
};

// "k is 576, not 1024; dtype is fp16, not bf16": what `stored` has and `asked` has not. The number
// of differences comes first, so that the nearest sorts first.
std::pair<int, std::string> differences(const Named& stored, const Named& asked) {
  auto have = fields_of(stored.key), want = fields_of(asked.key);
  int count = 0;
  std::string text;
  for (const auto& [name, value] : have) {
    auto same = std::find_if(want.begin(), want.end(),
                             [&name = name](const auto& f) { return f.first == name; });
    if (same != want.end() && same->second == value) continue;
    ++count;
    if (!text.empty()) text += "; ";
    text += name == "program_id" ? program_difference(stored.program_text, asked.program_text)
                                 : fmt::format("{} is {}, not {}", name, value,
                                               same == want.end() ? "unset" : same->second);
  }
  for (const auto& [name, value] : want) {
    if (std::any_of(have.begin(), have.end(),
                    [&name = name](const auto& f) { return f.first == name; }))
      continue;
    ++count;
    text += fmt::format("{}{} is unset, not {}", text.empty() ? "" : "; ", name, value);
  }
  return {count, text};
}

std::string program_of(const std::string& key) {
  json parsed = json::parse(key, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("program") || !parsed["program"].is_string())
    return "";
  return parsed["program"].get<std::string>();
}

// No workload has the key: the nearest of the same program.
std::string explain_key(Connection& connection, const Query& query) {
  const std::string program = program_of(query.workload_key);
  std::pair<int, std::string> nearest{0, ""};
  {
    Rows rows(connection,
              "SELECT DISTINCT key, program_text FROM workload WHERE program = ? LIMIT ?", program,
              kMostExamined);
    while (rows.next()) {
      auto found =
          differences({rows.text(0), rows.text(1)}, {query.workload_key, query.program_text});
      if (found.first > 0 && (nearest.first == 0 || found < nearest)) nearest = found;
    }
  }
  if (nearest.first > 0)
    return fmt::format("no such workload is stored; of the nearest {}", nearest.second);
  std::string programs;
  Rows rows(connection, "SELECT DISTINCT program FROM workload ORDER BY program LIMIT 10");
  while (rows.next()) programs += (programs.empty() ? "" : ", ") + rows.text(0);
  if (programs.empty()) return "the database has no workload";
  return fmt::format("nothing is stored for program {}; programs stored: {}", program, programs);
}

// How far a plan comes through the conditions, in their order, and where it stops.
struct Miss {
  int passed = 0;
  double time_us = 0;  // of several that stop at the same place the fastest is told
  std::string why;
};

struct PlanFacts {
  Candidate candidate;
  std::string device_class;
  std::int64_t m_min = 0, m_max = 0;
  bool dependent_launch = false, uses_library = false, has_text = false;
};

Miss examine(Connection& connection, const Query& query, PlanFacts& plan) {
  read_measurement(connection, query, plan.candidate);
  auto miss = [&](int passed, std::string why) {
    return Miss{passed, plan.candidate.time_us, std::move(why)};
  };
  if (plan.device_class != query.device_class) {
    return miss(
        0, fmt::format("it is for device class {}, not {}", plan.device_class, query.device_class));
  }
  if (!plan.has_text) {
    std::string problem = measurement_problem(plan.candidate, query);
    return miss(1, problem.empty() ? "it has no launch plan" : problem);
  }
  if (query.m < plan.m_min || query.m > plan.m_max) {
    return miss(
        2, fmt::format("it is valid for m from {} to {}, not {}", plan.m_min, plan.m_max, query.m));
  }
  if (plan.dependent_launch != query.dependent_launch) {
    return miss(3, plan.dependent_launch ? "it is for dependent launch" : "it is for plain launch");
  }
  if (plan.uses_library && !query.allow_library) return miss(4, "it uses the vendor's library");
  if (std::string problem = measurement_problem(plan.candidate, query); !problem.empty()) {
    return miss(5, problem);
  }
  if (std::string problem = evidence_problem(connection, plan.candidate); !problem.empty()) {
    return miss(6, problem);
  }
  const Stored stored = read_stored(connection, plan.candidate.plan, plan.candidate.measurement);
  if (std::string problem = damage_of(stored, query.damage); !problem.empty())
    return miss(7, problem);
  std::string problem = query.refuse ? query.refuse(stored) : "";
  return miss(8, problem.empty() ? "it was stored a moment ago" : problem);
}

}  // namespace

std::string explain_miss(Connection& connection, const Query& query) {
  std::vector<PlanFacts> plans;
  bool known = false;
  {
    Rows rows(
        connection,
        "SELECT p.id, p.mugraph, p.device_class, p.m_min, p.m_max, p.dependent_launch, "
        "p.uses_library, "
        "p.text <> '', w.program_sha256 FROM workload w LEFT JOIN plan p ON p.workload = w.id "
        "WHERE w.key = ? LIMIT ?",
        query.workload_key, kMostExamined);
    while (rows.next()) {
      known = true;
      if (rows.null(0)) continue;
      PlanFacts plan;
      plan.candidate.plan = rows.integer(0);
      plan.candidate.mugraph = rows.integer(1);
      plan.device_class = rows.text(2);
      plan.m_min = rows.integer(3);
      plan.m_max = rows.integer(4);
      plan.dependent_launch = rows.integer(5) != 0;
      plan.uses_library = rows.integer(6) != 0;
      plan.has_text = rows.integer(7) != 0;
      plan.candidate.program_sha256 = rows.text(8);
      plans.push_back(std::move(plan));
    }
  }
  if (!known) return explain_key(connection, query);
  if (plans.empty()) return "the workload is stored, but no plan for it";
  Miss nearest{-1, 0, ""};
  std::int64_t nearest_plan = 0;
  for (PlanFacts& plan : plans) {
    Miss miss = examine(connection, query, plan);
    if (std::tuple(-miss.passed, miss.time_us) < std::tuple(-nearest.passed, nearest.time_us)) {
      nearest = std::move(miss);
      nearest_plan = plan.candidate.plan;
    }
  }
  return fmt::format("of {} plans stored for the workload the nearest is plan {}, but {}",
                     plans.size(), nearest_plan, nearest.why);
}

}  // namespace tenon::cache
