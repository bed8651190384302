// Acceptance on the host device: right µGraphs pass, sabotaged ones do not.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "host_plan.h"
#include "measure/measure.h"

namespace tenon::measure {
namespace {

using test::Dims;

ir::KernelSchedule tiles(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {"host", {{"tile_m", m}, {"tile_n", n}, {"tile_k", k}}};
}

ir::Program program_of(const ir::MuGraph& graph) {
  if (graph.signature.program == "layernorm_linear")
    return ir::parse_program(
        test::read_file(std::string(TENON_FIXTURES) + "/layernorm_linear.program"));
  return ir::catalog_program(graph.signature.program);
}

verifier::Evidence accept(const ir::MuGraph& graph, const Dims& dims, ir::DType dtype,
                          const ir::KernelSchedule& schedule = tiles(8, 32, 64)) {
  ir::Workload workload = ir::make_workload(program_of(graph), dims, dtype);
  auto runner = make_local_runner("host", workload);
  return runner->accept({test::host_plan(graph, dims, dtype, schedule), {}}, 1);
}

class Fixtures : public testing::TestWithParam<const char*> {};

TEST_P(Fixtures, AreAccepted) {
  ir::MuGraph graph = test::fixture(GetParam());
  for (ir::DType dtype : {ir::DType::kBF16, ir::DType::kF16, ir::DType::kF32})
    for (const Dims& dims :
         {Dims{{"m", 3}, {"k", 100}, {"n", 7}}, Dims{{"m", 16}, {"k", 200}, {"n", 96}},
          Dims{{"m", 1}, {"k", 65}, {"n", 33}}}) {
      verifier::Evidence e = accept(graph, dims, dtype);
      EXPECT_EQ(e.verdict, verifier::Verdict::kPass)
          << ir::name(dtype) << " m=" << dims.at("m") << ": " << e.reason;
      EXPECT_EQ(e.method, "numeric");
    }
}

INSTANTIATE_TEST_SUITE_P(MuGraphs, Fixtures,
                         testing::Values("rmsnorm_unfused", "rmsnorm_gamma_folded",
                                         "rmsnorm_deferred_scale", "rmsnorm_one_pass",
                                         "rmsnorm_prologue", "rmsnorm_split_k"));

TEST(Accept, FiguresSayWhatWasChecked) {
  verifier::Evidence e = accept(test::fixture("rmsnorm_one_pass"),
                                {{"m", 6}, {"k", 130}, {"n", 40}}, ir::DType::kBF16);
  ASSERT_EQ(e.verdict, verifier::Verdict::kPass) << e.reason;
  nlohmann::json figures = nlohmann::json::parse(e.figures);
  std::vector<std::string> seen;
  for (const auto& f : figures.at("families")) {
    seen.push_back(f.at("family"));
    if (f.contains("bound")) {
      EXPECT_LE(f.at("worst_row").get<double>(), f.at("bound").get<double>());
      EXPECT_GE(f.at("bound").get<double>(), 0x1p-9);
      EXPECT_EQ(f.at("rows_checked"), f.at("rows"));
    }
  }
  for (const char* family :
       {"normal", "heavy_tailed", "outlier_channels", "mean_100_sigma", "mean_1000_sigma", "tiny",
        "zero_row", "nan_row", "hostile_weights", "one_hot"})
    EXPECT_NE(std::find(seen.begin(), seen.end(), family), seen.end()) << family;
  EXPECT_EQ(figures.at("one_hot")[0].at("positions"), 130);
  EXPECT_FALSE(figures.at("other_m").empty());
}

struct Sabotage {
  const char* name;
  const char* fixture;
  const char* from;
  const char* to;
};

class Sabotaged : public testing::TestWithParam<Sabotage> {};

TEST_P(Sabotaged, IsRefuted) {
  const Sabotage& s = GetParam();
  std::string text = test::read_file(test::fixture_path(s.fixture));
  std::size_t at = text.find(s.from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string(s.from).size(), s.to);
  ir::MuGraph graph = ir::parse_mugraph(text);
  verifier::Evidence e = accept(graph, {{"m", 5}, {"k", 130}, {"n", 40}}, ir::DType::kBF16);
  EXPECT_EQ(e.verdict, verifier::Verdict::kRefuted);
  EXPECT_FALSE(e.reason.empty());
  EXPECT_TRUE(nlohmann::json::parse(e.counterexample).contains("family"));
}

INSTANTIATE_TEST_SUITE_P(
    MuGraphs, Sabotaged,
    testing::Values(
        Sabotage{"MeanOverTheWrongDim", "rmsnorm_one_pass", "const(1/k)", "const(1/n)"},
        Sabotage{"SumInsteadOfMean", "rmsnorm_one_pass", "const(1/k)", "const(1)"},
        Sabotage{"NoEpsilon", "rmsnorm_one_pass", "const(eps)", "const(0)"},
        Sabotage{"LargeEpsilon", "rmsnorm_one_pass", "const(eps)", "const(0.01)"},
        Sabotage{"RootNotInverted", "rmsnorm_one_pass", "rsqrt", "sqrt"},
        Sabotage{"WeightSquaredForGain", "rmsnorm_deferred_scale", "mul(w, g)", "mul(w, w)"},
        Sabotage{"NeighboursScale", "rmsnorm_deferred_scale", "load r [m: grid]",
                 "load r [m: grid shift 1]"},
        Sabotage{"NeighboursColumns", "rmsnorm_deferred_scale", "n: grid]", "n: grid shift 1]"},
        Sabotage{"SumNotSquared", "rmsnorm_deferred_scale", "square(x)", "add(x, x)"}),
    [](const auto& test) { return test.param.name; });

// Real arithmetic is right, precision is not: operands narrower than their type allows.
TEST(Accept, RefusesNarrowedOperands) {
  std::string text = test::read_file(test::fixture_path("rmsnorm_unfused"));
  std::size_t at = text.find("cast(");
  ASSERT_NE(at, std::string::npos);
  std::size_t end = text.find(", T)", at);
  ASSERT_NE(end, std::string::npos);
  text.replace(end, 4, ", bf16)");
  ir::MuGraph graph = ir::parse_mugraph(text);
  for (ir::DType dtype : {ir::DType::kF32, ir::DType::kF16}) {
    verifier::Evidence e = accept(graph, {{"m", 8}, {"k", 130}, {"n", 64}}, dtype);
    EXPECT_EQ(e.verdict, verifier::Verdict::kRefuted) << ir::name(dtype) << e.figures;
  }
}

// layernorm_welford with another statistics kernel.
ir::MuGraph layernorm_with(const std::string& statistics) {
  std::string text = test::read_file(test::fixture_path("layernorm_welford"));
  std::size_t begin = text.find("kernel stats {"), end = text.find("kernel main {");
  return ir::parse_mugraph(text.replace(begin, end - begin, statistics));
}

// Variance as E[x²] − μ² cancels when the mean is 100 or 1000 σ.
TEST(Accept, RefusesTheUnstableLayerNorm) {
  verifier::Evidence e = accept(layernorm_with(R"(kernel stats {
  grid m
  loop k
  load x [m: grid, k: loop]
  %0 = square(x)
  %1 = accumulate sum(x, k)
  %2 = accumulate sum(%0, k)
  %3 = const(1/k)
  %4 = mul(%1, %3)
  %5 = mul(%2, %3)
  %6 = square(%4)
  %7 = sub(%5, %6)
  %8 = const(eps)
  %9 = add(%7, %8)
  %10 = rsqrt(%9)
  store mu: fp32[m] = %4
  store r: fp32[m] = %10
}
)"),
                                {{"m", 8}, {"k", 300}, {"n", 64}}, ir::DType::kF32);
  EXPECT_EQ(e.verdict, verifier::Verdict::kRefuted);
  EXPECT_NE(e.reason.find("_sigma"), std::string::npos) << e.reason;
}

// Each tile's own mean and squares about it, merged (Chan, Golub and LeVeque 1979), do not.
TEST(Accept, PassesTheStableLayerNorm) {
  ir::MuGraph graph = layernorm_with(R"(kernel stats {
  grid m, split k
  loop k
  load x [m: grid, k: grid+loop]
  accumulate custom over k (x) {
    state [m: grid]
    state [m: grid]
    state [m: grid]
    init {
      %0 = const(0)
      %1 = broadcast(%0, [m: grid])
      yield %1, %1, %1
    }
    update (mean, m2, count, x) {
      %0 = const(1)
      %1 = broadcast(%0, [m: grid, k: grid+loop])
      %2 = sum(%1, k)
      %3 = sum(x, k)
      %4 = div(%3, %2)
      %5 = sub(x, %4)
      %6 = square(%5)
      %7 = sum(%6, k)
      %8 = add(count, %2)
      %9 = sub(%4, mean)
      %10 = div(%2, %8)
      %11 = mul(%9, %10)
      %12 = add(mean, %11)
      %13 = add(m2, %7)
      %14 = mul(%9, %11)
      %15 = mul(%14, count)
      %16 = add(%13, %15)
      yield %12, %16, %8
    }
    merge (mean.left, m2.left, count.left, mean.right, m2.right, count.right) {
      %0 = add(count.left, count.right)
      %1 = sub(mean.right, mean.left)
      %2 = div(count.right, %0)
      %3 = mul(%1, %2)
      %4 = add(mean.left, %3)
      %5 = add(m2.left, m2.right)
      %6 = mul(%1, %3)
      %7 = mul(%6, count.left)
      %8 = add(%5, %7)
      yield %4, %8, %0
    }
    final (mean, m2, count) {
      %0 = div(m2, count)
      yield mean, %0
    }
  } -> %0, %1
  %2 = const(eps)
  %3 = add(%1, %2)
  %4 = rsqrt(%3)
  store mu: fp32[m] = %0
  store r: fp32[m] = %4
}
)");
  for (ir::DType dtype : {ir::DType::kBF16, ir::DType::kF16, ir::DType::kF32}) {
    verifier::Evidence e = accept(graph, {{"m", 8}, {"k", 300}, {"n", 64}}, dtype);
    EXPECT_EQ(e.verdict, verifier::Verdict::kPass) << ir::name(dtype) << ": " << e.reason;
  }
}

TEST(Accept, SaysWhenAPlanDoesNotFit) {
  ir::MuGraph graph = test::fixture("rmsnorm_one_pass");
  Dims dims{{"m", 4}, {"k", 16}, {"n", 8}};
  auto runner =
      make_local_runner("host", ir::make_workload(program_of(graph), dims, ir::DType::kBF16));
  ir::LaunchPlan plan = test::host_plan(graph, dims, ir::DType::kBF16, {"host", {}});
  plan.device_class = "sm_90a";
  EXPECT_EQ(runner->accept({plan, {}}, 1).verdict, verifier::Verdict::kUnsupported);
}

}  // namespace
}  // namespace tenon::measure
