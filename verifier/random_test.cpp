// Random testing over prime fields; docs/verification.md writes out the bound.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "ir/error.h"
#include "verifier/primes.h"
#include "verifier/replay.h"
#include "verifier/structure.h"
#include "verifier/trial.h"
#include "verifier/values_json.h"
#include "verifier/verifier.h"

namespace tenon::verifier {

namespace {

constexpr double kMaxWork = 4e6;      // scalar operations of one evaluation
constexpr int kMaxTrials = 64;        // per prime and setting
constexpr int kRealPoints = 4;        // float64 evaluations per setting
constexpr int kCheapDraws = 1 << 12;  // a unit drawn more often makes a trial slow
constexpr double kFewDraws = 1 << 9;  // dims at which no unit is drawn more often are taken at once
constexpr double kUsefulTrial = -4;   // log2 of a trial's bound; dims with a worse one are the last
constexpr std::uint64_t kDimAttempts = 8;

// An independent 64-bit stream for each purpose of a seed.
std::uint64_t derive(std::uint64_t seed, std::initializer_list<std::uint64_t> path) {
  std::vector<std::uint32_t> words;
  auto push = [&](std::uint64_t v) {
    words.push_back(static_cast<std::uint32_t>(v));
    words.push_back(static_cast<std::uint32_t>(v >> 32));
  };
  push(seed);
  for (std::uint64_t p : path) push(p);
  std::seed_seq sequence(words.begin(), words.end());
  std::uint32_t out[2];
  sequence.generate(out, out + 2);
  return std::uint64_t{out[1]} << 32 | out[0];
}

Element first_difference(const std::vector<FieldValues>& a, const std::vector<FieldValues>& b) {
  for (std::size_t o = 0; o < a.size(); ++o)
    for (std::size_t e = 0; e < a[o].data.size(); ++e)
      if (a[o].data[e] != b[o].data[e]) return {static_cast<int>(o), static_cast<std::int64_t>(e)};
  return {};
}

// log2 of the bound on a false accept in one trial.
double log2_chance(const Structure& s, std::uint32_t prime) {
  return log2_sum(s.log2_degree + s.log2_draws, s.log2_coincidence) + std::log2(kRestarts) -
         std::log2(static_cast<double>(prime));
}

// How often one unit may be drawn.
int largest_limit(const Structure& structure) {
  int limit = 1;
  for (int l : structure.draw_limit) limit = std::max(limit, l);
  return limit;
}

// One choice of dims and parts, tested over both primes.
struct Setting {
  ScaledDims dims;
  std::uint64_t seed = 0;
  Structure structure;
  bool analysed = false;
  std::string problem;  // why there is no bound here
  int trials = 0;       // per prime
  double bound_log2 = 0;
};

class RandomTest {
 public:
  RandomTest(const ir::Program& program, const ir::MuGraph& graph, const RandomOptions& options)
      : program_(program), graph_(graph), options_(options) {
    std::mt19937_64 random(derive(options.seed, {0}));
    const std::size_t first = random() % kPrimes.size();
    const std::size_t step = 1 + random() % (kPrimes.size() - 1);
    primes_ = {kPrimes[first], kPrimes[(first + step) % kPrimes.size()]};
  }

  Evidence run() {
    evidence_.method = "random";
    const std::string mismatch = signature_mismatch(program_.signature, graph_.signature);
    if (!mismatch.empty()) return verdict(Verdict::kUnsupported, mismatch);
    if (!choose_settings()) return finish();
    for (Setting& setting : settings_)
      if (!test(setting)) return finish();
    for (const Setting& setting : settings_)
      if (!setting.problem.empty()) {
        verdict(Verdict::kUnknown, "no difference found, but no bound either: " + setting.problem);
        return finish();
      }
    verdict(Verdict::kPass,
            fmt::format("equal in {} trials over {} primes; false-accept bound 2^{:.0f}", trials_,
                        primes_.size(), std::ceil(bound_log2())));
    return finish();
  }

  Evidence verdict(Verdict v, std::string reason) {
    evidence_.verdict = v;
    evidence_.reason = std::move(reason);
    return evidence_;
  }

