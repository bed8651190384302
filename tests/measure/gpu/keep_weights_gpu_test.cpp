// Layouts on the GPU: weights that stay where they are, read in place by every family that can and
// off alignment; rows of x and y that are apart.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "gpu.h"
#include "ir/family.h"
#include "ir/layout.h"
#include "ir/weights.h"

namespace tenon::test {
namespace {

constexpr const char* kUnfused = R"(mugraph rmsnorm_linear
dims m, k, n
attribute eps = 1e-6
input x: T[m, k] activation
input g: T[k] parameter
input w: T[n, k] parameter
output y: T[m, n]
kernel norm {
  grid m
  load x [m: grid, k: full]
  load g [k: full]
  %0 = square(x)
  %1 = sum(%0, k)
  %2 = const(1/k)
  %3 = mul(%1, %2)
  %4 = const(eps)
  %5 = add(%3, %4)
  %6 = rsqrt(%5)
  %7 = mul(x, %6)
  %8 = mul(%7, g)
  %9 = cast(%8, T)
  store xn: T[m, k] = %9
}
kernel product {
  grid m, n
  loop k
  load xn [m: grid, k: loop]
  load w [n: grid, k: loop]
  %0 = accumulate matmul(xn, w, k)
  %1 = cast(%0, T)
  store y = %1
}
)";

ir::Workload kept(std::int64_t m, std::int64_t k, std::int64_t n) {
  ir::Workload workload =
      ir::make_workload(ir::with_layout(ir::catalog_program("rmsnorm_linear"), "w=n,k"),
                        {{"m", m}, {"k", k}, {"n", n}}, ir::DType::kBF16);
  workload.keep_weights = true;
  return workload;
}

constexpr std::tuple<int, int, int> kShapes[] = {{20, 264, 200}, {40, 1000, 72}, {5, 320, 200}};

// Without a GPU: the samples that the next test runs hold every family, with W in place.
TEST(KeepWeights, SamplesHoldEveryFamily) {
  std::string why;
  if (!codegen::nvrtc_available(&why)) GTEST_SKIP() << why;
  const ir::Target target = ir::target_from_name("sm_90a");
  const ir::MuGraph graph = ir::parse_mugraph(kUnfused);
  std::map<std::string, int> compiled;
  for (auto [m, k, n] : kShapes)
    for (const ir::Schedule& schedule : sample_schedules(graph, kept(m, k, n), target)) {
      try {
        EXPECT_TRUE(
            ir::held_weights(compile(graph, schedule, kept(m, k, n), target).plan).copies.empty());
        ++compiled[schedule.kernels[1].family];
      } catch (const codegen::Rejected& e) {
        ADD_FAILURE() << ir::print(schedule) << ": " << e.what();
      }
    }
  for (const char* family : {"contraction", "small_m", "multicast", "gemm"})
    EXPECT_GT(compiled[family], 0) << family;
}

TEST(KeepWeightsOnGpu, EveryFamilyAccepts) {
  TENON_REQUIRE_GPU(device);
  const ir::Target& target = device->info().target;
  const ir::MuGraph graph = ir::parse_mugraph(kUnfused);
  std::map<std::string, int> accepted;
  for (auto [m, k, n] : kShapes) {
    const ir::Workload workload = kept(m, k, n);
    auto runner = measure::make_local_runner("cuda:0", workload);
    for (const ir::Schedule& schedule : sample_schedules(graph, workload, target)) {
      try {
        measure::Candidate candidate = compile(graph, schedule, workload, target);
        ASSERT_TRUE(ir::held_weights(candidate.plan).copies.empty());
        const verifier::Evidence e = runner->accept(candidate, 1);
        EXPECT_EQ(e.verdict, verifier::Verdict::kPass)
            << ir::print(workload) << " " << ir::print(schedule) << ": " << e.reason;
        ++accepted[schedule.kernels[1].family];
      } catch (const codegen::Rejected&) {
        continue;
      }
    }
  }
  EXPECT_GT(accepted["contraction"], 0);
  if (target.name != "sm_90a") return;
  for (const char* family : {"small_m", "multicast", "gemm"})
    EXPECT_GT(accepted[family], 0) << family;
}

// x = 1, g = 2 and w[n][k] = n % 7: y[n] = 2 · 64 · (n % 7), exact in bf16 beside eps.
TEST(KeepWeightsOnGpu, WOffAlignmentIsReadElementByElement) {
  TENON_REQUIRE_GPU(device);
  const ir::Target& target = device->info().target;
  const ir::MuGraph graph = ir::parse_mugraph(kUnfused);
  constexpr std::int64_t kM = 5, kK = 64, kN = 40;
  const ir::Workload workload = kept(kM, kK, kN);
  auto upload = [&](const std::vector<float>& values, std::size_t shift) {
    std::vector<std::uint16_t> bits(values.size() + shift);
    for (std::size_t i = 0; i < values.size(); ++i)
      bits[i + shift] = ir::to_bits16(ir::DType::kBF16, values[i]);
    auto memory = device->allocate(bits.size() * 2);
    device->upload(memory->data(), bits.data(), bits.size() * 2);
    return memory;
  };
  std::vector<float> weights(kN * kK);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i / kK % 7);
  auto x = upload(std::vector<float>(kM * kK, 1), 0), g = upload(std::vector<float>(kK, 2), 0),
       w = upload(weights, 1);
  const std::vector<const void*> inputs = {x->data(), g->data(),
                                           static_cast<std::uint16_t*>(w->data()) + 1};
  int ran = 0;
  for (const char* family : {"contraction", "small_m"}) {
    const auto legal = ir::enumerate_schedules(ir::view(graph, 1), family, workload, target);
    if (legal.empty()) continue;
    ir::Schedule schedule;
    schedule.kernels = {ir::default_schedule(ir::view(graph, 0), workload, target), legal.front()};
    const measure::Candidate candidate = compile(graph, schedule, workload, target);
    auto kernel = device->load(candidate.plan, candidate.cubins);
    kernel->prepare(inputs, nullptr);
    auto y = device->allocate(kM * kN * 2);
    device->fill(y->data(), 0xff, kM * kN * 2);
    void* outputs[] = {y->data()};
    kernel->launch(inputs.data(), outputs, kM, nullptr);
    device->synchronize();
    std::vector<std::uint16_t> bits(kM * kN);
    device->download(bits.data(), y->data(), bits.size() * 2);
    for (std::size_t i = 0; i < bits.size(); ++i)
      ASSERT_EQ(ir::from_bits16(ir::DType::kBF16, bits[i]),
                2.0f * 64 * static_cast<float>(i % kN % 7))
          << family << " " << i;
    ++ran;
  }
  EXPECT_GT(ran, 0);
}

