// The domains agree where they can be compared, and the methods can run at once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <thread>

#include "ir/domain.h"
#include "tests/optimizer/random_program.h"
#include "tests/verifier/programs.h"
#include "verifier/primes.h"
#include "verifier/replay.h"
#include "verifier/scaled_dims.h"
#include "verifier/trial.h"
#include "verifier/verifier.h"
#include "verifier/z3_state.h"

namespace tenon::verifier {
namespace {

ScaledDims dims_of(const ir::MuGraph& graph) {
  return smallest_dims(dim_uses(graph), nullptr).value();
}

// The largest error of any output, relative to the largest element of that output.
template <class S>
double error(const std::vector<ir::Values<S>>& actual, const std::vector<RealValues>& exact) {
  double worst = 0;
  for (std::size_t o = 0; o < exact.size(); ++o) {
    double scale = 0;
    for (double y : exact[o].data) scale = std::max(scale, std::fabs(y));
    for (std::size_t e = 0; e < exact[o].data.size(); ++e) {
      const double d = std::fabs(static_cast<double>(actual[o].data[e]) - exact[o].data[e]) / scale;
      worst = std::isfinite(d) ? std::max(worst, d) : INFINITY;
    }
  }
  return worst;
}

// Rounded evaluation stays near the exact one, and the nearer the more bits there are.
TEST(Domains, RoundedIsNearDouble) {
  for (const std::string& path : testing::right_fixtures()) {
    const ir::MuGraph graph = ir::parse_mugraph(testing::read_text(path));
    const ScaledDims dims = dims_of(graph);
    const RealInputs reals = random_reals(testing::program_of(graph), dims.extents, 3);
    ir::DoubleDomain exact(reals.attributes);
    const auto y64 = ir::evaluate(graph, dims.extents, dims.partition, exact, reals.values);
    auto rounded = [&](ir::DType dtype) {
      std::vector<ir::Values<float>> inputs;
      for (const RealValues& v : reals.values) {
        ir::Values<float> f{v.axes, v.extents, {}};
        for (double x : v.data) f.data.push_back(ir::round_to(dtype, static_cast<float>(x)));
        inputs.push_back(std::move(f));
      }
      ir::RoundedDomain domain(reals.attributes, dtype);
      return error(ir::evaluate(graph, dims.extents, dims.partition, domain, inputs), y64);
    };
    // A handful of roundings of half a unit in the last place each (8, 11 and 24 bits).
    EXPECT_LT(rounded(ir::DType::kBF16), 16 * 0x1p-8) << path;
    EXPECT_LT(rounded(ir::DType::kF16), 16 * 0x1p-11) << path;
    EXPECT_LT(rounded(ir::DType::kF32), 64 * 0x1p-24) << path;
  }
}

// Without square roots a small integer result is the same number in the field and in float64.
TEST(Domains, FieldIsDoubleOnIntegers) {
  const ir::Program program = ir::parse_program(
      "program p\ndims m, k\ninput x: T[m, k] activation\ninput w: T[k] parameter\n"
      "%0 = square(x)\n%1 = sub(%0, w)\n%2 = matmul(%1, w, k)\noutput y: T = %2\n");
  const ir::Extents extents = {3, 5};
  std::vector<ir::Values<double>> reals;
  std::vector<ir::Values<std::uint32_t>> residues;
  const std::uint32_t p = kPrimes[0];
  int next = -7;
  for (const ir::ProgramInput& in : program.signature.inputs) {
    ir::Values<double> v{in.axes, {}, {}};
    for (const ir::Axis& axis : in.axes) v.extents.push_back(extents[axis.dim]);
    ir::Values<std::uint32_t> f{v.axes, v.extents, {}};
    for (std::int64_t e = ir::element_count(in.axes, extents); e > 0; --e, next += 3) {
      v.data.push_back(next);
      f.data.push_back(static_cast<std::uint32_t>((next + std::int64_t{p}) % p));
    }
    reals.push_back(v);
    residues.push_back(f);
  }
  ir::DoubleDomain exact({});
  ir::FieldDomain field(p, {});
  const auto y = ir::evaluate(program, extents, exact, reals)[0].data;
  const auto z = ir::evaluate(program, extents, field, residues)[0].data;
  for (std::size_t i = 0; i < y.size(); ++i)
    EXPECT_EQ(static_cast<std::int64_t>(z[i]),
              (static_cast<std::int64_t>(y[i]) % p + std::int64_t{p}) % p);
}

// A Z3 term as a number: inputs are numerals, and an atom is what its operator makes of its
// argument's number. Atoms are made after those in their arguments.
class TermValue {
 public:
  explicit TermValue(Z3State& state) : state_(state), from_(state.context), to_(state.context) {
    for (std::size_t i = 0; i < state.atoms.size(); ++i) {
      const Z3Atom& a = state.atoms[i];
      const double x = of(a.argument);
      const ir::DoubleDomain exact({});
      const double y = a.kind == AtomKind::kFunction ? exact.apply(a.op, x)
                       : a.kind == AtomKind::kSqrt   ? std::sqrt(x)
                       : a.kind == AtomKind::kRsqrt  ? 1 / std::sqrt(x)
                                                     : 1 / x;
      from_.push_back(a.symbol);
      to_.push_back(state.context.real_val(fmt::format("{:.40f}", y).c_str()));
    }
  }
  double of(z3::expr e) {
    e = e.substitute(from_, to_).simplify();
    EXPECT_TRUE(e.is_numeral()) << e;
    return std::stod(e.get_decimal_string(25));
  }

