// Unbounded proof: program and µGraph agree at every extent, for every way in which grid and
// loop cut the dims. docs/verification.md states the induction; Z3 discharges its claims.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "verifier/replay.h"
#include "verifier/scaled_dims.h"
#include "verifier/symbolic.h"
#include "verifier/verifier.h"

namespace tenon::verifier {

namespace {

constexpr double kMaxRealWork = 1e7;  // scalar operations of a float64 evaluation
constexpr int kClaimTime = 2000;      // ms for one claim that simplification does not decide

// A claim that Z3 could not show; the proof ends with it.
class NotShown : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Induction {
 public:
  Induction(const ir::Program& program, const ir::MuGraph& graph, const Z3Options& options)
      : program_(program),
        graph_(graph),
        options_(options),
        state_(options),
        symbolic_(state_, program.signature) {}

  void run(Evidence& evidence) {
    Z3Watchdog watchdog(state_.context, state_.deadline, state_.memory_mb);
    watchdog_ = &watchdog;
    auto stopped = [&](Z3Stop stop, const std::string& message) {
      evidence.verdict = stop == Z3Stop::kTime ? Verdict::kTimeout : Verdict::kUnknown;
      evidence.reason =
          stop == Z3Stop::kTime     ? fmt::format("Z3 ran past {} ms", options_.timeout_ms)
          : stop == Z3Stop::kMemory ? fmt::format("Z3 used more than {} MB", options_.memory_mb)
                                    : message;
    };
    try {
      prove();
      agree_in_float64();
      evidence.verdict = Verdict::kProved;
      evidence.reason =
          fmt::format("equal at every extent and partition: {} claims shown", claims_.size());
    } catch (const NotShown& e) {
      stopped(Z3Stop::kNone, e.what());
    } catch (const Z3Limit& e) {
      stopped(e.timeout() ? Z3Stop::kTime : Z3Stop::kMemory, e.what());
    } catch (const z3::exception& e) {
      stopped(watchdog.stopped(), std::string("Z3 gave up: ") + e.msg());
    }
  }

  std::string figures() const {
    nlohmann::json out{
        {"claims", claims_},
        {"sums", symbolic_.sums()},
        {"roots", symbolic_.roots()},
        {"timeout_ms", options_.timeout_ms},
        {"memory_mb", options_.memory_mb},
        {"solver", Z3_get_full_version()},
        {"assumes", "extents, counts and attributes positive; every split share has an element"},
        {"casts", "invisible"}};
    return out.dump();
  }

 private:
  void prove() {
    std::vector<Fraction> inputs;
    for (std::size_t i = 0; i < program_.signature.inputs.size(); ++i)
      inputs.push_back(symbolic_.input(i));
    const std::vector<Fraction> values = symbolic_.evaluate(program_.graph, inputs);
    if (options_.before_query) options_.before_query();
    state_.in_graph = true;
    run_graph(inputs);
    const std::size_t first = inputs.size();
    for (std::size_t o = 0; o < program_.signature.outputs.size(); ++o) {
      const ir::ProgramOutput& out = program_.signature.outputs[o];
      const Fraction& actual = tensors_[first + o].front();
      if (symbolic_.depends_on_tiles(actual))
        throw ir::Unsupported("output " + out.name + " depends on how a dim is cut");
      claim("output " + out.name,
            symbolic_.equal(values[static_cast<std::size_t>(out.value)], actual),
            symbolic_.assumptions());
    }
    for (const z3::expr& e : symbolic_.radicands())
      claim("a radicand is positive", e, symbolic_.program_assumptions());
    for (const z3::expr& e : symbolic_.divisors())
      claim("a divisor is not zero", e, symbolic_.assumptions());
  }

  // A proof of what has no value, or of what float64 contradicts, is none.
  void agree_in_float64() {
    const auto dims = smallest_dims(dim_uses(graph_), nullptr);
    if (!dims || !(work(program_, *dims) + work(graph_, *dims) <= kMaxRealWork)) return;
    const Agreement reals = compare_at_random(program_, graph_, *dims, 1, 2);
    if (reals.compared == 0)
      throw NotShown("the program has no finite float64 result at random inputs");
    if (reals.differs()) throw NotShown("every claim was shown, but float64 differs");
  }

