// Bounded proof: Z3 looks for inputs at small dims on which program and µGraph differ.
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "ir/error.h"
#include "ir/roots.h"
#include "verifier/replay.h"
#include "verifier/units.h"
#include "verifier/values_json.h"
#include "verifier/verifier.h"
#include "verifier/z3_state.h"

namespace tenon::verifier {

namespace {

using Terms = ir::Values<Z3Domain::Scalar>;

constexpr double kMaxWork = 2e5;      // scalar operations of both evaluations
constexpr int kRealPoints = 2;        // float64 evaluations that have to agree with a proof
constexpr int kObligationTime = 250;  // ms for each operator that only the µGraph has
constexpr int kPinnings = 4;          // choices of concrete inputs tried before the open query
constexpr int kPinningTime = 500;     // … ms for each: many square roots at once can take forever

// Decimal approximation of a model's value, which may be an algebraic number.
std::optional<double> model_value(const z3::model& model, const z3::expr& symbol) {
  z3::expr v = model.eval(symbol, true);
  if (v.is_algebraic()) v = v.algebraic_lower(60);
  if (!v.is_numeral()) return std::nullopt;
  try {
    return std::stod(v.numerator().get_decimal_string(0)) /
           std::stod(v.denominator().get_decimal_string(0));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

class Z3Check {
 public:
  Z3Check(const ir::Program& program, const ir::MuGraph& graph, const ScaledDims& dims,
          const Z3Options& options, bool first)
      : program_(program),
        graph_(graph),
        dims_(dims),
        options_(options),
        first_(first),
        state_(options),
        domain_(state_) {}

  // Every way in which Z3 can fail becomes a verdict.
  void run(Evidence& evidence) {
    Z3Watchdog watchdog(state_.context, state_.deadline, state_.memory_mb);
    watchdog_ = &watchdog;
    try {
      decide(evidence);
    } catch (const Z3Limit& e) {
      stopped(evidence, e.timeout() ? Z3Stop::kTime : Z3Stop::kMemory, e.what());
    } catch (const z3::exception& e) {
      stopped(evidence, watchdog.stopped(), e.msg());
    } catch (const ir::Undefined& e) {
      stopped(evidence, Z3Stop::kNone, e.what());
    }
  }

  nlohmann::json figures() const {
    return {
        {"dims", nlohmann::json::parse(extents_json(program_.signature, dims_.extents))},
        {"partition", nlohmann::json::parse(partition_json(program_.signature, dims_.partition))},
        {"variables", variables_.size()},
        {"atoms", state_.atoms.size()},
        {"obligations", obligations_},
        {"outputs", equalities_},
        {"decided_by", decided_by_}};
  }

 private:
  void decide(Evidence& evidence) {
    evaluate();
    if (unwritten_) return refute_unwritten(evidence);
    if (!options_.dump_file.empty()) dump();
    if (options_.before_query) options_.before_query();
    for (int i = 0; i < kPinnings; ++i)
      if (pinned(i, evidence)) return;
    discharge_obligations();
    if (state_.simplifies_to_false(state_.assumptions(), violation()))
      return proved(evidence, "simplification");
    open(evidence);
  }

  void stopped(Evidence& evidence, Z3Stop stop, const std::string& message) {
    if (evidence.verdict == Verdict::kRefuted) return;  // a counterexample was confirmed before
    evidence.verdict = stop == Z3Stop::kTime ? Verdict::kTimeout : Verdict::kUnknown;
    if (stop == Z3Stop::kTime)
      evidence.reason = fmt::format("Z3 ran past {} ms", options_.timeout_ms);
    else if (stop == Z3Stop::kMemory)
      evidence.reason = fmt::format("Z3 used more than {} MB", options_.memory_mb);
    else
      evidence.reason = "Z3 gave up: " + message;
  }

  void evaluate() {
    const ir::Signature& s = program_.signature;
    for (const auto& [name, value] : s.attributes) {
      z3::expr symbol = state_.context.real_const(name.c_str());
      state_.attributes.emplace(name, symbol);
      variables_.push_back(symbol);
    }
    std::vector<Terms> inputs;
    const RealInputs point = random_reals(program_, dims_.extents, 1);
    for (const ir::ProgramInput& in : s.inputs) {
      Terms v{in.axes, input_extents(in, dims_.extents), {}};
      const std::int64_t count = ir::element_count(in.axes, dims_.extents);
      for (std::int64_t e = 0; e < count; ++e) {
        v.data.push_back(
            domain_.variable(fmt::format("{}!{}", in.name, e),
                             point.values[inputs.size()].data[static_cast<std::size_t>(e)]));
        variables_.push_back(state_.term(v.data.back()));
      }
      inputs.push_back(std::move(v));
    }
    const auto expected = ir::evaluate(program_, dims_.extents, domain_, inputs);
    state_.in_graph = true;
    const auto actual = ir::evaluate(graph_, dims_.extents, dims_.partition, domain_, inputs);
    for (std::size_t o = 0; o < expected.size(); ++o)
      for (std::size_t e = 0; e < expected[o].data.size(); ++e) {
        if (actual[o].data[e].id < 0) {
          unwritten_ = true;
          continue;
        }
        ++equalities_;
        differences_.push_back(state_.term(expected[o].data[e]) != state_.term(actual[o].data[e]));
      }
  }

  void refute_unwritten(Evidence& evidence) {
    decided_by_ = "evaluation";
    if (confirm(random_reals(program_, dims_.extents, 1), evidence)) return;
    evidence.verdict = Verdict::kUnknown;
    evidence.reason = "an element of an output is never written, yet float64 agrees";
  }

  // Shows, one by one, that what the µGraph divides by or takes roots of is in order wherever
  // the program is defined; what cannot be shown stays part of the claim.
  void discharge_obligations() {
    std::vector<z3::expr> open;
    for (const Z3Atom& a : state_.atoms) {
      if (!a.obligation) continue;
      ++obligations_;
      z3::solver solver = state_.solver();
      for (const auto& [name, symbol] : state_.attributes)
        solver.add(symbol > state_.context.real_val(0));
      for (const Z3Atom& b : state_.atoms)
        if (!b.obligation && z3::eq(b.argument, a.argument)) solver.add(state_.condition(b));
      solver.add(!state_.condition(a));
      if (check(solver, kObligationTime) != z3::unsat) open.push_back(!state_.condition(a));
    }
    for (const z3::expr& e : open) violations_.push_back(e);
    for (const z3::expr& e : differences_) violations_.push_back(e);
  }

  z3::expr violation() {
    z3::expr_vector v(state_.context);
    for (const z3::expr& e : violations_) v.push_back(e);
    return z3::mk_or(v);
  }

  z3::check_result check(z3::solver& solver, int milliseconds) {
    state_.check_limits();
    const z3::check_result r =
        watchdog_->check(solver, std::min(milliseconds, state_.remaining_ms()));
    if (r == z3::unknown) unknown_ = solver.reason_unknown();
    state_.check_limits();
    return r;
  }

  // What Z3 shows has to agree with float64 at inputs where the program has a value; where it
  // has none anywhere, the proof would say nothing.
  void proved(Evidence& evidence, const std::string& by) {
    decided_by_ = by;
    const Agreement reals = compare_at_random(program_, graph_, dims_, 1, kRealPoints);
    if (reals.compared == 0 || reals.differs()) {
      evidence.verdict = Verdict::kUnknown;
      evidence.reason = reals.differs()
                            ? "Z3 found no difference, but float64 did"
                            : "the program has no finite float64 result at random inputs";
      return;
    }
    evidence.verdict = Verdict::kProved;
  }

  // Small concrete inputs at which float64 differs; only the square roots are left to Z3. True
  // once the verdict is known.
  bool pinned(int attempt, Evidence& evidence) {
    std::mt19937_64 random(static_cast<std::uint64_t>(attempt) + 1);
    RealInputs inputs;
    z3::expr_vector equal(state_.context);
    std::size_t v = 0;
    for (const auto& [name, value] : program_.signature.attributes) {
      const int number = 1 + static_cast<int>(random() % 7);
      inputs.attributes[name] = number / 4.0;
      equal.push_back(variables_[v++] == state_.context.real_val(number, 4));
    }
    const std::vector<bool> under_root = ir::inputs_under_roots(program_);
    for (const ir::ProgramInput& in : program_.signature.inputs) {
      RealValues value{in.axes, input_extents(in, dims_.extents), {}};
      const std::int64_t count = ir::element_count(in.axes, dims_.extents);
      const bool positive = under_root[inputs.values.size()];
      for (std::int64_t e = 0; e < count; ++e) {
        const int magnitude = 1 + static_cast<int>(random() % 5);
        const int number = random() % 2 || positive ? magnitude : -magnitude;
        value.data.push_back(number);
        equal.push_back(variables_[v++] == state_.context.real_val(number));
      }
      inputs.values.push_back(std::move(value));
    }
    // With many square roots of numbers Z3 may not decide this in time. The inputs are a
    // counterexample all the same, by float64 alone, and the figures say so.
    Evidence by_float64;
    if (!confirm(inputs, by_float64)) return false;
    decided_by_ = "float64 at pinned inputs";
    const Verdict before = evidence.verdict;
    evidence.verdict = by_float64.verdict;
    evidence.reason = by_float64.reason;
    evidence.counterexample = by_float64.counterexample;
    // The difference is that of one element, or one operator that has no value.
    const z3::expr element = differences_.at(disjunct_of(confirmed_));
    z3::solver solver = state_.solver();
    const z3::expr_vector assumptions = state_.assumptions_of(element);
    for (unsigned i = 0; i < assumptions.size(); ++i) solver.add(assumptions[static_cast<int>(i)]);
    z3::expr_vector violated = state_.undefined();
    violated.push_back(element);
    solver.add(z3::mk_or(violated));
    for (unsigned i = 0; i < equal.size(); ++i) solver.add(equal[static_cast<int>(i)]);
    const z3::check_result result = check(solver, kPinningTime);
    if (result == z3::sat) decided_by_ = "pinned inputs";
    if (result != z3::unsat) return true;
    evidence.verdict = before;
    evidence.reason.clear();
    evidence.counterexample.clear();
    decided_by_.clear();
    return false;
  }

  // Elements of all outputs in order.
  std::size_t disjunct_of(const Element& element) const {
    std::int64_t index = element.flat;
    for (int o = 0; o < element.output; ++o)
      index += ir::element_count(program_.signature.output_axes[static_cast<std::size_t>(o)],
                                 dims_.extents);
    return static_cast<std::size_t>(index);
  }

  void open(Evidence& evidence) {
    z3::solver solver = state_.solver();
    add_query(solver);
    const z3::check_result result = check(solver, state_.remaining_ms());
    if (result == z3::unsat) return proved(evidence, "solver");
    const bool out_of_time = unknown_ == "interrupted" || unknown_ == "canceled";
    if (result == z3::unknown)
      return stopped(evidence, out_of_time ? Z3Stop::kTime : Z3Stop::kNone, unknown_);
    evidence.verdict = Verdict::kUnknown;
    decided_by_ = "solver";
    if (!confirm(model_inputs(solver.get_model()), evidence))
      evidence.reason = "Z3's counterexample does not differ in float64";
  }

  void add_query(z3::solver& solver) {
    z3::expr_vector assumptions = state_.assumptions();
    for (unsigned i = 0; i < assumptions.size(); ++i) solver.add(assumptions[static_cast<int>(i)]);
    solver.add(violation());
  }

  RealInputs model_inputs(const z3::model& model) {
    RealInputs inputs;
    std::size_t v = 0;
    auto next = [&] { return model_value(model, variables_[v++]).value_or(std::nan("")); };
    for (const auto& [name, value] : program_.signature.attributes)
      inputs.attributes[name] = next();
    for (const ir::ProgramInput& in : program_.signature.inputs) {
      RealValues value{in.axes, input_extents(in, dims_.extents), {}};
      const std::int64_t count = ir::element_count(in.axes, dims_.extents);
      for (std::int64_t e = 0; e < count; ++e) value.data.push_back(next());
      inputs.values.push_back(std::move(value));
    }
    return inputs;
  }

  // Replays inputs in float64; sets the verdict when the difference is real.
  bool confirm(const RealInputs& inputs, Evidence& evidence) {
    const Replay r = replay(program_, graph_, dims_, inputs);
    if (!r.comparable || !r.difference.found()) return false;
    confirmed_ = r.difference;
    evidence.verdict = Verdict::kRefuted;
    evidence.reason = "the results differ at " +
                      element_name(program_.signature, dims_.extents, r.difference) +
                      ", as float64 confirms";
    evidence.counterexample = counterexample_json(program_.signature, dims_, inputs, r);
    return true;
  }

  // The whole claim; the second setting is appended after a (reset).
  void dump() {
    z3::solver solver(state_.context);
    z3::expr_vector assumptions = state_.assumptions(), violated = state_.undefined();
    for (const z3::expr& e : differences_) violated.push_back(e);
    for (unsigned i = 0; i < assumptions.size(); ++i) solver.add(assumptions[static_cast<int>(i)]);
    solver.add(z3::mk_or(violated));
    std::ofstream file(options_.dump_file, first_ ? std::ios::trunc : std::ios::app);
    file << (first_ ? "" : "(reset)\n") << "; " << program_.signature.program << " and a µGraph at "
         << extents_json(program_.signature, dims_.extents) << "\n"
         << solver.to_smt2() << "\n";
    if (!file) throw UserError("file", options_.dump_file, "a path that can be written");
  }

  const ir::Program& program_;
  const ir::MuGraph& graph_;
  const ScaledDims& dims_;
  const Z3Options& options_;
  bool first_;  // of the settings
  Z3State state_;
  Z3Domain domain_;
  std::vector<z3::expr> variables_;  // attributes in name order, then inputs in order
  std::vector<z3::expr> differences_, violations_;
  Z3Watchdog* watchdog_ = nullptr;  // while a check runs
  Element confirmed_;               // where float64 confirmed a difference
  bool unwritten_ = false;
  int obligations_ = 0, equalities_ = 0;
  std::string unknown_, decided_by_;
};

void guarded_check(const ir::Program& program, const ir::MuGraph& graph, const Z3Options& options,
                   Evidence& evidence) {
  const std::string mismatch = signature_mismatch(program.signature, graph.signature);
  if (!mismatch.empty()) {
    evidence.verdict = Verdict::kUnsupported;
    evidence.reason = mismatch;
    return;
  }
  ir::validate(graph);
  const auto start = std::chrono::steady_clock::now();
  const std::optional<ScaledDims> first = smallest_dims(dim_uses(graph), nullptr);
  const std::optional<ScaledDims> second = first ? smallest_dims(dim_uses(graph), &*first) : first;
  nlohmann::json settings = nlohmann::json::array();
  for (const std::optional<ScaledDims>& dims : {first, second}) {
    if (!dims || !(work(program, *dims) + work(graph, *dims) <= kMaxWork)) {
      evidence.verdict = Verdict::kUnknown;
      evidence.reason = "the µGraph is too large to be proved at dims that keep its structure";
      break;
    }
    Z3Options left = options;
    left.timeout_ms -= static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                            std::chrono::steady_clock::now() - start)
                                            .count());
    Z3Check check(program, graph, *dims, left, settings.empty());
    evidence.verdict = Verdict::kUnknown;
    check.run(evidence);
    settings.push_back(check.figures());
    if (evidence.verdict == Verdict::kTimeout)
      evidence.reason = fmt::format("Z3 ran past {} ms", options.timeout_ms);
    if (evidence.verdict != Verdict::kProved) break;
  }
  nlohmann::json dims = nlohmann::json::array();
  for (const nlohmann::json& s : settings) dims.push_back(s["dims"]);
  if (evidence.verdict == Verdict::kProved)
    evidence.reason = "no inputs over the reals on which they differ at " + dims[0].dump() +
                      " and " + dims[1].dump();
  evidence.figures = nlohmann::json{
      {"dims", dims},
      {"settings", settings},
      {"timeout_ms", options.timeout_ms},
      {"memory_mb", options.memory_mb},
      {"solver", Z3_get_full_version()},
      {"casts",
       "invisible"}}.dump();
}

}  // namespace

Evidence z3_check(const ir::Program& program, const ir::MuGraph& graph, const Z3Options& options) {
  const auto start = std::chrono::steady_clock::now();
  Evidence evidence;
  evidence.method = "z3";
  try {
    guarded_check(program, graph, options, evidence);
  } catch (const ir::Unsupported& e) {
    evidence.verdict = Verdict::kUnsupported;
    evidence.reason = e.what();
  } catch (const UserError& e) {
    evidence.verdict = Verdict::kUnsupported;
    evidence.reason = e.what();
  } catch (const std::bad_alloc&) {
    evidence.verdict = Verdict::kUnknown;
    evidence.reason = "out of memory";
  } catch (const std::exception& e) {  // a mistake of ours: no evidence, and said so
    evidence.verdict = Verdict::kUnknown;
    evidence.reason = std::string("the method failed: ") + e.what();
  }
  if (evidence.figures.empty()) evidence.figures = "{}";
  evidence.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return evidence;
}

}  // namespace tenon::verifier
