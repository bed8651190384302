// Enumeration of the µGraphs of a program.
#pragma once

#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "ir/mugraph.h"
#include "ir/program.h"

namespace tenon::search {

struct Options {
  int max_kernels = 0;       // custom and library kernels of one µGraph; 0: 3, or what the
                             // unfused form needs
  int max_block_ops = 18;    // operators and accumulators of one block graph
  int max_kernel_reads = 3;  // tensors of other kernels that one kernel loads
  int max_prepare_ops = 12;
  int max_expressions = 400;  // classes of equal subexpressions that rewriting may make
  int threads = 0;            // 0: all
  std::uint64_t seed = 0;     // of the fingerprints' inputs
  double budget_seconds = 0;  // 0: none
  // Pruning rules that are switched off, by name (see rules()).
  std::vector<std::string> rules_off;
};

struct Counters {
  std::uint64_t enumerated = 0;                 // partial graphs visited
  std::map<std::string, std::uint64_t> pruned;  // by rule
  std::uint64_t deduplicated = 0;               // complete graphs seen before
  std::uint64_t distinct = 0;
  double seconds = 0;
  std::vector<std::pair<std::string, double>> steps;  // what took the seconds, in order
  bool cut_off = false;                               // a bound or the budget stopped something
  std::string stop_reason;                            // "exhausted", "budget", "interrupted"
  std::vector<std::string> cuts;                      // which bounds cut something off
};

struct Result {
  std::vector<ir::MuGraph>
      graphs;  // distinct, canonical, ordered by identity: the same for any thread count
  Counters counters;
};

struct Rule {
  std::string name;
  std::string argument;  // why it is sound: what it can never remove
  // Exact rules leave the set of final µGraphs as it is; the others (dominance) drop only
  // µGraphs for which one that is no dearer is kept.
  bool exact = true;
};
const std::vector<Rule>& rules();

// An output that no µGraph can store: the value of another output, an input, a constant.
class OutputError : public UserError {
 public:
  OutputError(std::size_t index, const std::string& message) : UserError(message), output(index) {}
  std::size_t output;  // in the program's signature
};
// What enumerate refuses before it searches. Throws UserError.
void check(const ir::Program& program);

// Throws UserError for malformed programs. `stop` ends it early with what was found so far.
Result enumerate(const ir::Program& program, const Options& options, std::stop_token stop = {});

// The unfused form among `graphs`: no prepare graph, and no kernel that holds a product does
// anything else but round. Index, or -1. It is what speed-ups are measured against. Among several
// the one with the fewest library products, then splits, then kernels: our own kernels on both
// sides of the comparison.
int find_unfused(const std::vector<ir::MuGraph>& graphs);
// The same with the most library products; -1 if none has any.
int find_unfused_library(const std::vector<ir::MuGraph>& graphs);

}  // namespace tenon::search