 private:
  Z3State& state_;
  z3::expr_vector from_, to_;
};

// Z3's terms, roots and functions included, are float64's numbers.
TEST(Domains, Z3IsDouble) {
  for (const std::string& path : testing::right_fixtures()) {
    const ir::MuGraph graph = ir::parse_mugraph(testing::read_text(path));
    const ir::Program program = testing::program_of(graph);
    const ScaledDims dims = dims_of(graph);
    RealInputs reals = random_reals(program, dims.extents, 5);
    Z3State state{Z3Options{}};
    Z3Domain z3(state);
    for (auto& [name, value] : reals.attributes) {
      value = std::round(8 * value) / 8;
      state.attributes.emplace(name, state.context.real_val(std::to_string(value).c_str()));
    }
    std::vector<ir::Values<Z3Domain::Scalar>> inputs;
    for (RealValues& v : reals.values) {
      ir::Values<Z3Domain::Scalar> terms{v.axes, v.extents, {}};
      for (double& x : v.data) {
        x = x < 0 ? std::floor(4 * x) / 4 : std::ceil(4 * x) / 4;  // exact in both, not 0
        terms.data.push_back(state.keep(state.context.real_val(std::to_string(x).c_str()), x));
      }
      inputs.push_back(std::move(terms));
    }
    ir::DoubleDomain exact(reals.attributes);
    const auto want = ir::evaluate(graph, dims.extents, dims.partition, exact, reals.values);
    const auto terms = ir::evaluate(graph, dims.extents, dims.partition, z3, inputs);
    TermValue number(state);
    for (std::size_t o = 0; o < want.size(); ++o)
      for (std::size_t e = 0; e < want[o].data.size(); ++e)
        ASSERT_NEAR(number.of(state.term(terms[o].data[e])), want[o].data[e],
                    1e-9 * (1 + std::fabs(want[o].data[e])))
            << path;
  }
}

// A Z3 term modulo a prime: inputs are numerals, and an atom is what the field makes of its
// argument. Throws ir::Undefined where that is nothing.
class TermResidue {
 public:
  TermResidue(Z3State& state, const ir::FieldDomain& field) : field_(field) {
    for (const Z3Atom& a : state.atoms) {
      const std::uint32_t x = of(a.argument);
      atoms_[a.symbol.id()] = a.kind == AtomKind::kFunction ? field.apply(a.op, x)
                              : a.kind == AtomKind::kSqrt   ? field.apply(ir::OpKind::kSqrt, x)
                              : a.kind == AtomKind::kRsqrt  ? field.apply(ir::OpKind::kRsqrt, x)
                                                            : field.inverse(x);
    }
  }
  std::uint32_t of(const z3::expr& e) {
    if (const auto it = seen_.find(e.id()); it != seen_.end()) return it->second;
    const std::uint32_t value = compute(e);
    keep_.push_back(e);
    seen_[e.id()] = value;
    return value;
  }

