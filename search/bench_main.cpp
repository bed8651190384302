// tenon_search_bench: how long the search takes, with rules on and off (docs/search.md).
//   tenon_search_bench                       the tables for the programs of the catalog
//   tenon_search_bench FILE|NAME             the funnel of one program, and its µGraphs' labels
//   tenon_search_bench FILE|NAME --print     the same with every µGraph in text form
//   tenon_search_bench FILE|NAME --steps     what takes the time, on one thread and on two
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iostream>
#include <sstream>

#include "ir/error.h"
#include "search/search.h"

namespace {

using tenon::ir::MuGraph;
using tenon::ir::Program;
using tenon::search::Options;
using tenon::search::Result;

Program load(const std::string& name) {
  std::ifstream file(name);
  if (!file) return tenon::ir::catalog_program(name);
  std::stringstream text;
  text << file.rdbuf();
  return tenon::ir::parse_program(text.str());
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& w : words) text += (text.empty() ? "" : ", ") + w;
  return text.empty() ? "-" : text;
}

// The largest block graph among the results, in operators and accumulators.
std::size_t largest_block(const Result& result) {
  std::size_t most = 0;
  for (const MuGraph& g : result.graphs)
    for (const auto& kernel : g.kernels) {
      const auto* block = kernel.block();
      if (!block) continue;
      std::size_t n = 0;
      for (const auto& node : block->graph.nodes())
        n += node.op != tenon::ir::OpKind::kConst && node.op != tenon::ir::OpKind::kCast;
      most = std::max(most, n);
    }
  return most;
}

// Seconds of the clock on the wall, and of all threads' processor time.
struct Timed {
  Result result;
  double cpu = 0;
};

std::string row(const std::string& what, const Timed& timed) {
  const Result& r = timed.result;
  return fmt::format("| {} | {:.2f} | {:.2f} | {} | {} | {} | {} |\n", what, timed.cpu,
                     r.counters.seconds, r.counters.enumerated, r.counters.distinct,
                     largest_block(r), joined(r.counters.cuts));
}

Timed run(const Program& program, int threads, int max_block_ops, const std::string& rule_off,
          double budget) {
  Options options;
  options.threads = threads;
  if (max_block_ops > 0) options.max_block_ops = max_block_ops;
  if (!rule_off.empty()) options.rules_off = {rule_off};
  options.budget_seconds = budget;
  std::clock_t begin = std::clock();
  Timed timed{enumerate(program, options), 0};
  timed.cpu = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  return timed;
}

// The run that took the least time on the wall: other work on the machine only adds.
Timed best_run(const Program& program, int threads, int times) {
  Timed best = run(program, threads, 0, "", 0);
  for (int i = 1; i < times; ++i) {
    Timed again = run(program, threads, 0, "", 0);
    if (again.result.counters.seconds < best.result.counters.seconds) best = std::move(again);
  }
  return best;
}

// Every program of the catalog with all rules, on one thread and on two, each the best of five.
void catalog_table() {
  std::cout << "| | CPU seconds, 1 thread | CPU, 2 threads | wall, 1 thread | wall, 2 threads | "
               "partial graphs | distinct | operators of the largest block | cut by "
               "|\n|---|---|---|---|---|---|---|---|---|\n";
  for (const auto& entry : tenon::ir::catalog()) {
    Program program = tenon::ir::catalog_program(entry.name);
    Timed one = best_run(program, 1, 5);
    Timed two = best_run(program, 2, 5);
    const tenon::search::Counters& c = two.result.counters;
    std::cout << fmt::format("| `{}` | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {} | {} | {} | {} |\n",
                             entry.name, one.cpu, two.cpu, one.result.counters.seconds, c.seconds,
                             c.enumerated, c.distinct, largest_block(two.result), joined(c.cuts))
              << std::flush;
  }
}

// One program with other bounds, and without each rule.
void rules_table(const std::string& name, double budget) {
  Program program = tenon::ir::catalog_program(name);
  std::cout << fmt::format(
      "\n`{}`:\n\n| | CPU seconds | wall | partial graphs | distinct | operators of the largest "
      "block | cut "
      "by "
      "|\n|---|---|---|---|---|---|---|\n",
      name);
  std::cout << row("all rules", run(program, 2, 0, "", budget));
  for (int ops : {4, 8, 12, 16, 20})
    std::cout << row(fmt::format("at most {} operators a block", ops),
                     run(program, 2, ops, "", budget))
              << std::flush;
  for (const auto& rule : tenon::search::rules())
    std::cout << row("without " + rule.name, run(program, 2, 0, rule.name, budget)) << std::flush;
}

void funnel(const Program& program, bool print_graphs) {
  Result r = enumerate(program, Options{});
  std::cout << fmt::format(
      "{} partial graphs, {} distinct, {} seen before, {:.3f} s, {}; cut by: {}\n",
      r.counters.enumerated, r.counters.distinct, r.counters.deduplicated, r.counters.seconds,
      r.counters.stop_reason, joined(r.counters.cuts));
  for (const auto& [step, seconds] : r.counters.steps)
    std::cout << fmt::format("  {:14} {:.3f} s\n", step, seconds);
  for (const auto& [rule, n] : r.counters.pruned) std::cout << fmt::format("  {:12} {}\n", rule, n);
  for (const MuGraph& g : r.graphs) {
    std::cout << identity(g).substr(0, 12) << "  " << describe(g) << "\n";
    if (print_graphs) std::cout << print(g) << "\n";
  }
  std::cout << fmt::format("unfused: {}, with the library: {}\n",
                           tenon::search::find_unfused(r.graphs),
                           tenon::search::find_unfused_library(r.graphs));
}

// What takes the time, on one thread and on two.
void steps_table(const Program& program) {
  Timed one = best_run(program, 1, 5);
  Timed two = best_run(program, 2, 5);
  std::cout << "| | 1 thread | 2 threads | ratio |\n|---|---|---|---|\n";
  auto line = [](const std::string& what, double a, double b) {
    std::cout << fmt::format("| {} | {:.4f} | {:.4f} | {:.2f} |\n", what, a, b, a / b);
  };
  const auto& steps = two.result.counters.steps;
  for (std::size_t i = 0; i < steps.size(); ++i)
    line(steps[i].first, one.result.counters.steps[i].second, steps[i].second);
  line("all", one.result.counters.seconds, two.result.counters.seconds);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) {
      catalog_table();
      for (const char* name : {"rmsnorm_linear", "layernorm_linear"}) rules_table(name, 6);
    } else if (argc > 2 && std::string(argv[2]) == "--steps") {
      steps_table(load(argv[1]));
    } else {
      funnel(load(argv[1]), argc > 2 && std::string(argv[2]) == "--print");
    }
    return 0;
  } catch (const tenon::UserError& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
