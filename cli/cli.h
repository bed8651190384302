// What the commands share: common options, exit codes, output.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "ir/workload.h"

namespace tenon::cli {

enum ExitCode : int {
  kDone = 0,
  kNothingFound = 1,  // ran, but no candidate was found or a check failed
  kBadInput = 2,
  kDeviceMissing = 3,
};

// Options that name a workload: <program> --m --k --n --dim --dtype --attribute.
struct WorkloadOptions {
  std::string program;
  std::map<std::string, std::optional<std::string>> dims = {{"m", {}}, {"k", {}}, {"n", {}}};
  std::vector<std::string> more_dims;  // NAME=V
  std::string dtype = "bf16";
  std::vector<std::string> attributes;   // NAME=V
  std::vector<std::string> layouts;      // INPUT=DIM,DIM…
  std::vector<std::string> row_strides;  // TENSOR=ELEMENTS
  bool keep_weights = false;
  void add_to(CLI::App& app, bool program_required = true);
  ir::Workload make() const;  // throws UserError
};

// A catalog name, or a file in the text form. Throws UserError.
ir::Program load_program(const std::string& name_or_path);
// The same for a program that is to be searched; what the search refuses is named with its place.
ir::Program load_program_to_search(const std::string& name_or_path);
std::string read_file(const std::string& path);  // throws UserError that names the path

// "60s", "2m", "1.5". Seconds; throws UserError.
double parse_duration(const std::string& argument, const std::string& text);
// Decimal integer in [low, high]; throws UserError that names the argument.
std::int64_t parse_integer(const std::string& argument, const std::string& text, std::int64_t low,
                           std::int64_t high);

// The value of --launch: is the objective a chain with dependent launch? Throws UserError.
bool parse_launch(const std::string& text);

// $NAME, or `fallback`.
std::string environment(const char* name, const std::string& fallback);

// Stops when the user interrupts (SIGINT, SIGTERM), for as long as it lives. Where what was asked
// to stop takes longer than `limit_s` it prints `sentence` and ends the process with
// kNothingFound; 0: it may take its time.
class Interruption {
 public:
  explicit Interruption(double limit_s = 0, std::string sentence = "");
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::stop_source end_;
  std::thread watcher_;
};
// Blocks the signals that Interruption waits for; call before any thread starts.
void block_interrupts();

using Command = std::function<int()>;
// Each adds its subcommand to `app` and returns through `run` what to do when it is chosen.
void add_optimize(CLI::App& app, Command& run);
void add_verify(CLI::App& app, Command& run);
void add_run(CLI::App& app, Command& run);
void add_db(CLI::App& app, Command& run);
void add_explain(CLI::App& app, Command& run);
void add_info(CLI::App& app, Command& run);  // devices, programs, version

}  // namespace tenon::cli
