// tenon_search_bench: how long the search takes, with rules on and off (docs/search.md).
//   tenon_search_bench                       the table for the programs of the catalog
//   tenon_search_bench FILE|NAME             the funnel of one program, and its µGraphs' labels
//   tenon_search_bench FILE|NAME --print     the same with every µGraph in text form
#include <fmt/format.h>

#include <algorithm>
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

std::string row(const std::string& what, const Result& r) {
  return fmt::format("| {} | {:.3f} | {} | {} | {} | {} |\n", what, r.counters.seconds,
                     r.counters.enumerated, r.counters.distinct, largest_block(r),
                     joined(r.counters.cuts));
}

void table(double budget) {
  for (const auto& entry : tenon::ir::catalog()) {
    Program program = tenon::ir::catalog_program(entry.name);
    std::cout << fmt::format(
        "\n{}\n\n| | seconds | partial graphs | distinct | operators of the largest block | cut by "
        "|\n|---|---|---|---|---|---|\n",
        entry.name);
    for (int threads : {1, 2}) {
      Options options;
      options.threads = threads;
      std::cout << row(fmt::format("all rules, {} thread{}", threads, threads > 1 ? "s" : ""),
                       enumerate(program, options));
    }
    for (int ops : {4, 6, 8, 10}) {
      Options options;
      options.max_block_ops = ops;
      std::cout << row(fmt::format("at most {} operators a block", ops),
                       enumerate(program, options));
    }
    for (const auto& rule : tenon::search::rules()) {
      Options options;
      options.rules_off = {rule.name};
      options.budget_seconds = budget;
      std::cout << row("without " + rule.name, enumerate(program, options)) << std::flush;
    }
  }
}

void funnel(const Program& program, bool print_graphs) {
  Result r = enumerate(program, Options{});
  std::cout << fmt::format(
      "{} partial graphs, {} distinct, {} seen before, {:.3f} s, {}; cut by: {}\n",
      r.counters.enumerated, r.counters.distinct, r.counters.deduplicated, r.counters.seconds,
      r.counters.stop_reason, joined(r.counters.cuts));
  for (const auto& [rule, n] : r.counters.pruned) std::cout << fmt::format("  {:12} {}\n", rule, n);
  for (const MuGraph& g : r.graphs) {
    std::cout << identity(g).substr(0, 12) << "  " << describe(g) << "\n";
    if (print_graphs) std::cout << print(g) << "\n";
  }
  std::cout << fmt::format("unfused: {}, with the library: {}\n",
                           tenon::search::find_unfused(r.graphs),
                           tenon::search::find_unfused_library(r.graphs));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2)
      table(20);
    else
      funnel(load(argv[1]), argc > 2 && std::string(argv[2]) == "--print");
    return 0;
  } catch (const tenon::UserError& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
