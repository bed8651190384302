// Right µGraphs are accepted and proved; wrong ones are refuted by both methods, with inputs
// on which they really differ.
#include "tests/verifier/fixtures.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "tests/verifier/programs.h"
#include "verifier/verifier.h"

namespace tenon::verifier {
namespace {

using testing::fixture_names;
using testing::read_mugraph;

const std::string kRight = std::string(TENON_FIXTURES) + "/right";
const std::string kWrong = std::string(TENON_FIXTURES) + "/wrong";

std::string show(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

// Row-major data of `name` in a counterexample.
std::vector<double> data_of(const nlohmann::json& values, const std::string& name) {
  return values.at(name).at("data").get<std::vector<double>>();
}

// y = rmsnorm(x, g, ε)·w written out by hand, on the inputs of a counterexample.
std::vector<double> by_hand(const nlohmann::json& c) {
  const auto m = c["dims"]["m"].get<std::size_t>(), k = c["dims"]["k"].get<std::size_t>(),
             n = c["dims"]["n"].get<std::size_t>();
  const auto x = data_of(c["inputs"], "x"), g = data_of(c["inputs"], "g"),
             w = data_of(c["inputs"], "w");
  const double eps = c["attributes"]["eps"];
  std::vector<double> y(m * n, 0.0);
  for (std::size_t i = 0; i < m; ++i) {
    double mean = 0;
    for (std::size_t l = 0; l < k; ++l)
      mean += x[i * k + l] * x[i * k + l] / static_cast<double>(k);
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t l = 0; l < k; ++l)
        y[i * n + j] += x[i * k + l] / std::sqrt(mean + eps) * g[l] * w[l * n + j];
  }
  return y;
}

// The program's side of a counterexample is what the formula says, and the µGraph's is not.
void expect_real_counterexample(const nlohmann::json& c) {
  const std::vector<double> expected = by_hand(c), program = data_of(c["program"], "y");
  ASSERT_EQ(expected.size(), program.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(expected[i], program[i], 1e-9 * (1 + std::fabs(expected[i])));
  bool differs = false;
  const nlohmann::json& actual = c["mugraph"]["y"]["data"];
  for (std::size_t i = 0; i < expected.size(); ++i)
    differs = differs || !actual[i].is_number() ||
              std::fabs(actual[i].get<double>() - expected[i]) > 1e-6 * std::fabs(expected[i]);
  EXPECT_TRUE(differs);
  EXPECT_FALSE(c["element"]["name"].get<std::string>().empty());
}

class Wrong : public ::testing::TestWithParam<std::string> {
 protected:
  ir::Program program_ = ir::catalog_program("rmsnorm_linear");
  ir::MuGraph graph_ = read_mugraph(kWrong, GetParam());
};

TEST_P(Wrong, IsRefutedAtRandom) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Evidence e = random_test(program_, graph_, {seed, 3, -60});
    ASSERT_EQ(e.verdict, Verdict::kRefuted) << e.reason;
    const auto c = nlohmann::json::parse(e.counterexample);
    expect_real_counterexample(c["float64"]);
    if (c.contains("field")) {
      EXPECT_NE(c["field"]["element"]["program"], c["field"]["element"]["mugraph"]);
    }
  }
}

TEST_P(Wrong, IsRefutedByZ3) {
  const Evidence e = z3_check(program_, graph_, {});
  ASSERT_EQ(e.verdict, Verdict::kRefuted) << e.reason << " " << e.figures;
  expect_real_counterexample(nlohmann::json::parse(e.counterexample));
}

// Z3 itself decides all but a few, where an element mixes many square roots.
TEST(WrongFixtures, AreDecidedByZ3) {
  const ir::Program program = ir::catalog_program("rmsnorm_linear");
  int by_z3 = 0;
  const auto names = fixture_names(kWrong);
  for (const std::string& name : names) {
    const auto figures =
        nlohmann::json::parse(z3_check(program, read_mugraph(kWrong, name), {}).figures);
    by_z3 += figures["settings"].back()["decided_by"] != "float64 at pinned inputs";
  }
  EXPECT_GE(by_z3, static_cast<int>(names.size()) - 4);
}

TEST_P(Wrong, IsNeverProvedByInduction) {
  const Evidence e = induction_check(program_, graph_, {});
  EXPECT_NE(e.verdict, Verdict::kProved) << e.figures;
  EXPECT_FALSE(e.reason.empty());
}

INSTANTIATE_TEST_SUITE_P(Verifier, Wrong, ::testing::ValuesIn(fixture_names(kWrong)), show);

// The field finds the difference by itself in nearly all of them, not float64 alone.
TEST(WrongFixtures, DifferOverTheField) {
  const ir::Program program = ir::catalog_program("rmsnorm_linear");
  int over_the_field = 0;
  const auto names = fixture_names(kWrong);
  for (const std::string& name : names) {
    const Evidence e = random_test(program, read_mugraph(kWrong, name), {});
    over_the_field += nlohmann::json::parse(e.counterexample).contains("field");
  }
  EXPECT_GE(over_the_field, static_cast<int>(names.size()) - 2);
}

TEST(WrongFixtures, AreManyAndSayWhatIsWrong) {
  const auto names = fixture_names(kWrong);
  EXPECT_GE(names.size(), 20U);
  for (const std::string& name : names)
    EXPECT_EQ(testing::read_text(kWrong + "/" + name + ".mugraph").rfind("# ", 0), 0U) << name;
}

void expect_accepted(const ir::Program& program, const ir::MuGraph& graph) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Evidence e = random_test(program, graph, {seed, 3, -60});
    ASSERT_EQ(e.verdict, Verdict::kPass) << e.reason << " " << e.figures;
    const auto figures = nlohmann::json::parse(e.figures);
    EXPECT_LT(figures["bound_log2"].get<double>(), -60);
    EXPECT_GE(figures["primes"].size(), 2U);
    EXPECT_GE(figures["trials"].get<int>(), 2 * 2 * 3);
    EXPECT_TRUE(e.counterexample.empty());
  }
  const Evidence bounded = z3_check(program, graph, {});
  EXPECT_EQ(bounded.verdict, Verdict::kProved) << bounded.reason << " " << bounded.figures;
  EXPECT_TRUE(bounded.counterexample.empty());
  const Evidence unbounded = induction_check(program, graph, {});
  EXPECT_EQ(unbounded.verdict, Verdict::kProved) << unbounded.reason << " " << unbounded.figures;
}