// Rows of x and y apart, by whole pieces of 16 bytes and by odd numbers of elements; what lies
// between them is a NaN and must stay one (measure/accept.cpp).
TEST(RowStridesOnGpu, EveryFamilyAccepts) {
  TENON_REQUIRE_GPU(device);
  const ir::Target& target = device->info().target;
  std::map<std::string, int> accepted;
  for (const char* fixture : {"rmsnorm_one_pass", "rmsnorm_split_k", "rmsnorm_unfused"}) {
    const ir::MuGraph graph = embedded_fixture(fixture);
    for (auto [m, x, y] : {std::tuple{20, 280, 208}, {70, 280, 203}, {20, 267, 203}}) {
      ir::Workload workload =
          ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                            {{"m", m}, {"k", 264}, {"n", 200}}, ir::DType::kBF16);
      workload = ir::with_row_stride(ir::with_row_stride(workload, "x", x), "y", y);
      auto runner = measure::make_local_runner("cuda:0", workload);
      for (const ir::Schedule& schedule : sample_schedules(graph, workload, target)) {
        try {
          const verifier::Evidence e =
              runner->accept(compile(graph, schedule, workload, target), 1);
          EXPECT_EQ(e.verdict, verifier::Verdict::kPass)
              << ir::print(workload) << " " << ir::print(schedule) << ": " << e.reason;
          ++accepted[schedule.kernels.back().family];
        } catch (const codegen::Rejected&) {
          continue;
        }
      }
    }
  }
  EXPECT_GT(accepted["contraction"], 0);
  if (target.name != "sm_90a") return;
  for (const char* family : {"small_m", "multicast", "gemm"})
    EXPECT_GT(accepted[family], 0) << family;
}

}  // namespace
}  // namespace tenon::test
