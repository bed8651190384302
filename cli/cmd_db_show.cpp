// tenon db show and best: one plan, and how sure its place is.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/db.h"
#include "cli/json.h"
#include "ir/error.h"
#include "runtime/load.h"

namespace tenon::cli {

namespace {

using nlohmann::json;
using Listing = cache::Database::Listing;

// The fastest other plan that could be launched in the place of this one.
struct Second {
  const Listing* plan = nullptr;
  double gap_us = 0;      // how much slower it is; negative: faster
  bool in_noise = false;  // nearer than the wider of the two spreads
};

Second second_of(const cache::Stored& s, const std::vector<Listing>& rivals) {
  Second second;
  for (const Listing& r : rivals) {
    if (r.plan == s.plan.id || !r.usable || r.status != "ok" || r.kind != s.measurement.kind ||
        !(r.time_us > 0))
      continue;
    if (second.plan == nullptr || r.time_us < second.plan->time_us) second.plan = &r;
  }
  if (second.plan == nullptr) return second;
  second.gap_us = second.plan->time_us - s.measurement.time_us;
  second.in_noise =
      std::abs(second.gap_us) <= std::max(second.plan->spread_us, s.measurement.spread_us);
  return second;
}

json second_json(const Second& second) {
  if (second.plan == nullptr) return {};
  return {{"plan", second.plan->plan},           {"label", second.plan->label},
          {"schedule", second.plan->schedule},   {"time_us", second.plan->time_us},
          {"spread_us", second.plan->spread_us}, {"gap_us", second.gap_us},
          {"in_noise", second.in_noise}};
}

void print_measurement(const cache::Stored& s) {
  if (s.measurement.id == 0) {
    fmt::print("  time      never measured\n");
    return;
  }
  if (s.measurement.samples_us.empty())
    fmt::print("  {:<9} {:.2f} µs; {}\n", s.measurement.kind, s.measurement.time_us,
               s.measurement.protocol);
  else
    fmt::print("  {:<9} {:.2f} µs, half of {} samples within {:.2f} µs; {}\n", s.measurement.kind,
               s.measurement.time_us, s.measurement.samples_us.size(), s.measurement.spread_us,
               s.measurement.protocol);
  if (!s.measurement.disturbance.empty())
    fmt::print("  disturbed {}{}\n", s.measurement.disturbance,
               s.measurement.decides ? " (and let decide by --force)" : "");
  if (s.reference_time_us > 0 && s.measurement.time_us > 0)
    fmt::print("  unfused   {:.2f} µs in the same run: {:.2f}× its speed\n", s.reference_time_us,
               s.reference_time_us / s.measurement.time_us);
}

void print_second(const Second& second) {
  if (second.plan == nullptr) {
    fmt::print("  second    no other plan was measured and checked\n");
    return;
  }
  fmt::print("  second    plan {}: {:.2f} µs, {:.2f} µs {}, {}: {} [{}]\n", second.plan->plan,
             second.plan->time_us, std::abs(second.gap_us), second.gap_us < 0 ? "faster" : "behind",
             second.in_noise ? "within noise" : "beyond noise", second.plan->label,
             second.plan->schedule);
}

void print_stored(const cache::Stored& s, const Second& second) {
  fmt::print("plan {}: {} {} {} {}\n", s.plan.id, s.workload.program, s.workload.dims_json,
             s.workload.dtype, s.workload.attributes_json);
  fmt::print("  µGraph    {} ({})\n  schedule  {}\n", s.mugraph.sha256.substr(0, 12),
             s.mugraph.label, s.schedule.text);
  fmt::print("  valid     m from {} to {}, {}, {} launch{}\n", s.plan.m_min, s.plan.m_max,
             s.plan.device_class, s.plan.dependent_launch ? "dependent" : "plain",
             s.plan.uses_library ? ", with the vendor's library" : "");
  if (const auto weights = weights_of(s)) fmt::print("  weights   {}\n", describe(*weights));
  print_measurement(s);
  print_second(second);
  fmt::print("  status    {}{}, {}{}\n",
             s.measurement.status.empty() ? "none" : s.measurement.status,
             s.measurement.reason.empty() ? "" : " — " + s.measurement.reason,
             s.usable ? "usable" : "not usable", s.note.empty() ? "" : ": " + s.note);
  for (const cache::EvidenceRow& e : s.evidence)
    fmt::print("  {:<9} {}{} ({})\n", e.method, e.verdict, e.reason.empty() ? "" : " — " + e.reason,
               e.created);
  for (const cache::KernelRow& k : s.kernels)
    fmt::print(
        "  kernel    {} {} registers, {} B shared, {} B spilled, compiled in {:.2f} s by NVRTC "
        "{}\n",
        k.target, k.registers, k.shared_bytes, k.spill_bytes, k.compile_seconds, k.nvrtc);
  fmt::print("  on        {} ({}), driver {}, NVRTC {}, tenon {}, {}\n", s.environment.device_name,
             s.environment.device_class,
             s.environment.driver.empty() ? "none" : s.environment.driver,
             s.environment.nvrtc.empty() ? "none" : s.environment.nvrtc, s.environment.tenon,
             s.measurement.created);
}

int show_stored(const DbArguments& a, cache::Database& database,
                const std::optional<cache::Stored>& stored, const std::string& why) {
  if (!stored) {
    fmt::print(stderr, "tenon: {}\n", why);
    return kNothingFound;
  }
  if (a.csv) {
    print_csv(database.list(cache::Database::Which::kOne, stored->plan.id));
    return kDone;
  }
  const auto rivals = database.list(cache::Database::Which::kRivals, stored->plan.id);
  const Second second = second_of(*stored, rivals);
  if (a.json) {
    json out = to_json(*stored);
    out["second"] = second_json(second);
    fmt::print("{}\n", out.dump(2, ' ', false, json::error_handler_t::replace));
  } else {
    print_stored(*stored, second);
  }
  return kDone;
}

}  // namespace

int db_show(const DbArguments& a) {
  const std::int64_t id = parse_integer("plan", a.id, 1, std::numeric_limits<std::int64_t>::max());
  auto database = open_database(a);
  return show_stored(a, *database, database->by_plan(id),
                     fmt::format("there is no plan {} in {}", id, database->path()));
}

int db_best(const DbArguments& a) {
  ir::Workload workload = a.workload.make();
  const bool dependent = parse_launch(a.launch);
  auto device = runtime::open_device(a.device);
  auto database = open_database(a);
  std::string why;
  auto stored = database->best(runtime::make_query(workload, device->info(), dependent), &why);
  return show_stored(a, *database, stored, why);
}

}  // namespace tenon::cli