  // The generic elements of all tensors.
  void run_graph(const std::vector<Fraction>& inputs) {
    tensors_.assign(graph_.tensors.size(), {});
    for (std::size_t i = 0; i < inputs.size(); ++i) tensors_[i] = {inputs[i]};
    std::vector<Fraction> parameters;
    for (const ir::GraphInput& in : graph_.prepare.graph.inputs())
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (graph_.signature.inputs[i].name == in.name) parameters.push_back(inputs[i]);
    const auto prepared = symbolic_.evaluate(graph_.prepare.graph, parameters);
    for (const ir::BlockOutput& out : graph_.prepare.outputs)
      tensors_[static_cast<std::size_t>(out.tensor)] = {
          prepared[static_cast<std::size_t>(out.value)]};
    for (const ir::Kernel& kernel : graph_.kernels) {
      if (const ir::LibraryMatmul* product = kernel.library()) {
        tensors_[static_cast<std::size_t>(product->out)] = {
            symbolic_.sum(symbolic_.apply(ir::OpKind::kMul, tensor(product->a), tensor(product->b)),
                          product->dim, Range::kAll)};
      } else {
        run_block(kernel.name, *kernel.block());
      }
    }
  }

  const Fraction& tensor(ir::TensorId t) const {
    return tensors_[static_cast<std::size_t>(t)].front();
  }

  void run_block(const std::string& name, const ir::BlockGraph& block) {
    std::vector<Fraction> values;
    for (const ir::BlockInput& in : block.inputs) {
      for (const ir::AxisMap& map : in.maps)
        if (map.shift != 0)
          throw ir::Unsupported("kernel " + name + " reads another block's share");
      values.push_back(tensor(in.tensor));
    }
    std::vector<std::vector<Fraction>> results(block.accumulators.size());
    for (const ir::Node& n : block.graph.nodes()) {
      if (n.op != ir::OpKind::kAccumulated) {
        values.push_back(symbolic_.node(block.graph, n, values));
        continue;
      }
      const auto a = static_cast<std::size_t>(n.accumulator);
      if (results[a].empty())
        results[a] = accumulate(fmt::format("kernel {}, accumulator {}", name, a), block,
                                block.accumulators[a], values);
      values.push_back(results[a][static_cast<std::size_t>(n.result)]);
    }
    for (const ir::BlockOutput& out : block.outputs)
      tensors_[static_cast<std::size_t>(out.tensor)] = {
          values[static_cast<std::size_t>(out.value)]};
  }

  // Loop steps and split shares together must visit all of the dim, each element once.
  void check_cut(const std::string& where, const ir::BlockGraph& block,
                 const ir::Accumulator& acc) {
    int part = ir::kFull;
    if (std::find(block.loop.begin(), block.loop.end(), acc.dim) != block.loop.end())
      part |= ir::kLoop;
    for (const ir::GridDim& g : block.grid) {
      if (g.dim != acc.dim) continue;
      if (!g.split) throw ir::Unsupported(where + " sees one block's share of its dim only");
      part |= ir::kGrid;
    }
    auto check = [&](const ir::Axes& axes) {
      const int i = ir::find_dim(axes, acc.dim);
      if (i >= 0 && axes[static_cast<std::size_t>(i)].part != ir::kFull &&
          axes[static_cast<std::size_t>(i)].part != part)
        throw ir::Unsupported(where + " mixes two cuts of its dim");
    };
    for (const ir::GraphInput& in : block.graph.inputs()) check(in.axes);
    for (const ir::Graph* g : {&block.graph, &acc.init, &acc.update, &acc.merge, &acc.finalize})
      for (const ir::Node& n : g->nodes()) check(n.axes);
  }

