// The `tenon` command: picks a subcommand and turns failures into exit codes.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>
#include <system_error>

#include "cli/cli.h"
#include "cli/log.h"
#include "ir/error.h"

namespace {

const CLI::App* find(const CLI::App& app, const char* name) {
  for (const CLI::App* command : app.get_subcommands({}))
    if (command->get_name() == name) return command;
  return nullptr;
}

// One sentence for what could not be parsed: a command that does not exist, or what CLI11 says.
int usage_error(const CLI::App& app, int argc, char** argv, const char* what) {
  const CLI::App* command = &app;
  std::string path = "tenon";
  int at = 1;
  for (; at < argc; ++at) {
    const CLI::App* next = find(*command, argv[at]);
    if (next == nullptr) break;
    command = next;
    path += fmt::format(" {}", argv[at]);
  }
  const auto below = command->get_subcommands({});
  if (at < argc && argv[at][0] != '-' && !below.empty()) {
    std::string known;
    for (const CLI::App* c : below) known += (known.empty() ? "" : ", ") + c->get_name();
    fmt::print(stderr, "tenon: command is '{}'; accepted: {}\n", argv[at], known);
  } else {
    fmt::print(stderr, "tenon: {} ({} --help shows the usage)\n", what, path);
  }
  return tenon::cli::kBadInput;
}

// CLI11 takes "--budget=" as "--budget" and gives it the next argument as its value.
std::string option_without_value(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view argument = argv[i];
    if (argument.size() > 3 && argument.substr(0, 2) == "--" &&
        argument.find('=') == argument.size() - 1)
      return std::string(argument.substr(0, argument.size() - 1));
  }
  return "";
}

// No option means anything by an empty value; "" would be taken for an option that is not there.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      if (value.empty())
        throw tenon::UserError(fmt::format("{} is empty; it needs a value", option->get_name()));
  for (const CLI::App* command : app.get_subcommands()) refuse_empty_values(*command);
}

// What was printed must have arrived: a full disk is noticed only here.
int flushed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  fmt::print(stderr, "tenon: cannot write to standard output: {}\n", std::strerror(errno));
  return tenon::cli::kBadInput;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tenon;
  cli::block_interrupts();
  CLI::App app(
      "Tenon finds, proves and measures the fastest kernels for a normalization and its linear "
      "layer.",
      "tenon");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every command");
  app.footer(
      "Environment: TENON_DB, TENON_DEVICE, TENON_SEED, TENON_LOG, TENON_DUMP_DIR, TENON_NVRTC, "
      "TENON_WORKER (see README.md).\n"
      "Exit codes: 0 done; 1 nothing found or a check failed; 2 bad usage or input; 3 device or "
      "toolchain missing.");
  cli::Command run;
  cli::add_optimize(app, run);
  cli::add_verify(app, run);
  cli::add_run(app, run);
  cli::add_db(app, run);
  cli::add_explain(app, run);
  cli::add_info(app, run);
  if (const std::string option = option_without_value(argc, argv); !option.empty()) {
    fmt::print(stderr, "tenon: {} is empty; it needs a value\n", option);
    return cli::kBadInput;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    return usage_error(app, argc, argv, e.what());
  }
  try {
    refuse_empty_values(app);
    cli::set_up_log();
    return flushed(run());
  } catch (const UserError& e) {
    fmt::print(stderr, "tenon: {}\n", e.what());
    return cli::kBadInput;
  } catch (const DeviceError& e) {
    fmt::print(stderr, "tenon: {}\n", e.what());
    return cli::kDeviceMissing;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "tenon: not enough memory for this workload\n");
    return cli::kDeviceMissing;
  } catch (const std::system_error& e) {
    // fmt throws it where standard output cannot be written.
    if (std::ferror(stdout) == 0) {
      fmt::print(stderr, "tenon: internal error, please report it: {}\n", e.what());
      return cli::kNothingFound;
    }
    fmt::print(stderr, "tenon: cannot write to standard output: {}\n", e.code().message());
    return cli::kBadInput;
  } catch (const std::exception& e) {
    fmt::print(stderr, "tenon: internal error, please report it: {}\n", e.what());
    return cli::kNothingFound;
  }
}
