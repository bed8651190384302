// Every fixture form on the GPU: generate, compile, load, accept.
#include <gtest/gtest.h>

#include <map>

#include "gpu.h"
#include "ir/error.h"
#include "ir/family.h"
#include "ir/schedule.h"

namespace tenon::test {
namespace {

struct Shape {
  std::int64_t m, k, n;
};

class AcceptOnGpu : public testing::TestWithParam<std::string> {};

std::string label(const Shape& s, ir::DType dtype, const ir::Schedule& schedule) {
  return std::to_string(s.m) + "x" + std::to_string(s.k) + "x" + std::to_string(s.n) + " " +
         std::string(ir::name(dtype)) + " " + ir::print(schedule);
}

void accept_all(const std::string& fixture, const std::vector<Shape>& shapes,
                const std::vector<ir::DType>& dtypes, const ir::Target& target, bool dependent) {
  ir::MuGraph graph = embedded_fixture(fixture);
  int accepted = 0;
  for (const Shape& s : shapes)
    for (ir::DType dtype : dtypes) {
      ir::Workload workload = ir::make_workload(ir::catalog_program(graph.signature.program),
                                                {{"m", s.m}, {"k", s.k}, {"n", s.n}}, dtype);
      auto runner = measure::make_local_runner("cuda:0", workload);
      for (ir::Schedule schedule : sample_schedules(graph, workload, target)) {
        schedule.dependent_launch = dependent;
        try {
          measure::Candidate candidate = compile(graph, schedule, workload, target);
          verifier::Evidence e = runner->accept(candidate, 1);
          EXPECT_EQ(e.verdict, verifier::Verdict::kPass)
              << label(s, dtype, schedule) << ": " << e.reason;
          ++accepted;
        } catch (const codegen::Rejected&) {
          continue;  // not every combination is legal
        }
      }
    }
  EXPECT_GT(accepted, 0);
}

TEST_P(AcceptOnGpu, RaggedAndSmallShapes) {
  TENON_REQUIRE_GPU(device);
  const ir::Target& target = device->info().target;
  accept_all(GetParam(), {{3, 100, 7}}, {ir::DType::kBF16, ir::DType::kF16, ir::DType::kF32},
             target, false);
  accept_all(GetParam(), {{1, 1, 1}, {17, 577, 97}}, {ir::DType::kBF16}, target, false);
}

// Small enough for a sanitizer, large enough for every family of sm_90a, in both 16-bit types.
TEST_P(AcceptOnGpu, HopperShapes) {
  TENON_REQUIRE_GPU(device);
  accept_all(GetParam(), {{20, 264, 200}}, {ir::DType::kF16}, device->info().target, false);
  accept_all(GetParam(), {{70, 264, 200}}, {ir::DType::kBF16}, device->info().target, false);
}

TEST_P(AcceptOnGpu, RoundShapes) {
  TENON_REQUIRE_GPU(device);
  accept_all(GetParam(), {{16, 576, 960}, {128, 256, 512}}, {ir::DType::kBF16},
             device->info().target, false);
}

TEST_P(AcceptOnGpu, DependentLaunch) {
  TENON_REQUIRE_GPU(device);
  if (device->info().target.compute_capability() < 90)
    GTEST_SKIP() << "dependent launch needs compute capability 9.0";
  accept_all(GetParam(), {{3, 100, 7}, {16, 576, 960}}, {ir::DType::kBF16}, device->info().target,
             true);
}

TEST_P(AcceptOnGpu, PortablePathOnThisDevice) {
  TENON_REQUIRE_GPU(device);
  // The portable families, compiled for the device at hand.
  ir::Target target = device->info().target;
  ir::MuGraph graph = embedded_fixture(GetParam());
  ir::Workload workload =
      ir::make_workload(ir::catalog_program(graph.signature.program),
                        {{"m", 16}, {"k", 4096}, {"n", 6144}}, ir::DType::kBF16);
  ir::Schedule schedule;
  for (std::size_t k = 0; k < graph.kernels.size(); ++k)
    schedule.kernels.push_back(ir::default_schedule(ir::view(graph, k), workload, target));
  auto runner = measure::make_local_runner("cuda:0", workload);
  verifier::Evidence e = runner->accept(compile(graph, schedule, workload, target), 1);
  EXPECT_EQ(e.verdict, verifier::Verdict::kPass) << ir::print(schedule) << ": " << e.reason;
}

// Rows that are summed by the blocks with a tile less than others: fewer tiles than blocks, more, a
// last wave that is full (then all take part), clusters either way, warpgroups in turns and
// together, parts of k, chunks of many rows and of one; rows past m in the last chunk. Twice in a
// row, and as a chain.
TEST(AcceptOnGpuExchangedSums, OfAllRows) {
  TENON_REQUIRE_GPU(device);
  const ir::Target target = device->info().target;
  if (target.name != "sm_90a") GTEST_SKIP() << "the persistent kernel needs sm_90a";
  struct Case {
    std::int64_t m, k, n;
    const char* kernel;
  };
  const Case cases[] = {
      {100, 264, 200, "gemm(statistics=5, tile_m=64, tile_n=40, stages=4, consumers=1)"},
      {256, 4096, 6144, "gemm(statistics=5, tile_m=128, tile_n=96, stages=7, consumers=1)"},
      {256, 4096, 6144,
       "gemm(statistics=5, tile_m=64, tile_n=192, stages=6, consumers=1, cluster_m=2)"},
      {1000, 1032, 1500, "gemm(statistics=5, tile_m=128, tile_n=192, stages=5, ping_pong=1)"},
      {2048, 1024, 2112,
       "gemm(statistics=5, tile_m=128, tile_n=192, stages=5, ping_pong=1, cluster_m=2)"},
      {1500, 2048, 3000, "gemm(statistics=5, tile_m=256, tile_n=192, stages=3, cluster_n=2)"},
      {700, 2048, 8448, "gemm(statistics=5, tile_m=192, tile_n=64, stages=6, consumers=3)"},
      {64 * 33, 512, 1024, "gemm(statistics=5, tile_m=64, tile_n=256, stages=4, consumers=1)"},
      {64, 4096, 6144,
       "gemm(statistics=5, tile_m=64, tile_n=96, stages=8, consumers=1, split_k=2)"},
      {100, 1000, 2112, "gemm(statistics=5, tile_m=128, tile_n=96, stages=6, split_k=2)"},
      {60, 1032, 8400,
       "gemm(statistics=5, tile_m=64, tile_n=128, stages=6, consumers=1, split_k=2)"},
      // Slices that tiles sum for each other, in parts of k, each tile beginning with its own.
      {64, 4096, 6144,
       "gemm(statistics=3, tile_m=64, tile_n=96, stages=8, consumers=1, split_k=2, rotate=1)"},
      {100, 1000, 2112,
       "gemm(statistics=3, tile_m=128, tile_n=96, stages=3, split_k=2, cluster_n=2, slices=12)"},
      {65, 968, 700,
       "gemm(statistics=3, tile_m=64, tile_n=96, stages=4, consumers=1, split_k=3, slices=12, "
       "rotate=1)"},
      {256, 1032, 1500,
       "gemm(statistics=3, tile_m=128, tile_n=96, stages=6, consumers=1, rotate=1)"},
      // Slices spread over k, the last steps in another order; several waves and one.
      {2048, 1032, 2112,
       "gemm(statistics=3, tile_m=128, tile_n=176, stages=5, ping_pong=1, group=11, slices=12, "
       "rotate=2, producer_registers=56)"},
      {1500, 2048, 3000,
       "gemm(statistics=3, tile_m=256, tile_n=192, stages=3, cluster_n=2, slices=4, rotate=2, "
       "producer_registers=56)"},
      {100, 1000, 2112,
       "gemm(statistics=3, tile_m=128, tile_n=96, stages=5, split_k=2, slices=8, rotate=2, "
       "producer_registers=56)"},
  };
  for (const Case& c : cases)
    for (bool dependent : {false, true}) {
      const bool split = std::string(c.kernel).find("split_k") != std::string::npos;
      const ir::MuGraph graph = embedded_fixture(split ? "rmsnorm_split_k" : "rmsnorm_one_pass");
      const ir::Workload workload =
          ir::make_workload(ir::catalog_program(graph.signature.program),
                            {{"m", c.m}, {"k", c.k}, {"n", c.n}}, ir::DType::kBF16);
      ir::Schedule schedule = ir::parse_schedule(c.kernel);
      schedule.dependent_launch = dependent;
      const auto reason = ir::illegal(ir::view(graph, 0), schedule.kernels[0], workload, target);
      ASSERT_FALSE(reason.has_value()) << c.kernel << ": " << *reason;
      auto runner = measure::make_local_runner("cuda:0", workload);
      const verifier::Evidence e = runner->accept(compile(graph, schedule, workload, target), 1);
      EXPECT_EQ(e.verdict, verifier::Verdict::kPass)
          << c.m << "x" << c.k << "x" << c.n << " " << c.kernel << ": " << e.reason;
    }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, AcceptOnGpu, testing::ValuesIn(embedded_fixtures()),
                         [](const auto& test) { return test.param; });

// Sabotaged graphs must not pass on the GPU either.
TEST(AcceptOnGpuSabotaged, IsRefuted) {
  TENON_REQUIRE_GPU(device);
  ir::Workload workload = ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                                            {{"m", 16}, {"k", 576}, {"n", 960}}, ir::DType::kBF16);
  auto runner = measure::make_local_runner("cuda:0", workload);
  const std::map<std::string, std::string> edits = {
      {"const(1/k)", "const(1/n)"}, {"const(eps)", "const(0)"}, {"mul(w, g)", "mul(w, w)"}};
  for (const auto& [from, to] : edits) {
    std::string text = ir::print(embedded_fixture("rmsnorm_one_pass"));
    std::size_t at = text.find(from);
    if (at == std::string::npos) continue;
    ir::MuGraph graph = ir::parse_mugraph(text.replace(at, from.size(), to));
    ir::Schedule schedule;
    for (std::size_t k = 0; k < graph.kernels.size(); ++k)
      schedule.kernels.push_back(
          ir::default_schedule(ir::view(graph, k), workload, device->info().target));
    verifier::Evidence e =
        runner->accept(compile(graph, schedule, workload, device->info().target), 1);
    EXPECT_EQ(e.verdict, verifier::Verdict::kRefuted) << from << " -> " << to;
  }
}

}  // namespace
}  // namespace tenon::test
