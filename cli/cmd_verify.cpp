// tenon verify: the evidence for one µGraph file.
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/json.h"
#include "ir/error.h"
#include "verifier/verifier.h"

namespace tenon::cli {

namespace {

struct Arguments {
  std::string program, file, seed, timeout = "10s", save_query;
  bool json = false;
};

void print_evidence(const verifier::Evidence& e) {
  fmt::print("{:<8} {}{} ({:.3f} s)\n", e.method, verifier::name(e.verdict),
             e.reason.empty() ? "" : ": " + e.reason, e.seconds);
  fmt::print("         {}\n", e.figures);
  if (!e.counterexample.empty()) fmt::print("         counterexample: {}\n", e.counterexample);
}

int verify(const Arguments& a) {
  ir::Program program = load_program(a.program);
  ir::MuGraph graph;
  try {
    graph = ir::parse_mugraph(read_file(a.file));
  } catch (const UserError& e) {
    std::string what = e.what();
    if (what.rfind("cannot read", 0) == 0) throw;
    throw UserError(fmt::format("{}: {}", a.file, what));
  }
  verifier::RandomOptions random_options;
  random_options.seed = static_cast<std::uint64_t>(
      parse_integer("--seed", a.seed, 0, std::numeric_limits<std::int64_t>::max()));
  verifier::Z3Options z3_options;
  z3_options.timeout_ms = static_cast<int>(parse_duration("--timeout", a.timeout) * 1000);
  z3_options.dump_file = a.save_query;
  verifier::Evidence random = verifier::random_test(program, graph, random_options);
  verifier::Evidence z3 = verifier::z3_check(program, graph, z3_options);
  verifier::Z3Options unbounded = z3_options;
  unbounded.dump_file.clear();
  verifier::Evidence induction = verifier::induction_check(program, graph, unbounded);
  if (a.json) {
    nlohmann::json out = {
        {"program", a.program},
        {"mugraph", ir::identity(graph)},
        {"label", ir::describe(graph)},
        {"evidence",
         {{"random", to_json(random)}, {"z3", to_json(z3)}, {"induction", to_json(induction)}}}};
    fmt::print("{}\n", out.dump(2));
  } else {
    fmt::print("µGraph {} ({})\n", ir::identity(graph), ir::describe(graph));
    print_evidence(random);
    print_evidence(z3);
    print_evidence(induction);
  }
  bool accepted =
      random.verdict == verifier::Verdict::kPass && z3.verdict == verifier::Verdict::kProved;
  return accepted ? kDone : kNothingFound;
}

}  // namespace

void add_verify(CLI::App& app, Command& run) {
  auto* command = app.add_subcommand("verify", "Test and prove that a µGraph equals a program");
  auto arguments = std::make_shared<Arguments>();
  arguments->seed = environment("TENON_SEED", "0");
  command->add_option("program", arguments->program, "A catalog name or a file in the text form")
      ->required();
  command->add_option("mugraph", arguments->file, "A µGraph in the text form")->required();
  command->add_option("--seed", arguments->seed, "Seed of the random test")->capture_default_str();
  command->add_option("--timeout", arguments->timeout, "Time for the proof")->capture_default_str();
  command->add_option("--save-query", arguments->save_query,
                      "Save the query of the proof there (SMT-LIB 2)");
  command->add_flag("--json", arguments->json, "One JSON object on stdout");
  command->footer("Exit code 0 when the random test passes and the proof holds, 1 otherwise.");
  command->callback([arguments, &run] { run = [arguments] { return verify(*arguments); }; });
}

}  // namespace tenon::cli