  Evidence finish() {
    evidence_.figures = figures();
    return evidence_;
  }

 private:
  // The settings that the options name; false, with the verdict, when one is none.
  bool take_settings() {
    const std::size_t rank = program_.signature.dims.size();
    for (const ScaledDims& dims : options_.at) {
      const auto within = [&](const std::vector<std::int64_t>& v) {
        return v.size() == rank && std::all_of(v.begin(), v.end(), [](std::int64_t x) {
                 return x >= 1 && x <= kLargestExtent;
               });
      };
      if (!within(dims.extents) || !within(dims.partition.grid) || !within(dims.partition.loop)) {
        verdict(Verdict::kUnsupported,
                fmt::format("an extent or a number of parts for each of {} dims, each 1 to {}, "
                            "is needed to test at",
                            rank, kLargestExtent));
        return false;
      }
      if (!(work(program_, dims) + work(graph_, dims) <= kMaxWork)) {
        verdict(Verdict::kUnknown,
                fmt::format("the dims to test at need more than {:.0e} operations", kMaxWork));
        return false;
      }
      Setting setting;
      setting.dims = dims;
      setting.seed = derive(options_.seed, {1, settings_.size()});
      examine(setting);
      settings_.push_back(std::move(setting));
    }
    return true;
  }

  // Dims and structure of both settings; false, with the verdict, when there are none.
  bool choose_settings() {
    if (!options_.at.empty()) return take_settings();
    const std::vector<DimUse> uses = dim_uses(graph_);
    for (std::int64_t parts : {2, 3}) {
      Setting chosen;
      double least = std::numeric_limits<double>::infinity();
      for (std::uint64_t attempt = 0; attempt < kDimAttempts && least > kFewDraws; ++attempt) {
        Setting setting;
        setting.seed = derive(options_.seed, {1, static_cast<std::uint64_t>(parts), attempt});
        const ScaledDims* earlier = settings_.empty() ? nullptr : &settings_.front().dims;
        auto dims = random_dims(uses, parts, parts, setting.seed, earlier, attempt > 0);
        if (!dims) continue;
        setting.dims = *dims;
        if (!(work(program_, *dims) + work(graph_, *dims) <= kMaxWork)) continue;
        const double cost = examine(setting);
        if (chosen.dims.extents.empty() || cost < least) {
          least = cost;
          chosen = std::move(setting);
        }
      }
      if (chosen.dims.extents.empty()) {
        verdict(Verdict::kUnknown,
                fmt::format("{} dims cannot be scaled down distinctly to at most {:.0e} operations",
                            uses.size(), kMaxWork));
        return false;
      }
      settings_.push_back(std::move(chosen));
    }
    return true;
  }

  // Analyses a setting; how often a unit may have to be drawn there.
  double examine(Setting& setting) {
    const UnitMap units(program_.signature, setting.dims.extents);
    if (units.count() > static_cast<int>(kMaxUnits)) {
      setting.problem =
          fmt::format("the inputs have {} units, more than {}", units.count(), kMaxUnits);
      return std::numeric_limits<double>::infinity();
    }
    try {
      setting.structure = analyse(program_, graph_, setting.dims, units, derive(setting.seed, {2}),
                                  primes_[0], primes_[1]);
    } catch (const ir::Undefined& e) {  // a divisor that is zero at every input, probably
      setting.problem = e.what();
      return 0;
    }
    setting.analysed = true;
    setting.problem = setting.structure.problem;
    const bool bounds = log2_chance(setting.structure, primes_[0]) < kUsefulTrial;
    return largest_limit(setting.structure) * (bounds ? 1.0 : 1e6) *
           (setting.problem.empty() ? 1.0 : 1e9);
  }

