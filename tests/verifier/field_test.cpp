// The primes, the scaled dims and the structure behind the bound of the random test.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "ir/domain.h"
#include "tests/verifier/fixtures.h"
#include "verifier/primes.h"
#include "verifier/scaled_dims.h"
#include "verifier/structure.h"
#include "verifier/trial.h"
#include "verifier/verifier.h"

namespace tenon::verifier {
namespace {

TEST(Primes, ArePrimeByTrialDivision) {
  for (std::uint32_t p : kPrimes) {
    EXPECT_LT(p, 1U << 31);
    EXPECT_GT(p, 2146000000U);
    EXPECT_EQ(p % 8, 7U);
    for (std::uint64_t d = 2; d * d <= p; ++d) ASSERT_NE(p % d, 0U) << p << " divides by " << d;
  }
  EXPECT_EQ(std::set<std::uint32_t>(kPrimes.begin(), kPrimes.end()).size(), kPrimes.size());
}

// Quadratic reciprocity, not the field's own powers: q odd and p ≡ 3 (mod 4) give
// (q/p) = (p/q)·(−1)^((q−1)/2), and (p/q) is read off the squares modulo q; 2 is a square
// since p ≡ 7 (mod 8).
TEST(Primes, HaveEverySmallPrimeAsASquare) {
  for (std::uint32_t p : kPrimes) {
    for (std::uint32_t q : {3U, 5U, 7U, 11U, 13U, 17U, 19U, 23U, 29U, 31U}) {
      std::set<std::uint32_t> squares;
      for (std::uint32_t a = 1; a < q; ++a) squares.insert(a * a % q);
      const int p_over_q = squares.count(p % q) ? 1 : -1;
      EXPECT_EQ(p_over_q * (q % 4 == 3 ? -1 : 1), 1) << q << " modulo " << p;
    }
  }
}

TEST(ScaledDims, KeepStructureByCountingParts) {
  const DimUse grid{true, false, false}, loop{false, true, false}, both{true, true, true};
  EXPECT_TRUE(keeps_structure(5, 2, 2, grid, false));   // 3, 2
  EXPECT_FALSE(keeps_structure(4, 2, 2, grid, false));  // 2, 2: not ragged
  EXPECT_TRUE(keeps_structure(4, 2, 2, grid, true));
  EXPECT_FALSE(keeps_structure(2, 2, 2, loop, true));  // 1, 1: one element a tile
  EXPECT_TRUE(keeps_structure(7, 3, 2, loop, false));  // 4, 3
  EXPECT_TRUE(keeps_structure(5, 2, 2, both, false));  // 3 = 2 + 1, 2 = 2
  EXPECT_FALSE(keeps_structure(3, 2, 2, both, true));  // 2 = 1 + 1
}

TEST(ScaledDims, AreDistinctAndRaggedForEverySeed) {
  const std::vector<DimUse> uses = {
      {true, false, false}, {true, true, true}, {true, false, false}, {false, true, false}};
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::optional<ScaledDims> earlier;
    for (std::int64_t parts : {2, 3}) {
      const auto dims =
          random_dims(uses, parts, parts, seed, earlier ? &*earlier : nullptr, seed % 2 == 1);
      ASSERT_TRUE(dims.has_value());
      for (std::size_t d = 0; d < uses.size(); ++d) {
        EXPECT_TRUE(keeps_structure(dims->extents[d], parts, parts, uses[d], false));
        if (earlier) {
          EXPECT_NE(dims->extents[d], earlier->extents[d]);
        }
      }
      EXPECT_EQ(std::set<std::int64_t>(dims->extents.begin(), dims->extents.end()).size(),
                uses.size());
      earlier = dims;
    }
  }
}

struct Analysed {
  ir::Program program = ir::catalog_program("rmsnorm_linear");
  ir::MuGraph graph;
  ScaledDims dims;
  UnitMap units;
  Structure structure;
  explicit Analysed(ir::MuGraph g)
      : graph(std::move(g)),
        dims{{5, 7, 3}, {{2, 2, 2}, {2, 2, 2}}},
        units(program.signature, dims.extents),
        structure(analyse(program, graph, dims, units, 1, kPrimes[0], kPrimes[1])) {}
};

// By hand for the online form: with A = Σx²/k + ε (degree 2) and t = √A, program and µGraph are
// (Σ x g w)·t/A over the same denominator A; numerators have degree 3 + 1. One root doubles it.
TEST(Structure, DegreeOfTheOnlineForm) {
  Analysed a(testing::read_mugraph(std::string(TENON_FIXTURES) + "/right", "online"));
  EXPECT_EQ(a.structure.problem, "");
  EXPECT_EQ(a.structure.classes.size(), 5U);  // a row each
  EXPECT_EQ(a.structure.roots, 1);
  EXPECT_DOUBLE_EQ(a.structure.log2_degree, std::log2(2.0 * 4));
  EXPECT_DOUBLE_EQ(a.structure.log2_draws, 6);  // 32·2 draws of one row
  EXPECT_EQ(a.structure.program_calls.size(), 5U);
  EXPECT_EQ(a.structure.graph_calls.size(), 5U * 2U);  // once for each block of n
}

// One root for every k, each of a number of its own: y = Σ x_k t_k/A_k with A_k = v_k + 1 and
// t_k = √A_k. By hand over 7 of them: the numerator has degree 1 + 1/2 + 6 over the product of all
// A_k, which program and µGraph share or do not; no root is adjoined, and all free slices cost 4.
TEST(Structure, RootsOfSingleNumbersAreFree) {
  const std::string head = "dims m, k\ninput x: T[m, k] activation\ninput v: T[k] parameter\n";
  const ir::Program program = ir::parse_program(
      "program scaled\n" + head +
      "%0 = const(1)\n%1 = add(v, %0)\n%2 = rsqrt(%1)\n%3 = mul(x, %2)\n%4 = sum(%3, k)\n"
      "output y: T = %4\n");
  const ir::MuGraph graph =
      ir::parse_mugraph("mugraph scaled\n" + head +
                        "output y: T[m]\nkernel main {\n  grid m\n  load x [m: grid, k: full]\n"
                        "  load v [k: full]\n  %0 = const(1)\n  %1 = add(v, %0)\n  %2 = sqrt(%1)\n"
                        "  %3 = div(x, %2)\n  %4 = sum(%3, k)\n  store y = %4\n}\n");
  const ScaledDims dims{{3, 7}, {{2, 2}, {2, 2}}};
  UnitMap units(program.signature, dims.extents);
  const Structure s = analyse(program, graph, dims, units, 1, kPrimes[0], kPrimes[1]);
  EXPECT_EQ(s.problem, "");
  EXPECT_EQ(s.classes.size(), 7U);
  EXPECT_EQ(s.roots, 0);
  EXPECT_NEAR(s.log2_draws, 2, 1e-5);
  EXPECT_GE(s.log2_degree, std::log2(7.5));
  EXPECT_LE(s.log2_degree, std::log2(7.5 + 7) + 1e-9);
}

TEST(Structure, ProportionalRadicandsAreOneRoot) {
  Analysed a(testing::read_mugraph(std::string(TENON_FIXTURES) + "/hard", "root_of_k_outside"));
  EXPECT_EQ(a.structure.classes.size(), 5U);
  EXPECT_TRUE(roots_independent(a.program, a.graph, a.dims, a.units, a.structure, kPrimes[2], 5));
}

TEST(Structure, RadicandsOfAWrongRowCountToo) {
  Analysed a(testing::read_mugraph(std::string(TENON_FIXTURES) + "/wrong", "scale_of_next_rows"));
  EXPECT_EQ(a.structure.classes.size(), 5U);
  EXPECT_EQ(a.structure.roots, 2);  // that of the row, and of another one
}

// √(x²) is |x|: its square root adjoins nothing, which the certificate must notice.
TEST(Structure, RootsOfSquaresAreNotIndependent) {
  ir::Program program = ir::parse_program(
      "program p\ndims m\ninput x: T[m] activation\n%0 = square(x)\n%1 = sqrt(%0)\noutput y: T = "
      "%1\n");
  ir::MuGraph graph = ir::parse_mugraph(
      "mugraph p\ndims m\ninput x: T[m] activation\noutput y: T[m]\n"
      "kernel main {\n  grid m\n  load x [m: grid]\n  %0 = square(x)\n  %1 = sqrt(%0)\n  store y = "
      "%1\n}\n");
  const ScaledDims dims{{5}, {{2}, {2}}};
  const UnitMap units(program.signature, dims.extents);
  const Structure s = analyse(program, graph, dims, units, 1, kPrimes[0], kPrimes[1]);
  EXPECT_EQ(s.classes.size(), 5U);
  EXPECT_FALSE(roots_independent(program, graph, dims, units, s, kPrimes[0], 7));
  EXPECT_EQ(random_test(program, graph, {}).verdict, Verdict::kUnknown);
}

// A trial's inputs have a root in every row, and its results are those of ir::FieldDomain.
TEST(Trial, IsDefinedAndAgreesWithTheFieldDomain) {
  Analysed a(testing::read_mugraph(std::string(TENON_FIXTURES) + "/right", "split_k"));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Trial t = run_trial(a.program, a.graph, a.dims, a.units, a.structure, kPrimes[3], seed);
    ASSERT_TRUE(t.defined);
    ir::FieldDomain domain(kPrimes[3], t.attributes);
    EXPECT_EQ(ir::evaluate(a.program, a.dims.extents, domain, t.inputs)[0].data, t.program[0].data);
    EXPECT_EQ(t.program[0].data, t.graph[0].data);
  }
}

