#include "fuzz.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "host_plan.h"
#include "ir/error.h"
#include "random_program.h"
#include "search/search.h"
#include "verifier/numeric.h"
#include "verifier/verifier.h"

namespace tenon::test {

namespace {

constexpr std::size_t kMostRun = 4;       // µGraphs of one program that are launched
constexpr double kIllConditioned = 1e-4;  // of the fp32 reference: says little about a kernel

search::Options small_search() {
  search::Options options;
  options.max_kernels = 2;
  options.max_block_ops = 8;
  options.max_expressions = 120;
  options.threads = 1;
  options.budget_seconds = 0.25;
  return options;
}

// Does a row vanish? With random inputs only where the program cancels exactly, x − x, which says
// as little about a kernel.
bool has_zero_row(const std::vector<double>& y, std::int64_t columns) {
  for (std::size_t first = 0; first < y.size(); first += static_cast<std::size_t>(columns)) {
    double largest = 0;
    for (std::int64_t j = 0; j < columns; ++j)
      largest = std::max(largest, std::fabs(y[first + static_cast<std::size_t>(j)]));
    if (!(largest > 1e-12)) return true;
  }
  return false;
}

std::int64_t columns_of(const ir::Axes& axes, const ir::Extents& extents) {
  return axes.size() < 2 ? 1 : extents[axes.back().dim];
}

// Ragged extents: no tile divides them.
Dims dims_of(const ir::Program& program, std::uint64_t seed) {
  Dims dims;
  const std::int64_t m = 1 + static_cast<std::int64_t>(seed % 7),
                     k = 5 + static_cast<std::int64_t>(seed / 7 % 30),
                     n = 3 + static_cast<std::int64_t>(seed / 11 % 20);
  for (const std::string& d : program.signature.dims) dims[d] = d == "m" ? m : d == "k" ? k : n;
  return dims;
}

void check(std::uint64_t seed, const ir::Program& program, FuzzCase& out) {
  const search::Result found = search::enumerate(program, small_search());
  out.graphs = static_cast<int>(found.graphs.size());
  const Dims dims = dims_of(program, seed);
  ir::Extents extents;
  for (const std::string& d : program.signature.dims) extents.push_back(dims.at(d));
  for (std::size_t i = 0; i < std::min(kMostRun, found.graphs.size()); ++i) {
    // The first, the last, and others between.
    const ir::MuGraph& graph =
        found.graphs[i * (found.graphs.size() - 1) / std::max<std::size_t>(1, kMostRun - 1)];
    verifier::RandomOptions random;
    random.seed = seed;
    const verifier::Evidence e = verifier::random_test(program, graph, random);
    if (e.verdict == verifier::Verdict::kRefuted)
      throw std::runtime_error("the random test refutes what the search found: " + e.reason + "\n" +
                               ir::print(graph));
    const auto inputs =
        normal_inputs(graph, extents, ir::DType::kF32, static_cast<std::uint32_t>(seed));
    ir::DoubleDomain exact(attributes_of(graph));
    ir::RoundedDomain rounded(attributes_of(graph), ir::DType::kF32);
    const auto y64 = ir::evaluate(program, extents, exact, widen(inputs));
    const auto reference = ir::evaluate(program, extents, rounded, inputs);
    const ir::KernelSchedule schedule{
        "host",
        {{"tile_k", 1 + static_cast<std::int64_t>(seed % 19)}, {"tile_m", 2}, {"tile_n", 8}}};
    const auto y = run_on_host(host_plan(graph, dims, ir::DType::kF32, schedule), inputs);
    ++out.run;
    for (std::size_t o = 0; o < y64.size(); ++o) {
      const std::int64_t columns = columns_of(y64[o].axes, extents);
      const auto rows = static_cast<std::int64_t>(y64[o].data.size()) / columns;
      const double error =
          verifier::relative_row_error(reference[o].data, y64[o].data, rows, columns);
      if (!(error <= kIllConditioned) || has_zero_row(y64[o].data, columns)) continue;
      out.compared = true;
      // Wider than the contract: a fused form may round in other places than the reference.
      const verifier::NumericReport report =
          verifier::compare(y[o], y64[o].data, rows, columns, 64 * error + 1e-5);
      if (!report.pass)
        throw std::runtime_error(fmt::format("output {} on the host: {} (row {}, column {})\n{}", o,
                                             report.reason, report.row, report.column,
                                             ir::print(graph)));
    }
  }
}

}  // namespace

FuzzCase fuzz(std::uint64_t seed) {
  FuzzCase out;
  const std::string text = random_program(seed);
  try {
    check(seed, ir::parse_program(text), out);
    out.ok = true;
  } catch (const UserError& e) {
    // Outputs that are one value, or an input's, are refused in a sentence, however they are
    // spelled.
    const std::string what = e.what();
    out.ok = what.find("a value that no other output has") != std::string::npos ||
             what.find("a value that some operator computes from the inputs") != std::string::npos;
    if (!out.ok) out.problem = fmt::format("seed {}: {}\n{}", seed, e.what(), text);
  } catch (const std::exception& e) {
    out.problem = fmt::format("seed {}: {}\n{}", seed, e.what(), text);
  }
  return out;
}

}  // namespace tenon::test