  // False once the verdict is known.
  bool test(Setting& setting) {
    const Agreement reals =
        compare_at_random(program_, graph_, setting.dims, derive(setting.seed, {5}), kRealPoints);
    if (reals.differs()) note_difference(setting, reals);
    const bool costly = setting.analysed && largest_limit(setting.structure) > kCheapDraws;
    if (!difference_.empty() && (costly || !setting.analysed)) return refuted_in_float64();
    if (!setting.analysed) {
      verdict(Verdict::kUnknown, setting.problem);
      return false;
    }
    if (reals.compared == 0) {
      verdict(Verdict::kUnknown, "the program has no finite float64 result at random inputs");
      return false;
    }
    const UnitMap units(program_.signature, setting.dims.extents);
    plan_trials(setting);
    for (std::size_t p = 0; p < primes_.size(); ++p)
      for (int t = 0; t < setting.trials; ++t)
        if (!trial(setting, units, primes_[p],
                   derive(setting.seed, {3, p, static_cast<std::uint64_t>(t)})))
          return false;
    if (setting.problem.empty() && !setting.structure.classes.empty())
      for (std::size_t p = 0; p < primes_.size(); ++p)
        if (!roots_independent(program_, graph_, setting.dims, units, setting.structure, primes_[p],
                               derive(setting.seed, {4, p})))
          setting.problem = "the radicands of the square roots are related";
    // Equal modulo both primes, yet not over the reals: constants that a prime divides do so.
    return difference_.empty() ? true : refuted_in_float64();
  }

  bool refuted_in_float64() {
    verdict(Verdict::kRefuted, "the results differ in float64 at " + difference_);
    return false;
  }

  void note_difference(const Setting& setting, const Agreement& reals) {
    const ir::Signature& s = program_.signature;
    difference_ = element_name(s, setting.dims.extents, reals.replay.difference);
    nlohmann::json out{{"float64", nlohmann::json::parse(counterexample_json(
                                       s, setting.dims, reals.inputs, reals.replay))}};
    evidence_.counterexample = out.dump();
  }

  // As many trials as the bound needs, at least `options.trials`.
  void plan_trials(Setting& setting) {
    const Structure& s = setting.structure;
    double per_pair = 0;  // log2 of a false accept in one trial over each prime
    for (std::uint32_t p : primes_) per_pair += std::min(0.0, log2_chance(s, p));
    int wanted = std::max(1, options_.trials);
    auto bound = [&] { return log2_sum(wanted * per_pair, s.log2_collision); };
    while (wanted < kMaxTrials && !(bound() < options_.bound_log2)) ++wanted;
    setting.trials = wanted;
    setting.bound_log2 = bound();
    if (!(setting.bound_log2 < options_.bound_log2)) {
      setting.trials = std::max(1, options_.trials);
      if (setting.problem.empty())
        setting.problem = fmt::format("{} trials per prime bound a false accept by 2^{:.1f} only",
                                      kMaxTrials, setting.bound_log2);
    }
  }

  // False once the verdict is known.
  bool trial(Setting& setting, const UnitMap& units, std::uint32_t prime, std::uint64_t seed) {
    const Trial t =
        run_trial(program_, graph_, setting.dims, units, setting.structure, prime, seed);
    ++trials_;
    seeds_.push_back(seed);
    if (!t.defined) {
      // Inputs where both are defined are rare, or there are none: the µGraph may be undefined
      // where the program is not, which float64 can tell.
      if (!difference_.empty()) return refuted_in_float64();
      verdict(Verdict::kUnknown,
              fmt::format("no inputs modulo {} at which the square roots and quotients "
                          "of both exist were found",
                          prime));
      return false;
    }
    const Element difference = first_difference(t.program, t.graph);
    if (!difference.found()) return true;
    const std::string at = element_name(program_.signature, setting.dims.extents, difference);
    if (difference_.empty()) {
      verdict(Verdict::kUnknown,
              fmt::format("the results differ modulo {} at {}, but not in float64", prime, at));
    } else {
      add_field_counterexample(setting, t, prime, difference);
      verdict(Verdict::kRefuted,
              fmt::format("the results differ modulo {} at {}, and in float64 at {}", prime, at,
                          difference_));
    }
    return false;
  }