 private:
  std::uint32_t of_digits(const std::string& digits) const {
    std::uint64_t value = 0;
    for (char c : digits)
      if (c != '-') value = (value * 10 + static_cast<std::uint64_t>(c - '0')) % field_.prime();
    const auto residue = static_cast<std::uint32_t>(value);
    return digits[0] == '-' ? field_.apply(ir::OpKind::kSub, 0, residue) : residue;
  }
  std::uint32_t compute(const z3::expr& e) {
    if (e.is_numeral()) {
      const std::string text = Z3_get_numeral_string(e.ctx(), e);
      const std::size_t slash = text.find('/');
      const std::uint32_t numerator = of_digits(text.substr(0, slash));
      if (slash == std::string::npos) return numerator;
      return field_.apply(ir::OpKind::kDiv, numerator, of_digits(text.substr(slash + 1)));
    }
    if (const auto it = atoms_.find(e.id()); it != atoms_.end()) return it->second;
    const Z3_decl_kind kind = e.decl().decl_kind();
    if (kind == Z3_OP_UMINUS) return field_.apply(ir::OpKind::kSub, 0, of(e.arg(0)));
    if (kind == Z3_OP_TO_REAL) return of(e.arg(0));
    if (kind == Z3_OP_POWER)
      return field_.power(of(e.arg(0)), static_cast<std::uint64_t>(e.arg(1).get_numeral_int64()));
    const ir::OpKind op = kind == Z3_OP_ADD   ? ir::OpKind::kAdd
                          : kind == Z3_OP_SUB ? ir::OpKind::kSub
                          : kind == Z3_OP_MUL ? ir::OpKind::kMul
                          : kind == Z3_OP_DIV ? ir::OpKind::kDiv
                                              : ir::OpKind::kConst;
    EXPECT_NE(op, ir::OpKind::kConst) << e;
    std::uint32_t value = of(e.arg(0));
    for (unsigned i = 1; i < e.num_args(); ++i) value = field_.apply(op, value, of(e.arg(i)));
    return value;
  }

