// tenon run: launch the stored kernel, check it, time it.
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/json.h"
#include "ir/error.h"
#include "measure/measure.h"
#include "runtime/load.h"

namespace tenon::cli {

namespace {

struct Arguments {
  WorkloadOptions workload;
  std::string device, database, seed;
  std::string launch = "plain";
  bool json = false;
};

int run_stored(const Arguments& a) {
  ir::Workload workload = a.workload.make();
  std::uint64_t seed = static_cast<std::uint64_t>(
      parse_integer("--seed", a.seed, 0, std::numeric_limits<std::int64_t>::max()));
  const bool dependent = parse_launch(a.launch);
  std::unique_ptr<runtime::Device> device = runtime::open_device(a.device);
  auto database =
      cache::Database::open(a.database.empty() ? cache::default_path() : a.database, true);
  std::string why;
  auto stored = database->best(runtime::make_query(workload, device->info(), dependent), &why);
  if (!stored) {
    fmt::print(stderr, "tenon: nothing is stored for {} on {}: {}\n", ir::print(workload),
               device->info().id, why);
    return kNothingFound;
  }
  if (!device->info().executes) {
    fmt::print(stderr,
               "tenon: plan {} is estimated at {:.2f} µs, not measured; {} executes nothing\n",
               stored->plan.id, stored->measurement.time_us, device->info().id);
    return kNothingFound;
  }
  ir::LaunchPlan plan = ir::parse_plan(stored->plan.text);
  // What is asked for is checked and timed, not what the plan was tuned at.
  std::int64_t tuned_m = 1;
  if (plan.dynamic_dim >= 0)
    tuned_m = std::exchange(plan.extents[static_cast<std::size_t>(plan.dynamic_dim)],
                            runtime::dynamic_extent(workload));
  measure::Candidate candidate{plan, {}};
  for (const cache::KernelRow& kernel : stored->kernels) candidate.cubins.push_back(kernel.cubin);
  auto runner = measure::make_local_runner(device->info().id, workload);
  verifier::Evidence numeric = runner->accept(candidate, seed);
  measure::Protocol protocol;
  protocol.dependent_launch = dependent;
  measure::Timing timing = runner->time({candidate}, protocol)[0];
  bool good = numeric.verdict == verifier::Verdict::kPass && timing.status == measure::Status::kOk;
  if (a.json) {
    nlohmann::json out = {{"workload", to_json(workload)},
                          {"device", device->info().id},
                          {"plan", stored->plan.id},
                          {"mugraph", stored->mugraph.sha256},
                          {"schedule", stored->schedule.text},
                          {"stored_time_us", stored->measurement.time_us},
                          {"tuned_m", tuned_m},
                          {"time_us", timing.median_us},
                          {"spread_us", timing.spread_us},
                          {"status", measure::name(timing.status)},
                          {"numeric", to_json(numeric)}};
    fmt::print("{}\n", out.dump(2));
  } else {
    fmt::print("{} on {}\n", ir::print(workload), device->info().id);
    fmt::print("  plan      {} ({})\n  schedule  {}\n", stored->plan.id, stored->mugraph.label,
               stored->schedule.text);
    fmt::print("  numeric   {}{}\n", verifier::name(numeric.verdict),
               numeric.reason.empty() ? "" : " — " + numeric.reason);
    if (timing.status == measure::Status::kOk)
      fmt::print("  time      {:.2f} ± {:.2f} µs now, {:.2f} µs when it was stored{}\n",
                 timing.median_us, timing.spread_us, stored->measurement.time_us,
                 plan.dynamic_dim < 0 || tuned_m == runtime::dynamic_extent(workload)
                     ? ""
                     : fmt::format(", at m={}", tuned_m));
    else
      fmt::print("  time      {} — {}\n", measure::name(timing.status), timing.reason);
    if (!why.empty()) fmt::print("  note      {}\n", why);
  }
  return good ? kDone : kNothingFound;
}

}  // namespace

void add_run(CLI::App& app, Command& run) {
  auto* command = app.add_subcommand(
      "run", "Launch the stored kernel for a shape, check its result and time it");
  auto arguments = std::make_shared<Arguments>();
  arguments->workload.add_to(*command);
  arguments->device = environment("TENON_DEVICE", "auto");
  arguments->seed = environment("TENON_SEED", "0");
  command->add_option("--device", arguments->device, "auto, host, cuda:N or compile:sm_XX")
      ->capture_default_str();
  command->add_option("--db", arguments->database,
                      "Tuning database (default: $TENON_DB, else the data folder of the user)");
  command->add_option("--launch", arguments->launch, "plain or dependent")->capture_default_str();
  command->add_option("--seed", arguments->seed, "Seed of the inputs")->capture_default_str();
  command->add_flag("--json", arguments->json, "One JSON object on stdout");
  command->callback([arguments, &run] { run = [arguments] { return run_stored(*arguments); }; });
}

}  // namespace tenon::cli