TEST(Trial, InputsDifferBetweenTrials) {
  Analysed a(testing::read_mugraph(std::string(TENON_FIXTURES) + "/right", "online"));
  std::set<std::uint32_t> seen;
  std::size_t drawn = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Trial t = run_trial(a.program, a.graph, a.dims, a.units, a.structure, kPrimes[0], seed);
    for (const FieldValues& v : t.inputs) {
      drawn += v.data.size();
      seen.insert(v.data.begin(), v.data.end());
    }
  }
  EXPECT_GE(seen.size() + 2, drawn);  // 630 numbers below 2^31 hardly ever collide
}

// A random test costs what a search can pay for each of its µGraphs: 100 ms at scaled dims.
TEST(RandomTest, IsFast) {
  const ir::MuGraph graph = testing::read_mugraph(std::string(TENON_FIXTURES) + "/right", "online");
  double fastest = 1e9;  // of five: other processes only make it slower
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Evidence e = random_test(ir::catalog_program("rmsnorm_linear"), graph, {seed, 3, -60});
    ASSERT_EQ(e.verdict, Verdict::kPass) << e.reason;
    fastest = std::min(fastest, e.seconds);
  }
  EXPECT_LT(fastest, 0.1);
}

}  // namespace
}  // namespace tenon::verifier