  const ir::FieldDomain& field_;
  std::map<unsigned, std::uint32_t> atoms_, seen_;  // by AST id
  std::vector<z3::expr> keep_;                      // so that no id is used twice
};

// Residues as the integers that they are.
std::vector<ir::Values<Z3Domain::Scalar>> as_terms(const std::vector<FieldValues>& residues,
                                                   Z3State& state) {
  std::vector<ir::Values<Z3Domain::Scalar>> out;
  for (const FieldValues& v : residues) {
    ir::Values<Z3Domain::Scalar> terms{v.axes, v.extents, {}};
    for (std::uint32_t x : v.data)
      terms.data.push_back(state.keep(state.context.real_val(std::to_string(x).c_str()), x));
    out.push_back(std::move(terms));
  }
  return out;
}

void expect_same_residues(const std::vector<ir::Values<Z3Domain::Scalar>>& terms,
                          const std::vector<FieldValues>& want, Z3State& state,
                          const ir::FieldDomain& field, const std::string& what) {
  TermResidue residue(state, field);
  for (std::size_t o = 0; o < want.size(); ++o)
    for (std::size_t e = 0; e < want[o].data.size(); ++e)
      ASSERT_EQ(residue.of(state.term(terms[o].data[e])), want[o].data[e]) << what;
}

// Z3's terms, roots and functions included, are the field's numbers: the two domains that stand
// for the reals in proofs compute one thing.
TEST(Domains, Z3IsField) {
  for (const std::string& path : testing::right_fixtures()) {
    const ir::MuGraph graph = ir::parse_mugraph(testing::read_text(path));
    const ir::Program program = testing::program_of(graph);
    const ScaledDims dims = dims_of(graph);
    const UnitMap units(program.signature, dims.extents);
    const Structure structure = analyse(program, graph, dims, units, 1, kPrimes[0], kPrimes[1]);
    const Trial trial = run_trial(program, graph, dims, units, structure, kPrimes[2], 11);
    ASSERT_TRUE(trial.defined) << path;
    // No root has a function under it here, so any functions leave the trial defined.
    const ir::FieldDomain field(kPrimes[2], trial.attributes, 5);
    Z3State state{Z3Options{}};
    Z3Domain z3(state);
    for (const auto& [name, value] : trial.attributes)
      state.attributes.emplace(name, state.context.real_val(std::to_string(value).c_str()));
    const auto inputs = as_terms(trial.inputs, state);
    const auto terms = ir::evaluate(graph, dims.extents, dims.partition, z3, inputs);
    expect_same_residues(terms,
                         ir::evaluate(graph, dims.extents, dims.partition, field, trial.inputs),
                         state, field, path);
  }
}

// The same for programs over the whole operator table, with float64 and the rounded evaluation
// beside them.
TEST(Domains, AgreeOnRandomPrograms) {
  int compared = 0, residues = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const std::string text = tenon::test::random_program(seed);
    const ir::Program program = ir::parse_program(text);
    ir::Extents extents;
    for (std::size_t d = 0; d < program.signature.dims.size(); ++d)
      extents.push_back(2 + static_cast<std::int64_t>(d));
    RealInputs reals = random_reals(program, extents, seed);

    // float64 beside float32.
    std::vector<ir::Values<float>> narrow;
    for (RealValues& v : reals.values) {
      ir::Values<float> f{v.axes, v.extents, {}};
      for (double& x : v.data) {
        x = x < 0 ? std::floor(4 * x) / 4 : std::ceil(4 * x) / 4;
        f.data.push_back(static_cast<float>(x));
      }
      narrow.push_back(std::move(f));
    }
    for (auto& [name, value] : reals.attributes) value = std::round(8 * value) / 8;
    ir::DoubleDomain exact(reals.attributes);
    ir::RoundedDomain rounded(reals.attributes, ir::DType::kF32);
    const auto want = ir::evaluate(program, extents, exact, reals.values);
    const double off = error(ir::evaluate(program, extents, rounded, narrow), want);
    const bool well_conditioned = off <= 1e-4;

    // Z3 beside float64.
    if (well_conditioned) {
      Z3State state{Z3Options{}};
      Z3Domain z3(state);
      for (const auto& [name, value] : reals.attributes)
        state.attributes.emplace(name, state.context.real_val(std::to_string(value).c_str()));
      std::vector<ir::Values<Z3Domain::Scalar>> inputs;
      for (const RealValues& v : reals.values) {
        ir::Values<Z3Domain::Scalar> terms{v.axes, v.extents, {}};
        for (double x : v.data)
          terms.data.push_back(state.keep(state.context.real_val(std::to_string(x).c_str()), x));
        inputs.push_back(std::move(terms));
      }
      const auto terms = ir::evaluate(program, extents, z3, inputs);
      TermValue number(state);
      for (std::size_t o = 0; o < want.size(); ++o)
        for (std::size_t e = 0; e < want[o].data.size(); ++e)
          ASSERT_NEAR(number.of(state.term(terms[o].data[e])), want[o].data[e],
                      1e-6 * (1 + std::fabs(want[o].data[e])))
              << "seed " << seed << "\n"
              << text;
      ++compared;
    }

    // Z3 beside the field, at the first inputs that have roots.
    std::mt19937_64 random(seed);
    for (int tries = 0; tries < 64; ++tries) {
      std::vector<FieldValues> drawn;
      for (const RealValues& v : reals.values) {
        FieldValues f{v.axes, v.extents, {}};
        for (std::size_t e = 0; e < v.data.size(); ++e)
          f.data.push_back(static_cast<std::uint32_t>(random() % kPrimes[1]));
        drawn.push_back(std::move(f));
      }
      std::map<std::string, std::uint32_t> attributes;
      for (const auto& [name, value] : reals.attributes)
        attributes[name] = static_cast<std::uint32_t>(1 + random() % (kPrimes[1] - 1));
      const ir::FieldDomain field(kPrimes[1], attributes, seed);
      try {
        const auto values = ir::evaluate(program, extents, field, drawn);
        Z3State state{Z3Options{}};
        Z3Domain z3(state);
        for (const auto& [name, value] : attributes)
          state.attributes.emplace(name, state.context.real_val(std::to_string(value).c_str()));
        const auto terms = ir::evaluate(program, extents, z3, as_terms(drawn, state));
        expect_same_residues(terms, values, state, field, text);
        ++residues;
        break;
      } catch (const ir::Undefined&) {
        continue;
      }
    }
  }
  EXPECT_GE(compared, 140);
  EXPECT_GE(residues, 140);
}

// Search verifies on several threads: verdicts do not depend on what runs beside them.
TEST(Methods, RunAtOnce) {
  const std::string folder = TENON_FIXTURES;
  std::vector<std::thread> threads;
  std::vector<std::string> failures(6);
  for (std::size_t t = 0; t < failures.size(); ++t)
    threads.emplace_back([&, t] {
      for (const char* name : {"online", "split_k", "deferred_scale"}) {
        const bool wrong = t % 2 == 1;
        const ir::MuGraph graph = testing::read_mugraph(folder + (wrong ? "/wrong" : "/right"),
                                                        wrong ? "gamma_twice" : name);
        const ir::Program program = testing::program_of(graph);
        const Verdict z3 = z3_check(program, graph, {}).verdict;
        const Verdict random = random_test(program, graph, {t, 3, -60}).verdict;
        const Verdict induction = induction_check(program, graph, {}).verdict;
        const bool ok = wrong ? z3 == Verdict::kRefuted && random == Verdict::kRefuted &&
                                    induction != Verdict::kProved
                              : z3 == Verdict::kProved && random == Verdict::kPass &&
                                    induction == Verdict::kProved;
        if (!ok) failures[t] += std::string(name) + " ";
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& f : failures) EXPECT_EQ(f, "");
}

}  // namespace
}  // namespace tenon::verifier
