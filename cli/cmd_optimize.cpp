// tenon optimize: search, verify, compile, measure, store.
#include <fmt/format.h>

#include <thread>

#include "cli/cli.h"
#include "cli/json.h"
#include "cli/optimize_list.h"
#include "cli/progress_bar.h"
#include "cli/table.h"
#include "ir/error.h"
#include "optimizer/many.h"
#include "optimizer/optimize.h"
#include "optimizer/workloads.h"
#include "search/strategy.h"

namespace tenon::cli {

namespace {

struct Arguments {
  WorkloadOptions workload;
  std::string device, database, budget = "60s", seed, dump_search;
  std::string launch = "plain", strategy = "neighbours";
  int top = 12, schedules = 24;
  std::string workloads;  // a file
  bool in_process = false, force = false;
  bool json = false, retune = false, explain_search = false;
};

constexpr const char* kStopped =
    "interrupted; what was measured so far is stored, and the same command goes on from there";
constexpr std::size_t kShownId = 12;  // hex digits of an identity in tables

void print_evidence(const optimizer::BestReport& best) {
  for (const char* method : {"random", "z3", "induction", "numeric"}) {
    auto it = best.evidence.find(method);
    if (it == best.evidence.end()) continue;
    const verifier::Evidence& e = it->second;
    fmt::print("  {:<9} {}{}\n", method, verifier::name(e.verdict),
               e.reason.empty() ? "" : " — " + e.reason);
  }
}

void print_funnel(const optimizer::Report& report) {
  const optimizer::SearchReport& s = report.search;
  fmt::print(
      "\nsearch: {} enumerated → {} pruned, {} duplicates → {} distinct → {} verified → {} "
      "lowerable → {} compiled → {} measured → {}\n",
      s.enumerated, s.pruned, s.deduplicated, s.distinct, s.verified, s.lowerable, s.compiled,
      s.measured,
      report.best ? "best: µGraph " + report.best->mugraph_id.substr(0, kShownId)
                  : std::string("no best"));
}

void print_funnel_details(const optimizer::Report& report) {
  for (const auto& [rule, count] : report.search.pruned_by)
    fmt::print("  pruned by {:<28} {}\n", rule, count);
  for (const auto& [reason, count] : report.search.not_lowerable)
    fmt::print("  not lowerable: {} ({})\n", reason, count);
  for (const auto& [status, count] : report.search.failed)
    fmt::print("  failed: {} ({})\n", status, count);
  if (report.search.rank_correlation)
    fmt::print("  cost model: rank correlation {:.2f} with {} measured candidates\n",
               *report.search.rank_correlation, report.search.measured);
  for (const optimizer::StepTime& step : report.steps)
    fmt::print("  step {:<12} {:.2f} s\n", step.step, step.seconds);
}

void print_report(const optimizer::Report& report, const Arguments& arguments) {
  fmt::print("{} on {} ({})\n\n", ir::print(report.workload), report.device, report.device_name);
  if (!report.candidates.empty()) {
    Table table({{"µGraph", Table::Align::kLeft},
                 {"form", Table::Align::kLeft, 44},
                 {"schedule", Table::Align::kLeft, 56},
                 {"status", Table::Align::kLeft},
                 {"µs", Table::Align::kRight},
                 {"± µs", Table::Align::kRight},
                 {"samples", Table::Align::kRight}});
    int shown = 0;
    for (const optimizer::CandidateReport& c : report.candidates) {
      if (shown++ == arguments.top) break;
      table.add({c.mugraph_id.substr(0, kShownId), (c.unfused ? "unfused: " : "") + c.label,
                 c.schedule, c.status, c.time_us > 0 ? fmt::format("{:.2f}", c.time_us) : "",
                 c.samples ? fmt::format("{:.2f}", c.spread_us) : "",
                 c.samples ? fmt::format("{}", c.samples) : ""});
    }
    fmt::print("{}", table.render());
    if (report.candidates.size() > static_cast<std::size_t>(arguments.top))
      fmt::print("… and {} more (--top N shows N)\n",
                 report.candidates.size() - static_cast<std::size_t>(arguments.top));
  }
  if (!report.candidates.empty() || arguments.explain_search) print_funnel(report);
  if (arguments.explain_search) print_funnel_details(report);
  for (const std::string& note : report.notes) fmt::print("note: {}\n", note);
  if (!report.best) {
    fmt::print("\nno candidate was found ({})\n", report.stop_reason);
    return;
  }
  const optimizer::BestReport& best = *report.best;
  fmt::print("\nbest: plan {}, µGraph {} ({})\n  schedule  {}\n", best.plan,
             best.mugraph_id.substr(0, kShownId), best.label, best.schedule);
  if (best.kind == "measured")
    fmt::print(
        "  time      {:.2f} µs measured{}\n", best.time_us,
        best.reference_time_us > 0
            ? fmt::format(", {:.2f}× the speed of the unfused form ({:.2f} µs in the same run)",
                          best.reference_time_us / best.time_us, best.reference_time_us)
            : "");
  else
    fmt::print("  time      {:.2f} µs estimated by the cost model, not measured\n", best.time_us);
  fmt::print("  weights   {}\n", describe(best.weights));
  print_evidence(best);
  for (const std::string& note : best.notes) fmt::print("  note      {}\n", note);
  fmt::print("stored in {}{}\n", report.database,
             report.from_database ? " (answered from it; --retune measures again)" : "");
}

// An interruption must have an end: proofs and compilations in flight may take longer.
constexpr double kInterruptionS = 1.8;

int optimize_many(const Arguments& arguments, optimizer::Options each) {
  optimizer::ManyOptions options;
  options.devices = optimizer::expand_devices(arguments.device);
  if (arguments.workloads.empty()) {
    options.workloads.push_back(arguments.workload.make());
  } else {
    for (const auto& [name, text] : arguments.workload.dims)
      if (text) throw UserError(fmt::format("--{} and --workloads exclude each other", name));
    options.workloads = optimizer::parse_workloads(
        read_file(arguments.workloads), load_program_to_search, arguments.workload.program);
    if (!arguments.workload.row_strides.empty())
      throw UserError("--row-stride and --workloads exclude each other");
    for (ir::Workload& workload : options.workloads)
      workload.keep_weights = arguments.workload.keep_weights;
  }
  options.budget_seconds = each.budget_seconds;
  options.each = std::move(each);
  Interruption interruption(kInterruptionS, kStopped);
  return optimize_list(options, arguments.json, interruption);
}

int optimize(const Arguments& arguments) {
  optimizer::Options options;
  options.database = arguments.database;
  options.dump_search = arguments.dump_search;
  options.budget_seconds = parse_duration("--budget", arguments.budget);
  options.seed = static_cast<std::uint64_t>(
      parse_integer("--seed", arguments.seed, 0, std::numeric_limits<std::int64_t>::max()));
  options.retune = arguments.retune;
  options.dependent_launch = parse_launch(arguments.launch);
  options.strategy = arguments.strategy;
  options.schedules_per_graph = static_cast<std::size_t>(arguments.schedules);
  options.in_process = arguments.in_process;
  options.force = arguments.force;
  if (!arguments.workloads.empty() || arguments.device == "all" ||
      arguments.device.find(',') != std::string::npos)
    return optimize_many(arguments, std::move(options));
  options.workload = arguments.workload.make();
  options.device = arguments.device;
  ProgressBar progress;
  Interruption interruption(kInterruptionS, kStopped);
  optimizer::Report report = optimizer::optimize(options, progress, interruption.token());
  if (arguments.json)
    fmt::print("{}\n", to_json(report).dump(2));
  else
    print_report(report, arguments);
  return report.best ? kDone : kNothingFound;
}

}  // namespace

void add_optimize(CLI::App& app, Command& run) {
  auto* command = app.add_subcommand(
      "optimize", "Find, verify, measure and store the fastest kernels for a shape");
  auto arguments = std::make_shared<Arguments>();
  arguments->workload.add_to(*command, false);
  arguments->device = environment("TENON_DEVICE", "auto");
  arguments->seed = environment("TENON_SEED", "0");
  command
      ->add_option("--device", arguments->device,
                   "auto, host, cuda:N, several of them with commas, all (every GPU), or "
                   "compile:sm_XX to rank without a device")
      ->capture_default_str();
  command->add_option("--workloads", arguments->workloads,
                      "File with a list of workloads (JSON or CSV) to share the budget");
  command->add_option("--db", arguments->database,
                      "Tuning database (default: $TENON_DB, else the data folder of the user)");
  command->add_option("--budget", arguments->budget, "Time for the whole run, as 60s or 2m")
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "Seed of everything random")
      ->capture_default_str();
  command
      ->add_option("--launch", arguments->launch,
                   "What is optimized: plain launches, or a chain with dependent launch")
      ->capture_default_str();
  command
      ->add_option("--strategy", arguments->strategy,
                   "Order in which candidates are tried: neighbours (of the fastest so far), "
                   "estimate (of the cost model), tree (Monte-Carlo tree search), exhaustive")
      ->check(CLI::IsMember(search::strategy_names()))
      ->capture_default_str();
  command
      ->add_option("--schedules", arguments->schedules,
                   "Schedules of a µGraph that the cost model puts forward")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--top", arguments->top, "Rows of the table of candidates")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  command->add_flag("--retune", arguments->retune,
                    "Measure again even where the database has an answer");
  command->add_flag("--force", arguments->force,
                    "Let measurements choose the winner that were disturbed by other processes");
  command->add_flag("--in-process", arguments->in_process,
                    "Run candidates in this process instead of a worker, to debug them");
  command->add_flag("--explain-search", arguments->explain_search,
                    "Print what each pruning rule removed and what each step took");
  command->add_option("--dump-search", arguments->dump_search,
                      "Write every distinct µGraph in the text form to this file");
  command->add_flag("--json", arguments->json, "One JSON object on stdout");
  command->callback([arguments, &run] { run = [arguments] { return optimize(*arguments); }; });
}

}  // namespace tenon::cli
