// Acceptance on the host device: right µGraphs pass, sabotaged ones do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "host_plan.h"
#include "measure/expectation.h"
#include "measure/measure.h"
#include "verifier/numeric.h"

namespace tenon::measure {
namespace {

using test::Dims;

ir::KernelSchedule tiles(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {"host", {{"tile_m", m}, {"tile_n", n}, {"tile_k", k}}};
}

ir::Program program_of(const ir::MuGraph& graph) {
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
        "zero_row", "nan_row", "hostile_weights", "one_hot", "misaligned", "misaligned_tiny"})
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
  const ir::MuGraph unstable = layernorm_with(R"(kernel stats {
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
)");
  for (ir::DType dtype : {ir::DType::kBF16, ir::DType::kF16, ir::DType::kF32}) {
    verifier::Evidence e = accept(unstable, {{"m", 8}, {"k", 300}, {"n", 64}}, dtype);
    EXPECT_EQ(e.verdict, verifier::Verdict::kRefuted) << ir::name(dtype);
    EXPECT_NE(e.reason.find("_sigma"), std::string::npos) << ir::name(dtype) << ": " << e.reason;
  }
}

// Each tile's own mean and squares about it, merged (Chan, Golub and LeVeque 1979), do not.
TEST(Accept, PassesTheStableLayerNorm) {
  ir::MuGraph graph = test::fixture("layernorm_welford");
  for (ir::DType dtype : {ir::DType::kBF16, ir::DType::kF16, ir::DType::kF32}) {
    verifier::Evidence e = accept(graph, {{"m", 8}, {"k", 300}, {"n", 64}}, dtype);
    EXPECT_EQ(e.verdict, verifier::Verdict::kPass) << ir::name(dtype) << ": " << e.reason;
    std::set<std::string> seen;
    const nlohmann::json figures = nlohmann::json::parse(e.figures);
    for (const auto& f : figures.at("families")) seen.insert(f.at("family").get<std::string>());
    EXPECT_TRUE(seen.count("mean_100_sigma") && seen.count("mean_1000_sigma"));
  }
}

// The running mean that starts at zero (each tile's differences are from the mean before it): its
// first tile squares the mean itself.
TEST(Accept, RefusesARunningMeanThatStartsAtZero) {
  verifier::Evidence e = accept(layernorm_with(R"(kernel stats {
  grid m
  loop k
  load x [m: grid, k: loop]
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
      %1 = broadcast(%0, [m: grid, k: loop])
      %2 = sum(%1, k)
      %3 = add(count, %2)
      %4 = sub(x, mean)
      %5 = sum(%4, k)
      %6 = div(%5, %3)
      %7 = add(mean, %6)
      %8 = sub(x, %7)
      %9 = mul(%4, %8)
      %10 = sum(%9, k)
      %11 = add(m2, %10)
      yield %7, %11, %3
    }
    merge (mean.left, m2.left, count.left, mean.right, m2.right, count.right) {
      %0 = add(count.left, count.right)
      yield mean.left, m2.left, %0
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
)"),
                                {{"m", 8}, {"k", 300}, {"n", 64}}, ir::DType::kF32);
  EXPECT_EQ(e.verdict, verifier::Verdict::kRefuted);
  EXPECT_NE(e.reason.find("_sigma"), std::string::npos) << e.reason;
}

// What a loose norm-wise tolerance lets through (the contract's bound on each element does not).

// fp32 operands narrowed to TF32 by rounding away 13 bits: 10 bits of fraction are left.
TEST(Accept, RefusesTf32OperandsInFp32) {
  // 10 bits of fraction for numbers near 1 are fp16's.
  std::string text = test::read_file(test::fixture_path("rmsnorm_unfused"));
  std::size_t at = text.find(", T)", text.find("cast("));
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 4, ", fp16)");
  verifier::Evidence e =
      accept(ir::parse_mugraph(text), {{"m", 8}, {"k", 130}, {"n", 64}}, ir::DType::kF32);
  EXPECT_EQ(e.verdict, verifier::Verdict::kRefuted) << e.figures;
}

