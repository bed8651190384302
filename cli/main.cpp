// The `tenon` command: picks a subcommand and turns failures into exit codes.
#include <fmt/format.h>

#include <new>

#include "cli/cli.h"
#include "cli/log.h"
#include "ir/error.h"

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
      "Environment: TENON_DB, TENON_DEVICE, TENON_LOG, TENON_DUMP_DIR, TENON_SEED (see "
      "README.md).\n"
      "Exit codes: 0 done; 1 nothing found or a check failed; 2 bad usage or input; 3 device or "
      "toolchain missing.");
  cli::Command run;
  cli::add_optimize(app, run);
  cli::add_verify(app, run);
  cli::add_run(app, run);
  cli::add_db(app, run);
  cli::add_explain(app, run);
  cli::add_info(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands().empty()) {
      std::string known;
      for (const CLI::App* command : app.get_subcommands({}))
        known += (known.empty() ? "" : ", ") + command->get_name();
      fmt::print(stderr, "tenon: command is '{}'; accepted: {}\n", argv[1], known);
      return cli::kBadInput;
    }
    fmt::print(stderr, "tenon: {} (tenon --help shows the usage)\n", e.what());
    return cli::kBadInput;
  }
  try {
    cli::set_up_log();
    return run();
  } catch (const UserError& e) {
    fmt::print(stderr, "tenon: {}\n", e.what());
    return cli::kBadInput;
  } catch (const DeviceError& e) {
    fmt::print(stderr, "tenon: {}\n", e.what());
    return cli::kDeviceMissing;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "tenon: not enough memory for this workload\n");
    return cli::kDeviceMissing;
  } catch (const std::exception& e) {
    fmt::print(stderr, "tenon: internal error, please report it: {}\n", e.what());
    return cli::kNothingFound;
  }
}
