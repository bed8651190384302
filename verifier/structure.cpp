#include "verifier/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "verifier/formal_domain.h"

namespace tenon::verifier {

namespace {

using Formal = ir::Values<FormalDomain::Scalar>;

constexpr int kSpareDraws = 32;  // a unit whose roots are squares with chance 2^-q is drawn at
                                 // most 32·2^q times: exhausted with chance below e^-32
constexpr int kMaxRootsPerUnit = 16;

std::vector<Formal> formal_inputs(const ir::Signature& signature, const ScaledDims& dims,
                                  const UnitMap& units, FormalDomain& domain) {
  std::vector<Formal> inputs;
  for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
    const ir::ProgramInput& in = signature.inputs[i];
    Formal v{in.axes, input_extents(in, dims.extents), {}};
    const std::int64_t count = ir::element_count(in.axes, dims.extents);
    for (std::int64_t e = 0; e < count; ++e) v.data.push_back(domain.variable(units.unit(i, e)));
    inputs.push_back(std::move(v));
  }
  return inputs;
}

// The unit to redraw for each class: rows of activations first, and few of them.
UnitSet choose_targets(std::vector<RootClass>& classes, const UnitMap& units) {
  UnitSet targets;
  for (RootClass& c : classes) {
    int best = -1, best_key = -1;
    for (int u = 0; u < units.count(); ++u) {
      if (!c.units.test(static_cast<std::size_t>(u))) continue;
      const int key = 2 * units.preference(u) + targets.test(static_cast<std::size_t>(u));
      if (key > best_key) best = u, best_key = key;
    }
    c.target = best;
    if (best < 0) continue;
    targets.set(static_cast<std::size_t>(best));
    c.linear = c.linear && units.elements(best) == 1;
  }
  return targets;
}

// log2 of the factor by which redrawing a unit may favour zeros of the difference: its number of
// draws (a union bound). A unit is free when it is a single number, redrawn for one radicand that
// is linear in it and that no other shares: then the root, not the number, is the variable, and
// neither its draws nor its extension count (docs/verification.md).
struct Draws {
  std::vector<int> limit;
  std::vector<double> log2_factor;  // 0 of free units
  UnitSet free_units;
  std::uint64_t free_roots = 0;  // their classes
};
Draws count_draws(const std::vector<RootClass>& classes, const UnitSet& targets, int count) {
  Draws draws;
  for (int u = 0; u < count; ++u) {
    int roots = 0;
    std::size_t root = 0;
    bool halves = true;
    for (std::size_t i = 0; i < classes.size(); ++i) {
      const RootClass& c = classes[i];
      if (c.target != u) continue;
      ++roots;
      root = i;
      halves = halves && c.linear && (c.units & targets).count() == 1;
    }
    for (const RootClass& c : classes)
      if (c.target != u && c.units.test(static_cast<std::size_t>(u))) halves = false;
    const int limit = roots == 0 ? 1 : kSpareDraws << std::min(roots, kMaxRootsPerUnit);
    draws.limit.push_back(limit);
    const bool is_free = roots == 1 && halves && root < 64;
    draws.log2_factor.push_back(roots == 0 || is_free ? 0 : std::log2(static_cast<double>(limit)));
    if (!is_free) continue;
    draws.free_units.set(static_cast<std::size_t>(u));
    draws.free_roots |= std::uint64_t{1} << root;
  }
  return draws;
}

// log2 of 4: with free units as squares of their roots degrees double at most, and roots are drawn
// from (p + 1) / 2 values; the excess over p / 2 is in the last digits.
constexpr double kFree = 2 + 1e-6;

double log2_factor(const UnitSet& redrawn, const Draws& draws) {
  double sum = (redrawn & draws.free_units).any() ? kFree : 0;
  for (std::size_t u = 0; u < draws.log2_factor.size(); ++u)
    if (redrawn.test(u)) sum += draws.log2_factor[u];
  return sum;
}

// log2 of degree × draws of the difference of two arguments, which says how likely they coincide.
class Coincidences {
 public:
  Coincidences(const std::vector<FunctionClass>& functions, const UnitSet& targets,
               const Draws& draws)
      : functions_(functions), targets_(targets), draws_(draws) {}