// Σx² over 4064 of 4096 columns: in bf16 half a rounding step; the outlier channels show it.
TEST(Accept, RefusesThirtyTwoColumnsMissingFromTheSquares) {
  const Dims dims{{"m", 4}, {"k", 4096}, {"n", 64}};
  ir::Workload workload =
      ir::make_workload(ir::catalog_program("rmsnorm_linear"), dims, ir::DType::kBF16);
  Expectations expected(workload, 1);
  double worst = 0;  // over the families, of the error over the bound
  for (Family family : families()) {
    if (hostile_weights(family)) continue;
    const Expectation& e = expected.family(family, 4);
    const std::vector<Tensor> x = expected.activations(family, 4);
    std::vector<double> wrong = e.outputs[0].exact;
    for (std::int64_t r = 0; r < 4; ++r) {
      double all = 0, some = 0;
      for (std::int64_t j = 0; j < 4096; ++j) {
        const double v = x[0].data[static_cast<std::size_t>(r * 4096 + j)];
        all += v * v;
        if (j >= 32) some += v * v;
      }
      const double eps = 1e-6 * 4096;
      for (std::int64_t c = 0; c < 64; ++c)
        wrong[static_cast<std::size_t>(r * 64 + c)] *= std::sqrt((all + eps) / (some + eps));
    }
    std::vector<float> y;
    for (double v : wrong) y.push_back(ir::round_to(ir::DType::kBF16, static_cast<float>(v)));
    const verifier::NumericReport report =
        verifier::compare(y, e.outputs[0].exact, 4, 64, e.outputs[0].bound);
    if (family == Family::kNormal) {
      EXPECT_TRUE(report.pass) << "the other families are needed";
    }
    if (!report.pass) worst = std::max(worst, report.worst_row / e.outputs[0].bound);
  }
  EXPECT_GT(worst, 1.0);
}

// One element of 150,000 that is zero instead of its value.
TEST(Accept, RefusesOneZeroedElement) {
  const Dims dims{{"m", 50}, {"k", 64}, {"n", 3000}};
  ir::Workload workload =
      ir::make_workload(ir::catalog_program("rmsnorm_linear"), dims, ir::DType::kBF16);
  Expectations expected(workload, 1);
  const Expectation& e = expected.family(Family::kNormal, 50);
  std::vector<float> y;
  for (double v : e.outputs[0].exact)
    y.push_back(ir::round_to(ir::DType::kBF16, static_cast<float>(v)));
  ASSERT_EQ(y.size(), 150000U);
  const double bound = e.outputs[0].bound;
  ASSERT_TRUE(verifier::compare(y, e.outputs[0].exact, 50, 3000, bound).pass);
  std::size_t at = 71234;
  while (std::fabs(y[at]) < 0.5) ++at;
  const double norm_before = verifier::compare(y, e.outputs[0].exact, 50, 3000, bound).worst_row;
  y[at] = 0;
  const verifier::NumericReport report = verifier::compare(y, e.outputs[0].exact, 50, 3000, bound);
  EXPECT_FALSE(report.pass);
  EXPECT_EQ(report.row * 3000 + report.column, static_cast<std::int64_t>(at));
  EXPECT_LT(norm_before, bound);
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

// Rows of x and y that are apart, on the host: what lies between them is NaN before, and stays.
TEST(Accept, RowsThatAreApart) {
  const Dims dims = {{"m", 6}, {"k", 100}, {"n", 7}};
  for (const char* name : {"rmsnorm_unfused", "rmsnorm_one_pass", "rmsnorm_split_k"})
    for (ir::DType dtype : {ir::DType::kBF16, ir::DType::kF32}) {
      const ir::MuGraph graph = test::fixture(name);
      ir::Workload workload = ir::make_workload(program_of(graph), dims, dtype);
      workload = ir::with_row_stride(ir::with_row_stride(workload, "x", 103), "y", 16);
      auto runner = make_local_runner("host", workload);
      const ir::LaunchPlan dense = test::host_plan(graph, dims, dtype, tiles(8, 32, 64));
      auto verdict = [&](const char* x, const char* y) {
        ir::LaunchPlan plan = dense;
        plan.buffers[0].elements = ir::SizeExpr::parse(x, plan.dims);
        plan.buffers[3].elements = ir::SizeExpr::parse(y, plan.dims);
        const verifier::Evidence e = runner->accept({plan, {}}, 1);
        return std::pair{e.verdict, e.reason};
      };
      const auto [right, why] = verdict("m * 103", "m * 16");
      EXPECT_EQ(right, verifier::Verdict::kPass) << name << ": " << why;
      // Plans for other strides read or write between the rows.
      EXPECT_EQ(verdict("m * k", "m * 16").first, verifier::Verdict::kRefuted) << name;
      const auto [dense_y, stray] = verdict("m * 103", "m * n");
      EXPECT_EQ(dense_y, verifier::Verdict::kRefuted) << name;
      EXPECT_NE(stray.find("between rows of output y"), std::string::npos) << stray;
    }
}

}  // namespace
}  // namespace tenon::measure
