// tenon db: what the tuning database holds.
#include <fmt/format.h>

#include "cache/database.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/table.h"
#include "ir/error.h"
#include "runtime/load.h"

namespace tenon::cli {

namespace {

using json = nlohmann::json;

struct Arguments {
  std::string database;
  bool json = false;
  std::string id;                        // show
  WorkloadOptions workload;              // best
  std::string device, launch = "plain";  // best
};

std::unique_ptr<cache::Database> open(const Arguments& a) {
  return cache::Database::open(a.database.empty() ? cache::default_path() : a.database, true);
}

int list(const Arguments& a) {
  auto database = open(a);
  auto rows = database->list(false);
  if (a.json) {
    json out = json::array();
    for (const auto& r : rows)
      out.push_back({{"plan", r.plan},
                     {"program", r.program},
                     {"dims", r.dims},
                     {"dtype", r.dtype},
                     {"device", r.device},
                     {"mugraph", r.mugraph},
                     {"schedule", r.schedule},
                     {"status", r.status},
                     {"kind", r.kind},
                     {"time_us", r.time_us},
                     {"spread_us", r.spread_us},
                     {"created", r.created},
                     {"best", r.best}});
    fmt::print("{}\n", out.dump(2));
    return kDone;
  }
  Table table({{"plan", Table::Align::kRight},
               {"best"},
               {"program"},
               {"dims"},
               {"dtype"},
               {"device", Table::Align::kLeft, 24},
               {"µGraph", Table::Align::kLeft, 12},
               {"schedule", Table::Align::kLeft, 48},
               {"status"},
               {"kind"},
               {"µs", Table::Align::kRight},
               {"± µs", Table::Align::kRight}});
  for (const auto& r : rows)
    table.add({fmt::format("{}", r.plan), r.best ? "*" : "", r.program, r.dims, r.dtype, r.device,
               r.mugraph.substr(0, 11), r.schedule, r.status, r.kind,
               r.time_us > 0 ? fmt::format("{:.2f}", r.time_us) : "",
               fmt::format("{:.2f}", r.spread_us)});
  fmt::print("{}{} plans in {}\n", table.empty() ? "" : table.render(), rows.size(),
             database->path());
  return kDone;
}

json stored_json(const cache::Stored& s) {
  json evidence = json::array();
  for (const cache::EvidenceRow& e : s.evidence)
    evidence.push_back({{"method", e.method},
                        {"verdict", e.verdict},
                        {"reason", e.reason},
                        {"seconds", e.seconds},
                        {"figures", e.figures_json}});
  json kernels = json::array();
  for (const cache::KernelRow& k : s.kernels)
    kernels.push_back({{"target", k.target},
                       {"registers", k.registers},
                       {"shared_bytes", k.shared_bytes},
                       {"spill_bytes", k.spill_bytes},
                       {"compile_seconds", k.compile_seconds},
                       {"nvrtc", k.nvrtc},
                       {"cubin_sha256", k.cubin_sha256}});
  return {{"plan", s.plan.id},
          {"program", s.workload.program},
          {"dims", s.workload.dims_json},
          {"dtype", s.workload.dtype},
          {"mugraph", s.mugraph.sha256},
          {"label", s.mugraph.label},
          {"schedule", s.schedule.text},
          {"status", s.measurement.status},
          {"kind", s.measurement.kind},
          {"time_us", s.measurement.time_us},
          {"spread_us", s.measurement.spread_us},
          {"samples", s.measurement.samples_us},
          {"protocol", s.measurement.protocol},
          {"measured", s.measurement.created},
          {"reference_time_us", s.reference_time_us},
          {"usable", s.usable},
          {"evidence", evidence},
          {"kernels", kernels},
          {"device_name", s.environment.device_name},
          {"device_class", s.environment.device_class},
          {"driver", s.environment.driver},
          {"nvrtc", s.environment.nvrtc},
          {"tenon", s.environment.tenon},
          {"m_min", s.plan.m_min},
          {"m_max", s.plan.m_max}};
}

void print_stored(const cache::Stored& s) {
  fmt::print("plan {}: {} {} {}\n", s.plan.id, s.workload.program, s.workload.dims_json,
             s.workload.dtype);
  fmt::print("  µGraph    {} ({})\n  schedule  {}\n", s.mugraph.sha256.substr(0, 12),
             s.mugraph.label, s.schedule.text);
  fmt::print("  valid     m from {} to {}, {}{}\n", s.plan.m_min, s.plan.m_max, s.plan.device_class,
             s.plan.dependent_launch ? ", dependent launch" : "");
  fmt::print("  {:<9} {:.2f} ± {:.2f} µs, {} samples, {}\n", s.measurement.kind,
             s.measurement.time_us, s.measurement.spread_us, s.measurement.samples_us.size(),
             s.measurement.protocol);
  if (s.reference_time_us > 0)
    fmt::print("  unfused   {:.2f} µs in the same run\n", s.reference_time_us);
  fmt::print("  status    {}{}, {}\n", s.measurement.status,
             s.measurement.reason.empty() ? "" : " — " + s.measurement.reason,
             s.usable ? "usable" : "not usable");
  for (const cache::EvidenceRow& e : s.evidence)
    fmt::print("  {:<9} {}{}\n", e.method, e.verdict, e.reason.empty() ? "" : " — " + e.reason);
  for (const cache::KernelRow& k : s.kernels)
    fmt::print(
        "  kernel    {} {} registers, {} B shared, {} B spilled, compiled in {:.2f} s by NVRTC "
        "{}\n",
        k.target, k.registers, k.shared_bytes, k.spill_bytes, k.compile_seconds, k.nvrtc);
  fmt::print("  on        {} ({}), driver {}, tenon {}, {}\n", s.environment.device_name,
             s.environment.device_class,
             s.environment.driver.empty() ? "none" : s.environment.driver, s.environment.tenon,
             s.measurement.created);
}

int show_stored(const Arguments& a, const std::optional<cache::Stored>& stored,
                const std::string& why) {
  if (!stored) {
    fmt::print(stderr, "tenon: {}\n", why);
    return kNothingFound;
  }
  if (a.json)
    fmt::print("{}\n", stored_json(*stored).dump(2));
  else
    print_stored(*stored);
  return kDone;
}

int show(const Arguments& a) {
  std::int64_t id = parse_integer("plan", a.id, 1, std::numeric_limits<std::int64_t>::max());
  auto database = open(a);
  return show_stored(a, database->by_plan(id),
                     fmt::format("there is no plan {} in {}", id, database->path()));
}

int best(const Arguments& a) {
  ir::Workload workload = a.workload.make();
  const bool dependent = parse_launch(a.launch);
  auto device = runtime::open_device(a.device);
  auto database = open(a);
  std::string why;
  auto stored = database->best(runtime::make_query(workload, device->info(), dependent), &why);
  return show_stored(a, stored, why);
}

int stats(const Arguments& a) {
  auto database = open(a);
  auto counts = database->table_counts();
  if (a.json) {
    json out = json::object();
    for (const auto& [table, count] : counts) out[table] = count;
    fmt::print("{}\n", out.dump(2));
    return kDone;
  }
  Table table({{"table"}, {"rows", Table::Align::kRight}});
  for (const auto& [name, count] : counts) table.add({name, fmt::format("{}", count)});
  fmt::print("{}{}\n", table.render(), database->path());
  return kDone;
}

}  // namespace

void add_db(CLI::App& app, Command& run) {
  auto* command = app.add_subcommand("db", "Inspect the tuning database");
  command->require_subcommand(1);
  auto arguments = std::make_shared<Arguments>();
  arguments->device = environment("TENON_DEVICE", "auto");
  auto add = [&](const char* name, const char* help, int (*body)(const Arguments&)) {
    auto* sub = command->add_subcommand(name, help);
    sub->add_option("--db", arguments->database,
                    "Tuning database (default: $TENON_DB, else the data folder of the user)");
    sub->add_flag("--json", arguments->json, "JSON on stdout");
    sub->callback(
        [arguments, body, &run] { run = [arguments, body] { return body(*arguments); }; });
    return sub;
  };
  add("ls", "Every plan with its newest measurement", list);
  add("stats", "Rows of each table", stats);
  add("show", "All that is known of one plan", show)
      ->add_option("plan", arguments->id, "Number of the plan (tenon db ls)")
      ->required();
  auto* best_command =
      add("best", "The plan that would be launched for a shape, or why there is none", best);
  arguments->workload.add_to(*best_command);
  best_command->add_option("--device", arguments->device, "auto, host, cuda:N or compile:sm_XX")
      ->capture_default_str();
  best_command->add_option("--launch", arguments->launch, "plain or dependent")
      ->capture_default_str();
}

}  // namespace tenon::cli