  // The induction. F, the states after one tile, as a function of the tile's sums, is also the
  // states after any number of tiles as a function of their sums together: one more tile turns
  // F(sums so far) into F(sums so far + the tile's), and merging adds the sums of two shares.
  std::vector<Fraction> accumulate(const std::string& where, const ir::BlockGraph& block,
                                   const ir::Accumulator& acc,
                                   const std::vector<Fraction>& values) {
    check_cut(where, block, acc);
    std::vector<Fraction> operands;
    for (ir::ValueId v : acc.operands) operands.push_back(values[static_cast<std::size_t>(v)]);
    const auto init = pick(symbolic_.evaluate(acc.init, {}), acc.init_out);
    const auto first = update(acc, init, operands);
    std::vector<Fraction> so_far, left, right;
    for (const Fraction& f : first) {
      so_far.push_back(symbolic_.over_part(f, acc.dim, 0));
      left.push_back(so_far.back());
      right.push_back(symbolic_.over_part(f, acc.dim, 1));
    }
    const auto next = update(acc, so_far, operands);
    for (std::size_t s = 0; s < first.size(); ++s)
      claim(fmt::format("{}, state {}: step", where, s),
            symbolic_.equal(next[s], symbolic_.over_part_and_tile(first[s], acc.dim)),
            symbolic_.assumptions());
    const bool split = std::any_of(block.grid.begin(), block.grid.end(),
                                   [](const ir::GridDim& g) { return g.split; });
    if (split) {
      left.insert(left.end(), right.begin(), right.end());
      const auto merged = pick(symbolic_.evaluate(acc.merge, left), acc.merge_out);
      for (std::size_t s = 0; s < first.size(); ++s)
        claim(fmt::format("{}, state {}: merge", where, s),
              symbolic_.equal(merged[s], symbolic_.over_two_parts(first[s], acc.dim)),
              symbolic_.assumptions());
    }
    std::vector<Fraction> whole;
    for (const Fraction& f : first) whole.push_back(symbolic_.over_all(f, acc.dim));
    return pick(symbolic_.evaluate(acc.finalize, whole), acc.finalize_out);
  }

  std::vector<Fraction> update(const ir::Accumulator& acc, std::vector<Fraction> states,
                               const std::vector<Fraction>& operands) {
    states.insert(states.end(), operands.begin(), operands.end());
    return pick(symbolic_.evaluate(acc.update, std::move(states)), acc.update_out);
  }

  static std::vector<Fraction> pick(const std::vector<Fraction>& values,
                                    const std::vector<ir::ValueId>& outputs) {
    std::vector<Fraction> out;
    for (ir::ValueId v : outputs) out.push_back(values[static_cast<std::size_t>(v)]);
    return out;
  }

  void claim(const std::string& name, const z3::expr& what, const z3::expr_vector& assumptions) {
    if (!state_.simplifies_to_false(assumptions, !what)) {
      z3::solver solver = state_.solver();
      for (unsigned i = 0; i < assumptions.size(); ++i)
        solver.add(assumptions[static_cast<int>(i)]);
      solver.add(!what);
      const z3::check_result r =
          watchdog_->check(solver, std::min(kClaimTime, state_.remaining_ms()));
      state_.check_limits();
      if (r != z3::unsat)
        throw NotShown(name + (r == z3::sat ? " does not hold in general"
                                            : " was not decided: " + solver.reason_unknown()));
    }
    claims_.push_back(name);
  }

  const ir::Program& program_;
  const ir::MuGraph& graph_;
  const Z3Options& options_;
  Z3State state_;
  Symbolic symbolic_;
  Z3Watchdog* watchdog_ = nullptr;  // while the proof runs
  std::vector<std::vector<Fraction>>
      tensors_;  // by tensor: its generic element, once it is written
  std::vector<std::string> claims_;
};

void guarded(const ir::Program& program, const ir::MuGraph& graph, const Z3Options& options,
             Evidence& evidence) {
  const std::string mismatch = signature_mismatch(program.signature, graph.signature);
  if (!mismatch.empty()) throw ir::Unsupported(mismatch);
  ir::validate(graph);
  Induction induction(program, graph, options);
  induction.run(evidence);
  evidence.figures = induction.figures();
}

}  // namespace

Evidence induction_check(const ir::Program& program, const ir::MuGraph& graph,
                         const Z3Options& options) {
  const auto start = std::chrono::steady_clock::now();
  Evidence evidence;
  evidence.method = "induction";
  try {
    guarded(program, graph, options, evidence);
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
