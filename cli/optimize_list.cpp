// tenon optimize --workloads, and on several devices: results as they come, then a table.
#include "cli/optimize_list.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/cli.h"
#include "cli/json.h"
#include "cli/progress_bar.h"
#include "cli/table.h"

namespace tenon::cli {

namespace {

using nlohmann::json;

std::string time_of(const optimizer::ManyOutcome& o) {
  return o.report.best ? fmt::format("{:.2f}", o.report.best->time_us) : "";
}

std::string speedup_of(const optimizer::ManyOutcome& o) {
  if (!o.report.best || !(o.report.best->reference_time_us > 0) || !(o.report.best->time_us > 0))
    return "";
  return fmt::format("{:.2f}", o.report.best->reference_time_us / o.report.best->time_us);
}

std::string stop_of(const optimizer::ManyOutcome& o) {
  return o.error.empty() ? o.report.stop_reason : o.error;
}

void print_line(const optimizer::ManyOutcome& o) {
  if (!o.report.best) {
    fmt::print("{} on {}: {}\n", ir::print(o.report.workload), o.device, stop_of(o));
  } else {
    const std::string speedup = speedup_of(o);
    fmt::print("{} on {}: {} µs {}{}, plan {}{}\n", ir::print(o.report.workload), o.device,
               time_of(o), o.report.best->kind,
               speedup.empty() ? "" : ", " + speedup + "× the unfused form", o.report.best->plan,
               o.report.from_database ? ", from the database" : "");
  }
  std::fflush(stdout);
}

void print_summary(const std::vector<optimizer::ManyOutcome>& outcomes, std::size_t total) {
  Table table({{"workload", Table::Align::kLeft, 64},
               {"device"},
               {"µs", Table::Align::kRight},
               {"× unfused", Table::Align::kRight},
               {"plan", Table::Align::kRight},
               {"form", Table::Align::kLeft, 40},
               {"ended", Table::Align::kLeft, 48}});
  std::size_t found = 0, compared = 0;
  double log_sum = 0;
  for (const optimizer::ManyOutcome& o : outcomes) {
    const bool best = o.report.best.has_value();
    found += best;
    if (!speedup_of(o).empty()) {
      ++compared;
      log_sum += std::log(o.report.best->reference_time_us / o.report.best->time_us);
    }
    table.add({ir::print(o.report.workload), o.device, time_of(o), speedup_of(o),
               best ? fmt::format("{}", o.report.best->plan) : "", best ? o.report.best->label : "",
               stop_of(o)});
  }
  fmt::print("\n{}\n{} of {} have a winner", table.render(), found, total);
  if (compared > 0)
    fmt::print(", {:.2f}× the unfused form in the geometric mean",
               std::exp(log_sum / static_cast<double>(compared)));
  fmt::print("\n");
  if (!outcomes.empty() && !outcomes[0].report.database.empty())
    fmt::print("stored in {}\n", outcomes[0].report.database);
}

json outcome_json(const optimizer::ManyOutcome& o) {
  if (!o.error.empty())
    return {{"workload", to_json(o.report.workload)}, {"device", o.device}, {"error", o.error}};
  json out = to_json(o.report);
  out.erase("candidates");  // a list of lists is for the database
  return out;
}

}  // namespace

int optimize_list(const optimizer::ManyOptions& options, bool as_json,
                  const Interruption& interruption) {
  const std::size_t total = optimizer::outcomes_of(options);
  ProgressBar progress;
  progress.begin("workloads", static_cast<std::int64_t>(total));
  std::size_t found = 0;
  const auto start = std::chrono::steady_clock::now();
  auto outcomes = optimizer::optimize_many(options, interruption.token(),
                                           [&](const optimizer::ManyOutcome& outcome) {
                                             found += outcome.report.best.has_value();
                                             progress.clear();
                                             if (!as_json) print_line(outcome);
                                             progress.advance(1);
                                           });
  progress.end(fmt::format("{} of {} have a winner", found, total),
               std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  if (as_json) {
    json list = json::array();
    for (const optimizer::ManyOutcome& o : outcomes) list.push_back(outcome_json(o));
    fmt::print("{}\n", json{{"workloads", list}, {"found", found}, {"total", total}}.dump(2));
  } else {
    print_summary(outcomes, total);
  }
  return found == total ? kDone : kNothingFound;
}

}  // namespace tenon::cli
