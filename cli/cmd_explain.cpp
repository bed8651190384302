// tenon explain: one stored plan in full: graph, evidence, schedule, source, resources, why it won.
#include <fmt/format.h>

#include <algorithm>

#include "cache/database.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "ir/error.h"
#include "ir/plan.h"

namespace tenon::cli {

namespace {

using nlohmann::json;

struct Arguments {
  std::string id, database;
  bool source = false, json = false;
};

std::string indent(const std::string& text) {
  std::string out = "  ";
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) out += "  ";
  }
  return out;
}

// Plans of the same workload and device that have a time, fastest first.
std::vector<cache::Database::Listing> rivals_of(cache::Database& database, const cache::Stored& s) {
  std::vector<cache::Database::Listing> rivals;
  cache::Database::Listing own;
  auto rows = database.list(false);
  for (const auto& r : rows)
    if (r.plan == s.plan.id) own = r;
  for (const auto& r : rows)
    if (r.plan != s.plan.id && r.program == own.program && r.dims == own.dims &&
        r.dtype == own.dtype && r.device == own.device && r.kind == own.kind && r.status == "ok" &&
        r.time_us > 0)
      rivals.push_back(r);
  std::stable_sort(rivals.begin(), rivals.end(),
                   [](const auto& a, const auto& b) { return a.time_us < b.time_us; });
  return rivals;
}

// Why it won.
void print_rivals(const std::vector<cache::Database::Listing>& rivals, const cache::Stored& s) {
  fmt::print("\n# Why\n");
  if (s.reference_time_us > 0 && s.measurement.time_us > 0)
    fmt::print("  {:.2f}× the speed of the unfused form ({:.2f} µs in the same run)\n",
               s.reference_time_us / s.measurement.time_us, s.reference_time_us);
  if (rivals.empty()) fmt::print("  no other candidate of this workload has a time\n");
  for (std::size_t i = 0; i < std::min<std::size_t>(rivals.size(), 3); ++i)
    fmt::print("  {:+.2f} µs ({:+.1f}%) against plan {}: {} {}\n",
               rivals[i].time_us - s.measurement.time_us,
               100 * (rivals[i].time_us / s.measurement.time_us - 1), rivals[i].plan,
               rivals[i].mugraph.substr(0, 12), rivals[i].schedule);
}

// The same as a whole: every rival, and with --source the sources.
json explained(const cache::Stored& s, const std::vector<cache::Database::Listing>& rivals,
               bool source) {
  json out = to_json(s);
  out["program_text"] = s.workload.program_text;
  out["mugraph_text"] = s.mugraph.text;
  if (source)
    for (std::size_t i = 0; i < s.kernels.size(); ++i)
      out["kernels"][i]["source"] = s.kernels[i].source;
  out["rivals"] = json::array();
  for (const auto& r : rivals)
    out["rivals"].push_back({{"plan", r.plan},
                             {"mugraph", r.mugraph},
                             {"label", r.label},
                             {"schedule", r.schedule},
                             {"time_us", r.time_us},
                             {"spread_us", r.spread_us},
                             {"gap_us", r.time_us - s.measurement.time_us}});
  return out;
}

int explain(const Arguments& a) {
  std::int64_t id = parse_integer("id", a.id, 1, std::numeric_limits<std::int64_t>::max());
  auto database =
      cache::Database::open(a.database.empty() ? cache::default_path() : a.database, true);
  auto stored = database->by_plan(id);
  if (!stored) {
    fmt::print(stderr, "tenon: there is no plan {} in {}\n", id, database->path());
    return kNothingFound;
  }
  const cache::Stored& s = *stored;
  const auto rivals = rivals_of(*database, s);
  if (a.json) {
    fmt::print("{}\n",
               explained(s, rivals, a.source).dump(2, ' ', false, json::error_handler_t::replace));
    return kDone;
  }
  fmt::print("plan {}: {} {} {} on {}\n", s.plan.id, s.workload.program, s.workload.dims_json,
             s.workload.dtype, s.environment.device_name);
  fmt::print("{} {:.2f} ± {:.2f} µs ({})\n", s.measurement.kind, s.measurement.time_us,
             s.measurement.spread_us, s.measurement.protocol);
  fmt::print("\n# Program\n{}\n# µGraph {} ({})\n{}", indent(s.workload.program_text),
             s.mugraph.sha256, s.mugraph.label, indent(s.mugraph.text));
  fmt::print("\n# Evidence\n");
  for (const cache::EvidenceRow& e : s.evidence)
    fmt::print("  {:<9} {}{} ({:.3f} s)\n            {}\n", e.method, e.verdict,
               e.reason.empty() ? "" : ": " + e.reason, e.seconds, e.figures_json);
  fmt::print("\n# Schedule\n  {}\n", s.schedule.text);
  if (!s.kernels.empty()) fmt::print("\n# Kernels\n");
  for (const cache::KernelRow& k : s.kernels) {
    fmt::print(
        "  {} for {}: {} registers, {} B static shared, {} B spilled, {:.2f} s in NVRTC {} ({})\n",
        k.source_sha256.substr(0, 12), k.target, k.registers, k.shared_bytes, k.spill_bytes,
        k.compile_seconds, k.nvrtc, k.options);
    if (a.source) fmt::print("{}\n", k.source);
  }
  if (!s.kernels.empty() && !a.source) fmt::print("  --source prints the CUDA source\n");
  print_rivals(rivals, s);
  return kDone;
}

}  // namespace

void add_explain(CLI::App& app, Command& run) {
  auto* command = app.add_subcommand(
      "explain",
      "Why a stored plan is what it is: graph, evidence, schedule, source, resources, rivals");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("id", arguments->id, "Number of the plan (tenon db ls)")->required();
  command->add_option("--db", arguments->database,
                      "Tuning database (default: $TENON_DB, else the data folder of the user)");
  command->add_flag("--source", arguments->source, "Print the CUDA sources too");
  command->add_flag("--json", arguments->json, "One JSON object on stdout");
  command->callback([arguments, &run] { run = [arguments] { return explain(*arguments); }; });
}

}  // namespace tenon::cli
