// tenon db: what the tuning database holds, and what can be done with it.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>

#include "cli/db.h"
#include "ir/error.h"

namespace tenon::cli {

std::string database_path(const DbArguments& a) {
  return a.database.empty() ? cache::default_path() : a.database;
}

std::unique_ptr<cache::Database> open_database(const DbArguments& a) {
  return cache::Database::open(database_path(a), true);
}

std::string date_before(const std::string& argument, const std::string& duration) {
  double seconds = 0;
  try {
    if (!duration.empty() && duration.back() == 'd')
      seconds = 86400 * static_cast<double>(parse_integer(
                            argument, duration.substr(0, duration.size() - 1), 0, 36500));
    else
      seconds = parse_duration(argument, duration);
  } catch (const UserError&) {
    throw UserError(argument, duration,
                    "whole days from 0d to 36500d, or less than 1e7 s as 90s, 30m or 12h");
  }
  const auto then = std::chrono::system_clock::now() -
                    std::chrono::duration_cast<std::chrono::system_clock::duration>(
                        std::chrono::duration<double>(seconds));
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.000Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(then)));
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

void add_db(CLI::App& app, Command& run) {
  auto* command = app.add_subcommand("db", "Inspect and look after the tuning database");
  command->require_subcommand(1);
  auto a = std::make_shared<DbArguments>();
  a->device = environment("TENON_DEVICE", "auto");
  a->seed = environment("TENON_SEED", "1");
  auto add = [&](const char* name, const char* help, int (*body)(const DbArguments&)) {
    auto* sub = command->add_subcommand(name, help);
    sub->add_option("--db", a->database,
                    "Tuning database (default: $TENON_DB, else the data folder of the user)");
    sub->add_flag("--json", a->json, "One JSON object on stdout");
    sub->callback([a, body, &run] { run = [a, body] { return body(*a); }; });
    return sub;
  };
  auto csv = [&](CLI::App* sub) {
    sub->add_flag("--csv", a->csv, "CSV on stdout")->excludes("--json");
  };
  auto filters = [&](CLI::App* sub) {
    sub->add_option("--program", a->program, "Only this program");
    sub->add_option("--dtype", a->dtype, "Only this type");
    sub->add_option("--on", a->on, "Only devices whose name or class has this in it");
    sub->add_option("--status", a->status, "Only plans whose newest measurement ended so, as ok");
    sub->add_option("--range", a->ranges,
                    "Only shapes with a dim in a range, NAME=LOW:HIGH or NAME=V (repeatable)");
    sub->add_option("--newer-than", a->newer_than, "Only what was measured within, as 12h or 30d");
    sub->add_option("--older-than", a->older_than, "Only what was measured before, as 12h or 30d");
  };
  auto* ls = add("ls", "The best plan of every workload, or every plan", db_list);
  csv(ls);
  ls->add_flag("--all", a->all, "Every plan, not only the best of each workload and launch mode");
  filters(ls);
  ls->add_option("--sort", a->sort, "workload, time, speedup or date")->capture_default_str();
  ls->add_option("--limit", a->limit, "So many lines at most");
  auto* stats =
      add("stats", "Rows of each table; of the plans winners, failures, devices", db_stats);
  csv(stats);
  filters(stats);
  auto* show = add("show", "All that is known of one plan, and who came second", db_show);
  show->add_option("plan", a->id, "Number of the plan (tenon db ls)")->required();
  csv(show);
  auto* best =
      add("best", "The plan that would be launched for a shape, or why there is none", db_best);
  csv(best);
  a->workload.add_to(*best);
  best->add_option("--device", a->device, "auto, host, cuda:N or compile:sm_XX")
      ->capture_default_str();
  best->add_option("--launch", a->launch, "plain or dependent")->capture_default_str();

  add("export", "Write everything to a portable file with a checksum", db_export)
      ->add_option("file", a->file, "File to write")
      ->required();
  add("import", "Add what exported files hold", db_import)
      ->add_option("files", a->files, "Files that tenon db export wrote")
      ->required();
  add("merge", "Add what other databases hold", db_merge)
      ->add_option("databases", a->files, "Databases to read")
      ->required();
  add("pack", "Write a minimal read-only database: winners and their cubins", db_pack)
      ->add_option("file", a->file, "File to write")
      ->required();
  auto* prune =
      add("prune", "Take out plans that meet all conditions given; winners stay", db_prune);
  prune->add_option("--older-than", a->older_than, "Measured before, as 12h or 30d");
  prune->add_option("--keep", a->keep, "Beyond so many of each workload and launch mode");
  prune->add_flag("--stale", a->stale, "Never measured with this Tenon and this NVRTC");
  prune->add_flag("--apply", a->apply, "Do it (without: only say what would go)");
  auto* check =
      add("check", "Integrity, checksums, rows nothing refers to, stale toolchains", db_check);
  check->add_flag("--reverify", a->reverify, "Run the evidence of every winner again");
  check->add_option("--device", a->device, "Where --reverify repeats the numeric test")
      ->capture_default_str();
  check->add_option("--seed", a->seed, "Seed of --reverify")->capture_default_str();
  add("report", "One self-contained page with plots of every workload", db_report)
      ->add_option("--html", a->file, "File to write")
      ->required();
}

}  // namespace tenon::cli
