// The host engine against the evaluator: every fixture, dtype, ragged shapes, several tilings.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "host_plan.h"
#include "ir/error.h"
#include "runtime/device.h"

namespace tenon::test {
namespace {

std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(TENON_FIXTURES))
    if (entry.path().extension() == ".mugraph") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

ir::Partition whole(const ir::MuGraph& graph) {
  std::size_t dims = graph.signature.dims.size();
  return {std::vector<std::int64_t>(dims, 1), std::vector<std::int64_t>(dims, 1)};
}

struct Case {
  Dims dims;
  ir::KernelSchedule schedule;
};

std::vector<Case> cases() {
  return {
      {{{"m", 3}, {"k", 100}, {"n", 7}}, {"host", {{"tile_m", 2}, {"tile_n", 4}, {"tile_k", 32}}}},
      {{{"m", 1}, {"k", 1}, {"n", 1}}, {"host", {{"tile_m", 16}, {"tile_n", 16}, {"tile_k", 16}}}},
      {{{"m", 17}, {"k", 577}, {"n", 97}},
       {"host", {{"tile_m", 16}, {"tile_n", 64}, {"tile_k", 256}}}},
      {{{"m", 29}, {"k", 64}, {"n", 130}},
       {"host", {{"tile_m", 64}, {"tile_n", 128}, {"tile_k", 64}}}},
      {{{"m", 5}, {"k", 300}, {"n", 33}}, {"host", {}}},
      {{{"m", 2}, {"k", 3}, {"n", 40}}, {"host", {{"tile_m", 1}, {"tile_n", 1}, {"tile_k", 1}}}},
  };
}

// Where a fixture divides by K-1 or the like, one element is no input for it.
bool meaningful(const std::string& name, const Dims& dims) {
  return dims.at("k") > 1 || name.rfind("layernorm", 0) != 0;
}

class HostEngine : public testing::TestWithParam<std::string> {};

TEST_P(HostEngine, AgreesWithTheEvaluator) {
  ir::MuGraph graph = fixture(GetParam());
  for (const Case& c : cases()) {
    if (!meaningful(GetParam(), c.dims)) continue;
    ir::Extents extents = extents_of(graph, c.dims);
    for (ir::DType dtype : {ir::DType::kBF16, ir::DType::kF16, ir::DType::kF32}) {
      auto inputs = normal_inputs(graph, extents, dtype, 7);
      ir::DoubleDomain real(attributes_of(graph));
      ir::RoundedDomain rounded(attributes_of(graph), dtype);
      auto exact = ir::evaluate(graph, extents, whole(graph), real, widen(inputs));
      auto predicted = ir::evaluate(graph, extents, whole(graph), rounded, inputs);
      auto got = run_on_host(host_plan(graph, c.dims, dtype, c.schedule), inputs);
      ASSERT_EQ(got.size(), exact.size());
      for (std::size_t o = 0; o < got.size(); ++o) {
        std::int64_t columns = exact[o].extents.back();
        double e = row_error(predicted[o].data, exact[o].data, columns);
        EXPECT_LE(row_error(got[o], exact[o].data, columns), 1.5 * e + ir::unit_roundoff(dtype))
            << ir::name(dtype) << " m=" << c.dims.at("m") << " k=" << c.dims.at("k")
            << " n=" << c.dims.at("n");
      }
    }
  }
}

TEST_P(HostEngine, IsBitwiseRepeatable) {
  ir::MuGraph graph = fixture(GetParam());
  Dims dims{{"m", 33}, {"k", 210}, {"n", 75}};
  auto inputs = normal_inputs(graph, extents_of(graph, dims), ir::DType::kBF16, 3);
  ir::LaunchPlan plan = host_plan(graph, dims, ir::DType::kBF16,
                                  {"host", {{"tile_m", 8}, {"tile_n", 32}, {"tile_k", 64}}});
  EXPECT_EQ(run_on_host(plan, inputs), run_on_host(plan, inputs));
}

TEST_P(HostEngine, TakesAnyNumberOfRowsAtLaunch) {
  ir::MuGraph graph = fixture(GetParam());
  Dims tuned{{"m", 8}, {"k", 50}, {"n", 21}};
  ir::LaunchPlan plan = host_plan(graph, tuned, ir::DType::kF32,
                                  {"host", {{"tile_m", 3}, {"tile_n", 16}, {"tile_k", 20}}});
  for (std::int64_t m : {1, 2, 7, 9, 32}) {
    Dims dims = tuned;
    dims["m"] = m;
    ir::Extents extents = extents_of(graph, dims);
    auto inputs = normal_inputs(graph, extents, ir::DType::kF32, static_cast<std::uint32_t>(m));
    ir::DoubleDomain real(attributes_of(graph));
    auto exact = ir::evaluate(graph, extents, whole(graph), real, widen(inputs));
    auto got = run_on_host(plan, inputs, m);
    EXPECT_LE(row_error(got[0], exact[0].data, 21), 1e-5) << "m=" << m;
  }
}

// A NaN in one row of x reaches that row of y and no other.
TEST_P(HostEngine, KeepsNaNInItsRow) {
  ir::MuGraph graph = fixture(GetParam());
  Dims dims{{"m", 9}, {"k", 70}, {"n", 40}};
  auto inputs = normal_inputs(graph, extents_of(graph, dims), ir::DType::kBF16, 5);
  ir::LaunchPlan plan = host_plan(graph, dims, ir::DType::kBF16,
                                  {"host", {{"tile_m", 4}, {"tile_n", 16}, {"tile_k", 32}}});
  auto clean = run_on_host(plan, inputs);
  inputs[0].data[3 * 70 + 41] = std::nanf("");
  auto dirty = run_on_host(plan, inputs);
  for (std::size_t i = 0; i < clean[0].size(); ++i) {
    if (i / 40 == 3)
      EXPECT_TRUE(std::isnan(dirty[0][i])) << i;
    else
      EXPECT_EQ(dirty[0][i], clean[0][i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, HostEngine, testing::ValuesIn(fixture_names()),
                         [](const auto& test) { return test.param; });

// A product large enough for every register block of every instruction set, by hand.
TEST(HostProduct, EqualsTheSumByHand) {
  ir::MuGraph graph = ir::parse_mugraph(R"(
mugraph linear
dims m, k, n
input x: T[m, k] activation
input w: T[k, n] parameter
output y: fp32[m, n]
kernel product library matmul(x, w, k) -> y
)");
  for (auto [m, k, n] : {std::array{61, 700, 203}, std::array{1, 513, 300}, std::array{2, 40, 259},
                         std::array{25, 16, 31}}) {
    Dims dims{{"m", m}, {"k", k}, {"n", n}};
    auto inputs = normal_inputs(graph, extents_of(graph, dims), ir::DType::kBF16, 11);
    auto got = run_on_host(host_plan(graph, dims, ir::DType::kBF16, {"host", {}}), inputs);
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (int p = 0; p < k; ++p) {
          double term = static_cast<double>(inputs[0].data[static_cast<std::size_t>(i * k + p)]) *
                        inputs[1].data[static_cast<std::size_t>(p * n + j)];
          sum += term;
          size += std::abs(term);
        }
        ASSERT_NEAR(got[0][static_cast<std::size_t>(i * n + j)], sum, 1e-6 * size) << i << "," << j;
      }
  }
}

// y = x + neighbour's share of x: what a shifted load reads, by hand.
TEST(HostShift, ReadsTheNextBlocksShare) {
  ir::MuGraph graph = ir::parse_mugraph(R"(
mugraph shifted
dims m
input x: fp32[m] activation
output y: fp32[m]
kernel main {
  grid m
  load x [m: grid shift 1]
  %0 = square(x)
  store y = %0
}
)");
  Dims dims{{"m", 10}};
  auto inputs = normal_inputs(graph, extents_of(graph, dims), ir::DType::kF32, 1);
  auto got =
      run_on_host(host_plan(graph, dims, ir::DType::kF32, {"host", {{"tile_m", 4}}}), inputs);
  for (std::size_t i = 0; i < 10; ++i) {
    float x = inputs[0].data[(i + 4) % 10];
    EXPECT_EQ(got[0][i], x * x) << i;
  }
}

TEST(HostDevice, RefusesBadPlansInOneSentence) {
  ir::MuGraph graph = fixture("rmsnorm_one_pass");
  Dims dims{{"m", 4}, {"k", 8}, {"n", 6}};
  auto device = runtime::open_device("host");
  ir::LaunchPlan plan = host_plan(graph, dims, ir::DType::kBF16, {"host", {}});

  ir::LaunchPlan other = plan;
  other.device_class = "sm_90a";
  EXPECT_THROW(device->load(other, {}), UserError);
  other = plan;
  other.main[0].entry = "7";
  EXPECT_THROW(device->load(other, {}), UserError);
  other = plan;
  other.mugraph = "mugraph broken";
  EXPECT_THROW(device->load(other, {}), UserError);
  other = plan;
  other.buffers[0].elements = 5;
  EXPECT_THROW(device->load(other, {}), UserError);
  other = plan;
  other.extents.pop_back();
  EXPECT_THROW(device->load(other, {}), UserError);
}

TEST(HostDevice, ChecksCalls) {
  ir::MuGraph graph = fixture("rmsnorm_one_pass");
  Dims dims{{"m", 4}, {"k", 8}, {"n", 6}};
  auto device = runtime::open_device("host");
  auto executable = device->load(host_plan(graph, dims, ir::DType::kF32, {"host", {}}), {});
  std::vector<float> x(16 * 8, 1), g(8, 1), w(48, 1), y(16 * 6, -5);
  const void* inputs[] = {x.data(), g.data(), w.data()};
  void* outputs[] = {y.data()};
  EXPECT_THROW(executable->launch(inputs, outputs, 4, nullptr), UserError);  // not prepared
  EXPECT_THROW(executable->prepare({x.data(), g.data()}, nullptr), UserError);
  EXPECT_THROW(executable->prepare({x.data(), g.data(), nullptr}, nullptr), UserError);
  executable->prepare({nullptr, g.data(), w.data()}, nullptr);
  EXPECT_THROW(executable->launch(inputs, outputs, 17, nullptr), UserError);
  EXPECT_THROW(executable->launch(inputs, outputs, -1, nullptr), UserError);
  executable->launch(inputs, outputs, 0, nullptr);
  EXPECT_EQ(y[0], -5);  // no rows: nothing is written
  executable->launch(inputs, outputs, 1, nullptr);
  EXPECT_NEAR(y[0], 8, 1e-4);  // Σ 1·1 over k=8, rms 1
  EXPECT_EQ(y[6], -5);
}

}  // namespace
}  // namespace tenon::test
