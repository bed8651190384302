// tenon verify: the evidence for one µGraph file.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "cli/cli.h"
#include "cli/json.h"
#include "ir/error.h"
#include "verifier/scaled_dims.h"
#include "verifier/verifier.h"

namespace tenon::cli {

namespace {

using json = nlohmann::json;

// A proof that takes longer is given up all the same.
constexpr double kLongestProofS = 86400;

struct Arguments {
  std::string program, file, seed, timeout = "10s", save_query;
  bool json = false;
};

// [2, 3] with its data, one row a line.
void print_tensor(const std::string& name, const json& tensor) {
  const std::vector<std::size_t> shape = tensor["shape"];
  const std::size_t columns = shape.empty() ? 1 : shape.back();
  fmt::print("           {} {}\n", name, tensor["shape"].dump());
  std::string line;
  for (std::size_t i = 0; i < tensor["data"].size(); ++i) {
    line += (line.empty() ? "" : " ") + tensor["data"][i].dump();
    if ((i + 1) % columns != 0) continue;
    fmt::print("             {}\n", line);
    line.clear();
  }
}

// The inputs on which the two differ: in float64 where that confirms it, else in the field.
void print_counterexample(const std::string& text) {
  json c = json::parse(text);
  if (c.contains("float64"))
    c = c["float64"];
  else if (c.contains("field"))
    c = c["field"];
  if (!c.contains("element") || !c.contains("inputs")) {
    fmt::print("         {}\n", text);
    return;
  }
  fmt::print("         {}: the program has {}, the µGraph {}{}; dims {}, attributes {}, for\n",
             c["element"]["name"].get<std::string>(), c["element"]["program"].dump(),
             c["element"]["mugraph"].dump(),
             c.contains("prime") ? " modulo " + c["prime"].dump() : "", c["dims"].dump(),
             c["attributes"].dump());
  for (const auto& [name, tensor] : c["inputs"].items()) print_tensor(name, tensor);
}

void print_evidence(const verifier::Evidence& e) {
  fmt::print("{:<8} {}{} ({:.3f} s)\n", e.method, verifier::name(e.verdict),
             e.reason.empty() ? "" : ": " + e.reason, e.seconds);
  if (!e.figures.empty()) fmt::print("         {}\n", e.figures);
  if (!e.counterexample.empty()) print_counterexample(e.counterexample);
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
  if (graph.signature.program != program.signature.program)
    throw UserError(fmt::format("{} is a µGraph of {}, not of {}", a.file, graph.signature.program,
                                program.signature.program));
  const std::string mismatch = verifier::signature_mismatch(program.signature, graph.signature);
  if (!mismatch.empty())
    throw UserError(fmt::format("{} is no µGraph of {}: {}", a.file, a.program, mismatch));
  verifier::RandomOptions random_options;
  random_options.seed = static_cast<std::uint64_t>(
      parse_integer("--seed", a.seed, 0, std::numeric_limits<std::int64_t>::max()));
  verifier::Z3Options z3_options;
  const double timeout_s = std::min(parse_duration("--timeout", a.timeout), kLongestProofS);
  z3_options.timeout_ms = std::max(1, static_cast<int>(timeout_s * 1000));
  z3_options.dump_file = a.save_query;
  // Before the work, not after it.
  if (!a.save_query.empty() && !std::ofstream(a.save_query, std::ios::app))
    throw UserError(fmt::format("cannot write '{}': {}", a.save_query, std::strerror(errno)));
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
