// Every kernel family and every path of its code, once, small and ragged: what compute-sanitizer's
// tools watch (scripts/gpu_sanitize.sh), which slow a kernel down a hundredfold.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "device_case.h"
#include "ir/sha256.h"
#include "mutation_cases.h"

namespace tenon::test {
namespace {

// Paths whose sources are not mutated.
std::vector<MutationCase> more_cases() {
  return {
      MutationCase{"rmsnorm_one_pass", 200, 328, 600,
                   "gemm(consumers=1, stages=3, statistics=5, tile_m=64, tile_n=16)", 0},
      MutationCase{"rmsnorm_one_pass", 200, 320, 301,
                   "gemm(cluster_m=2, consumers=2, ping_pong=1, stages=3, statistics=5, "
                   "tile_m=128, tile_n=16)",
                   0},
      MutationCase{"rmsnorm_one_pass", 300, 320, 600,
                   "gemm(consumers=2, stages=3, statistics=4, tile_m=256, tile_n=64)", 0},
      MutationCase{"rmsnorm_one_pass", 24, 320, 600,
                   "small_m(columns=64, early=1, groups=4, rows=32, stages=3, unit=64, "
                   "warps=5, weights=3)",
                   0},
      MutationCase{"rmsnorm_one_pass", 5, 333, 70,
                   "small_m(columns=64, early=1, epilogue_warps=2, groups=2, rows=8, "
                   "staged=0, stages=2, "
                   "unit=32, warps=6, weights=1)",
                   0},
      // Rows of X that begin anywhere, staged in aligned words.
      MutationCase{"rmsnorm_one_pass", 5, 333, 70,
                   "small_m(columns=64, early=1, epilogue_warps=2, groups=2, interleaved=1, "
                   "rows=8, stages=3, unit=32, warps=6, weights=1)",
                   0},
      MutationCase{"rmsnorm_one_pass", 13, 331, 301,
                   "small_m(columns=128, early=1, interleaved=1, partials=1, rows=16, stages=5, "
                   "unit=64, warps=3, weights=0)",
                   0},
      MutationCase{"rmsnorm_one_pass", 20, 325, 301,
                   "small_m(columns=64, early=1, rows=32, stages=3, unit=64, warps=6, weights=0)",
                   0},
      MutationCase{"rmsnorm_split_k", 9, 389, 301,
                   "small_m(cluster=2, columns=64, early=1, rows=16, stages=2, unit=64, warps=4, "
                   "weights=3)",
                   0},
      // Rows of X that the copy engines cannot read.
      MutationCase{"rmsnorm_one_pass", 200, 321, 600,
                   "gemm(consumers=1, stages=3, statistics=2, tile_m=64, tile_n=16)", 0},
      MutationCase{"rmsnorm_one_pass", 200, 326, 301,
                   "gemm(consumers=1, stages=3, statistics=5, tile_m=64, tile_n=16)", 0},
      MutationCase{"rmsnorm_split_k", 70, 323, 301,
                   "gemm(consumers=1, split_k=2, stages=3, statistics=4, tile_m=64, tile_n=16)", 0},
      MutationCase{"rmsnorm_split_k", 100, 328, 600,
                   "gemm(rotate=1, slices=4, split_k=2, stages=3, statistics=3, tile_m=128, "
                   "tile_n=48)",
                   0},
      // Stores through shuffles: whole groups of four times 8 columns, and what is left of one.
      MutationCase{"rmsnorm_one_pass", 200, 328, 600,
                   "gemm(ping_pong=1, producer_registers=56, rotate=2, slices=4, stages=3, "
                   "statistics=3, stores=1, tile_m=128, tile_n=88)",
                   0},
      MutationCase{"rmsnorm_one_pass", 130, 320, 600,
                   "gemm(cluster_m=2, consumers=1, hint_y=1, stages=3, statistics=2, stores=1, "
                   "tile_m=64, tile_n=48)",
                   0},
      MutationCase{"rmsnorm_split_k", 100, 328, 600,
                   "gemm(rotate=1, slices=4, split_k=2, stages=3, statistics=3, stores=1, "
                   "tile_m=128, tile_n=48)",
                   0},
      // Stream-K: blocks with parts of two tiles, with whole tiles between, and more blocks than
      // steps.
      MutationCase{"rmsnorm_split_k", 70, 323, 301,
                   "contraction(stages=3, stream=7, tile_k=32, tile_m=32, tile_n=64, warps_m=1, "
                   "warps_n=4)",
                   0},
      MutationCase{"rmsnorm_split_k", 100, 648, 600,
                   "contraction(stages=3, stream=11, tile_k=32, tile_m=16, tile_n=32, warps_m=1, "
                   "warps_n=2)",
                   0},
      MutationCase{"rmsnorm_split_k", 33, 200, 90,
                   "contraction(stages=2, stream=132, tile_k=32, tile_m=16, tile_n=64, warps_m=1, "
                   "warps_n=4)",
                   0},
      MutationCase{"rmsnorm_split_k", 60, 392, 301,
                   "gemm(consumers=1, split_k=3, stages=3, statistics=5, tile_m=64, "
                   "tile_n=24)",
                   0},
  };
}

std::vector<MutationCase> cases() {
  std::vector<MutationCase> out = mutation_cases();
  for (const MutationCase& c : more_cases()) out.push_back(c);
  return out;
}

class KernelFamilies : public testing::TestWithParam<MutationCase> {};

// What small_m takes on cards before sm_90.
std::vector<MutationCase> older_cases() {
  return {
      MutationCase{"rmsnorm_one_pass", 13, 1536, 712,
                   "small_m(columns=128, early=1, epilogue_warps=4, groups=5, rows=16, stages=3, "
                   "unit=64, warps=12, weights=1)",
                   0},
      MutationCase{"rmsnorm_one_pass", 5, 333, 70,
                   "small_m(columns=64, early=1, epilogue_warps=2, groups=2, rows=8, staged=0, "
                   "stages=2, unit=32, warps=6, weights=3)",
                   0},
      MutationCase{"rmsnorm_one_pass", 24, 320, 600,
                   "small_m(columns=64, early=1, groups=4, partials=1, rows=32, staged=0, "
                   "stages=1, stats_first=1, unit=64, warps=5, weights=2)",
                   0},
  };
}

// y = (x / sqrt(mean(x²) + ε) · g) W in double.
std::vector<double> expected(const DeviceCase& c, std::int64_t m, std::int64_t k, std::int64_t n) {
  const std::vector<float>&x = c.values[0], &g = c.values[1], &w = c.values[2];
  std::vector<double> y(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    double squares = 0;
    for (std::int64_t j = 0; j < k; ++j) squares += std::pow(x[i * k + j], 2.0);
    const double scale = 1 / std::sqrt(squares / k + 1e-6);
    for (std::int64_t j = 0; j < k; ++j) {
      const double normalized = x[i * k + j] * scale * g[j];
      for (std::int64_t o = 0; o < n; ++o) y[i * n + o] += normalized * w[j * n + o];
    }
  }
  return y;
}

void expect_reference_twice(runtime::Device& device, DeviceCase& c, const MutationCase& p) {
  auto executable = device.load(c.candidate.plan, c.candidate.cubins);
  executable->prepare(c.inputs, nullptr);
  const std::vector<std::byte> first = c.run(*executable), second = c.run(*executable);
  EXPECT_EQ(first, second);
  const std::vector<float> y =
      measure::from_bytes(first, ir::DType::kBF16, 0, static_cast<std::size_t>(p.m * p.n));
  const std::vector<double> reference = expected(c, p.m, p.k, p.n);
  for (std::int64_t i = 0; i < p.m; ++i) {
    double error = 0, size = 0;
    for (std::int64_t o = 0; o < p.n; ++o) {
      error += std::pow(y[i * p.n + o] - reference[i * p.n + o], 2.0);
      size += std::pow(reference[i * p.n + o], 2.0);
    }
    // A NaN fails.
    ASSERT_TRUE(std::sqrt(error / size) <= 0.01) << "row " << i << " of " << name(p);
  }
}

TEST_P(KernelFamilies, GiveTheReferenceTwice) {
  TENON_REQUIRE_GPU(device);
  const MutationCase& p = GetParam();
  if (device->info().target.name != "sm_90a") GTEST_SKIP() << "the families are those of sm_90a";
  DeviceCase c(*device, p.fixture, p.m, p.k, p.n, ir::DType::kBF16, p.schedule);
  expect_reference_twice(*device, c, p);
}

// The code for sm_80 has instructions of its own (ptx/mbarrier.cuh): its PTX, which the driver
// translates for the card that is there.
TEST(KernelFamiliesOfSm80, GiveTheReferenceTwice) {
  TENON_REQUIRE_GPU(device);
  const ir::Target target = ir::target_from_name("sm_80");
  for (const MutationCase& p : older_cases()) {
    DeviceCase c(*device, p.fixture, p.m, p.k, p.n, ir::DType::kBF16);
    const codegen::Generated generated = codegen::generate(
        embedded_fixture(p.fixture), ir::parse_schedule(p.schedule), c.workload, target);
    c.candidate = {generated.plan, {}};
    c.candidate.plan.device_class = device->info().device_class;
    for (std::size_t i = 0; i < generated.sources.size(); ++i) {
      const codegen::Compiled compiled =
          codegen::compile(as_tools_want(generated.sources[i]), target, true);
      ASSERT_TRUE(compiled.ok) << name(p) << ": " << compiled.log;
      // The driver wants the text with its terminating zero.
      const std::string ptx = compiled.ptx + '\0';
      c.candidate.plan.modules[i].cubin_sha256 = ir::sha256_hex(ptx);
      c.candidate.cubins.push_back(ptx);
    }
    expect_reference_twice(*device, c, p);
  }
}

// Without a GPU: every case is a legal schedule that compiles and does not spill (those whose
// sources are mutated: mutation_sources.CasesCompile).
TEST(KernelFamilyCases, Compile) {
  std::string why;
  if (!codegen::nvrtc_available(&why)) GTEST_SKIP() << why;
  std::vector<std::pair<MutationCase, std::string>> all;
  for (const MutationCase& c : more_cases()) all.emplace_back(c, "sm_90a");
  for (const MutationCase& c : older_cases()) all.emplace_back(c, "sm_80");
  for (const auto& [c, target_name] : all) {
    const ir::Target target = ir::target_from_name(target_name);
    const ir::MuGraph graph = embedded_fixture(c.fixture);
    const ir::Schedule schedule = ir::parse_schedule(c.schedule);
    for (std::size_t i = 0; i < graph.kernels.size(); ++i) {
      const auto reason =
          ir::illegal(ir::view(graph, i), schedule.kernels[i], workload_of(c), target);
      EXPECT_FALSE(reason.has_value()) << name(c) << ": " << *reason;
    }
    for (const codegen::Source& source :
         codegen::generate(graph, schedule, workload_of(c), target).sources) {
      const codegen::Compiled compiled = codegen::compile(source, target);
      ASSERT_TRUE(compiled.ok) << name(c) << ": " << compiled.log;
      // Under racecheck other lines are compiled (gpu.cpp).
      const codegen::Compiled checked =
          codegen::compile({"#define TENON_RACECHECK\n" + source.text, source.entries}, target);
      ASSERT_TRUE(checked.ok) << name(c) << ": " << checked.log;
      for (const codegen::KernelResources& r : compiled.resources)
        EXPECT_EQ(r.spill_bytes, 0) << name(c);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OnGpu, KernelFamilies, testing::ValuesIn(cases()),
                         [](const auto& one) { return "Case" + std::to_string(one.index); });

}  // namespace
}  // namespace tenon::test