  double log2_of(const FunctionSet& set) {
    double sum = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < functions_.size(); ++i)
      for (std::size_t j = 0; set.test(i) && j < i; ++j)
        if (set.test(j) && functions_[i].op == functions_[j].op) sum = log2_sum(sum, pair(i, j));
    return sum;
  }

 private:
  double pair(std::size_t i, std::size_t j) {
    auto [it, fresh] = known_.try_emplace({i, j}, 0.0);
    if (!fresh) return it->second;
    const FunctionClass &a = functions_[i], &b = functions_[j];
    const double half_degree =
        a.den_id == b.den_id ? std::max(a.num, b.num) : std::max(a.num + b.den, b.num + a.den);
    return it->second = std::popcount((a.roots | b.roots) & ~draws_.free_roots) +
                        std::log2(std::max(1.0, half_degree / 2)) +
                        log2_factor((a.units | b.units) & targets_, draws_);
  }

  const std::vector<FunctionClass>& functions_;
  const UnitSet& targets_;
  const Draws& draws_;
  std::map<std::pair<std::size_t, std::size_t>, double> known_;
};

void bound_elements(const std::vector<Formal>& program, const std::vector<Formal>& graph,
                    const UnitSet& targets, const Draws& draws, Coincidences& coincidences,
                    Structure& out) {
  double worst = -1;
  for (std::size_t o = 0; o < program.size(); ++o) {
    for (std::size_t e = 0; e < program[o].data.size(); ++e) {
      const FormalDomain::Scalar &f = program[o].data[e], &h = graph[o].data[e];
      const double half_degree =
          f.den_id == h.den_id ? std::max(f.num, h.num) : std::max(f.num + h.den, h.num + f.den);
      const int roots = std::popcount((f.roots | h.roots) & ~draws.free_roots);
      const double log2_degree = roots + std::log2(std::max(1.0, half_degree / 2));
      const double log2_draws = log2_factor((f.units | h.units) & targets, draws);
      const double log2_coincidence = coincidences.log2_of(f.functions | h.functions);
      const double all = log2_sum(log2_degree + log2_draws, log2_coincidence);
      if (all <= worst) continue;
      worst = all;
      out.log2_coincidence = log2_coincidence;
      out.log2_degree = log2_degree;
      out.log2_draws = log2_draws;
      out.roots = roots;
    }
  }
}

}  // namespace

double log2_sum(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  return std::isinf(low) ? high : high + std::log2(1 + std::exp2(low - high));
}

Structure analyse(const ir::Program& program, const ir::MuGraph& graph, const ScaledDims& dims,
                  const UnitMap& units, std::uint64_t seed, std::uint32_t prime_a,
                  std::uint32_t prime_b) {
  FormalDomain domain(program.signature, units, seed, prime_a, prime_b);
  const auto inputs = formal_inputs(program.signature, dims, units, domain);
  Structure out;
  const auto expected = ir::evaluate(program, dims.extents, domain, inputs);
  out.program_calls = domain.take_calls();
  const auto actual = ir::evaluate(graph, dims.extents, dims.partition, domain, inputs);
  out.graph_calls = domain.take_calls();
  out.classes = domain.classes();
  const UnitSet targets = choose_targets(out.classes, units);
  const Draws draws = count_draws(out.classes, targets, units.count());
  out.draw_limit = draws.limit;
  Coincidences coincidences(domain.functions(), targets, draws);
  bound_elements(expected, actual, targets, draws, coincidences, out);

  const auto calls = static_cast<double>(out.program_calls.size() + out.graph_calls.size());
  const double prime = static_cast<double>(std::min(prime_a, prime_b));
  const double functions = static_cast<double>(domain.functions().size());
  double degree = domain.largest_radicand_degree();
  for (const FunctionClass& f : domain.functions())
    degree = std::max(degree, std::exp2(std::popcount(f.roots)) * (f.num + f.den));
  out.log2_collision =
      std::log2((calls + 1) * static_cast<double>(out.classes.size() + 1) + functions * functions) +
      4 * std::log2(2 * degree / prime);
  if (domain.too_many_functions())
    out.problem = fmt::format("more than {} distinct values of functions", kMaxFunctionClasses);
  if (domain.too_many_roots()) out.problem = "more than 64 distinct square roots";
  for (const RootClass& c : out.classes)
    if (c.target < 0) out.problem = "a square root of a constant that is no square in the field";
  return out;
}

}  // namespace tenon::verifier