  void add_field_counterexample(const Setting& setting, const Trial& t, std::uint32_t prime,
                                const Element& difference) {
    const auto o = static_cast<std::size_t>(difference.output);
    const auto e = static_cast<std::size_t>(difference.flat);
    const ir::Signature& s = program_.signature;
    nlohmann::json out = nlohmann::json::parse(evidence_.counterexample);
    out["field"] = {{"prime", prime},
                    {"dims", nlohmann::json::parse(extents_json(s, setting.dims.extents))},
                    {"partition", nlohmann::json::parse(partition_json(s, setting.dims.partition))},
                    {"attributes", t.attributes},
                    {"inputs", inputs_json(s, t.inputs)},
                    {"program", outputs_json(s, t.program)},
                    {"mugraph", outputs_json(s, t.graph)},
                    {"element",
                     {{"name", element_name(s, setting.dims.extents, difference)},
                      {"program", t.program[o].data[e]},
                      {"mugraph", t.graph[o].data[e]}}}};
    evidence_.counterexample = out.dump();
  }

  double bound_log2() const {
    double worst = -std::numeric_limits<double>::infinity();
    for (const Setting& s : settings_) worst = std::max(worst, s.bound_log2);
    return worst;
  }

  std::string figures() const {
    nlohmann::json settings = nlohmann::json::array();
    double degree = 0;
    bool bounded = !settings_.empty();
    for (const Setting& s : settings_) {
      bounded = bounded && s.problem.empty() && s.trials > 0;
      degree = std::max(degree, std::exp2(s.structure.log2_degree));
      settings.push_back(
          {{"dims", nlohmann::json::parse(extents_json(program_.signature, s.dims.extents))},
           {"partition",
            nlohmann::json::parse(partition_json(program_.signature, s.dims.partition))},
           {"trials_per_prime", s.trials},
           {"degree", std::exp2(s.structure.log2_degree)},
           {"roots", s.structure.roots},
           {"log2_draws", s.structure.log2_draws + std::log2(kRestarts)},
           {"log2_coincidence", std::isinf(s.structure.log2_coincidence)
                                    ? nlohmann::json()
                                    : nlohmann::json(s.structure.log2_coincidence)},
           {"log2_collision", s.structure.log2_collision},
           {"bound_log2", s.problem.empty() ? nlohmann::json(s.bound_log2) : nlohmann::json()}});
    }
    nlohmann::json out{{"settings", settings},
                       {"dims", nlohmann::json::array()},
                       {"partition", nlohmann::json::array()},
                       {"primes", primes_},
                       {"seed", options_.seed},
                       {"seeds", seeds_},
                       {"trials", trials_},
                       {"degree", degree},
                       {"bound_log2", bounded ? nlohmann::json(bound_log2()) : nlohmann::json()},
                       {"float64_points", kRealPoints},
                       {"casts", "invisible"}};
    for (const nlohmann::json& s : settings) {
      out["dims"].push_back(s["dims"]);
      out["partition"].push_back(s["partition"]);
    }
    return out.dump();
  }

  const ir::Program& program_;
  const ir::MuGraph& graph_;
  const RandomOptions& options_;
  std::array<std::uint32_t, 2> primes_{};
  std::vector<Setting> settings_;
  Evidence evidence_;
  std::string difference_;  // the element that differs in float64; empty when none does
  int trials_ = 0;
  std::vector<std::uint64_t> seeds_;
};

}  // namespace

Evidence random_test(const ir::Program& program, const ir::MuGraph& graph,
                     const RandomOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  RandomTest test(program, graph, options);
  Evidence evidence;
  try {
    ir::validate(graph);
    evidence = test.run();
  } catch (const ir::Unsupported& e) {
    evidence = test.verdict(Verdict::kUnsupported, e.what());
  } catch (const ir::Undefined& e) {
    evidence = test.verdict(Verdict::kUnknown, e.what());
  } catch (const UserError& e) {
    evidence = test.verdict(Verdict::kUnsupported, e.what());
  } catch (const std::bad_alloc&) {
    evidence = test.verdict(Verdict::kUnknown, "out of memory");
  } catch (const std::exception& e) {  // a mistake of ours: no evidence, and said so
    evidence = test.verdict(Verdict::kUnknown, std::string("the method failed: ") + e.what());
  }
  evidence.method = "random";
  evidence.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return evidence;
}

}  // namespace tenon::verifier