class Right : public ::testing::TestWithParam<std::string> {};

TEST_P(Right, IsAcceptedAndProved) {
  const ir::MuGraph graph = read_mugraph(kRight, GetParam());
  expect_accepted(testing::program_of(graph), graph);
}

// √k · rsqrt(Σx² + k ε): the bounded proof has to relate square roots of numbers and may give up;
// with k symbolic there are few variables, and the proof for every k succeeds.
TEST(ProportionalRadicand, IsAcceptedAndProvedForEveryExtent) {
  const ir::Program program = ir::catalog_program("rmsnorm_linear");
  const ir::MuGraph graph =
      read_mugraph(std::string(TENON_FIXTURES) + "/hard", "root_of_k_outside");
  EXPECT_EQ(random_test(program, graph, {}).verdict, Verdict::kPass);
  Z3Options options;
  options.timeout_ms = 1000;
  EXPECT_NE(z3_check(program, graph, options).verdict, Verdict::kRefuted);
  const Evidence e = induction_check(program, graph, {});
  EXPECT_EQ(e.verdict, Verdict::kProved) << e.reason;
}

INSTANTIATE_TEST_SUITE_P(Verifier, Right, ::testing::ValuesIn(fixture_names(kRight)), show);

class IrFixture : public ::testing::TestWithParam<std::string> {};

TEST_P(IrFixture, IsAcceptedAndProved) {
  const ir::MuGraph graph = read_mugraph(TENON_IR_FIXTURES, GetParam());
  expect_accepted(testing::program_of(graph), graph);
}

INSTANTIATE_TEST_SUITE_P(Verifier, IrFixture, ::testing::ValuesIn(fixture_names(TENON_IR_FIXTURES)),
                         show);

TEST(Verdicts, HaveNamesThatReadBack) {
  for (Verdict v : {Verdict::kPass, Verdict::kProved, Verdict::kRefuted, Verdict::kUnknown,
                    Verdict::kTimeout, Verdict::kUnsupported})
    EXPECT_EQ(verdict_from_name(name(v)), v);
  EXPECT_EQ(name(Verdict::kUnsupported), "unsupported");
  EXPECT_THROW(verdict_from_name("ok"), UserError);
}

}  // namespace
}  // namespace tenon::verifier
