// The device's float64 evaluation against the host's, and what its comparison must see.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "gpu.h"
#include "measure/device_expectation.h"
#include "measure/expectation.h"
#include "measure/storage.h"

namespace tenon::test {
namespace {

using measure::Family;

struct Inputs {
  Inputs(runtime::Device& device, const ir::Workload& workload, Family family) {
    measure::Expectations e(workload, 7);
    tensors = e.activations(family, workload.extents[0]);
    const auto& parameters = e.parameters(measure::hostile_weights(family));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto& in = workload.program.signature.inputs[i];
      if (in.role == ir::Role::kParameter) tensors[i] = parameters[i];
      std::vector<std::byte> bytes =
          measure::to_bytes(tensors[i].data, ir::bind(in.dtype, workload.dtype));
      memory.push_back(device.allocate(bytes.size()));
      device.upload(memory.back()->data(), bytes.data(), bytes.size());
      pointers.push_back(memory.back()->data());
    }
  }
  std::vector<measure::Tensor> tensors;
  std::vector<std::unique_ptr<runtime::Memory>> memory;
  std::vector<const void*> pointers;
};

ir::Workload workload_of(std::int64_t m, std::int64_t k, std::int64_t n, ir::DType dtype) {
  return ir::make_workload(ir::catalog_program("rmsnorm_linear"), {{"m", m}, {"k", k}, {"n", n}},
                           dtype);
}

TEST(DeviceMathOnGpu, AgreesWithTheHostInEveryFamily) {
  TENON_REQUIRE_GPU(device);
  for (ir::DType dtype : {ir::DType::kBF16, ir::DType::kF16, ir::DType::kF32})
    for (auto [m, k, n] : {std::array<std::int64_t, 3>{3, 100, 7}, {70, 577, 97}, {65, 64, 130}}) {
      ir::Workload w = workload_of(m, k, n, dtype);
      auto math = measure::make_device_math(*device, w);
      ASSERT_TRUE(math);
      for (Family family : measure::families()) {
        Inputs inputs(*device, w, family);
        std::vector<const measure::Tensor*> tensors;
        for (const auto& t : inputs.tensors) tensors.push_back(&t);
        const std::vector<double> host = measure::evaluate_exact(w, w.extents, tensors)[0];
        measure::DeviceMath::Result result = math->evaluate(inputs.pointers);
        std::vector<double> got(host.size());
        device->download(got.data(), result.outputs[0].exact->data(), got.size() * 8);
        for (std::size_t i = 0; i < host.size(); ++i) {
          if (!std::isfinite(host[i])) {
            EXPECT_EQ(std::isnan(host[i]), std::isnan(got[i])) << i;
            continue;
          }
          // Sums in another order, of terms up to 1000 times the result.
          ASSERT_NEAR(got[i], host[i], 1e-9 * (1 + std::fabs(host[i])))
              << measure::name(family) << " element " << i;
        }
        EXPECT_GT(result.outputs[0].bound, result.outputs[0].reference_error);
        EXPECT_TRUE(std::isfinite(result.outputs[0].bound));
      }
    }
}

// One wrong element, one row of zeros left over, a NaN, far from any sample of rows.
TEST(DeviceMathOnGpu, SeesOneWrongElementAmongMillions) {
  TENON_REQUIRE_GPU(device);
  const std::int64_t m = 3000, k = 256, n = 1000;
  ir::Workload w = workload_of(m, k, n, ir::DType::kBF16);
  auto math = measure::make_device_math(*device, w);
  ASSERT_TRUE(math);
  Inputs inputs(*device, w, Family::kNormal);
  measure::DeviceMath::Result result = math->evaluate(inputs.pointers);
  const auto& want = result.outputs[0];
  ASSERT_EQ(want.rows, m);
  ASSERT_EQ(want.columns, n);
  std::vector<double> exact(static_cast<std::size_t>(m * n));
  device->download(exact.data(), want.exact->data(), exact.size() * 8);
  std::vector<float> y(exact.begin(), exact.end());
  auto judge = [&](const std::vector<float>& values) {
    std::vector<std::byte> bytes = measure::to_bytes(values, ir::DType::kBF16);
    auto memory = device->allocate(bytes.size());
    device->upload(memory->data(), bytes.data(), bytes.size());
    return math->compare(memory->data(), ir::DType::kBF16, want.exact->data(), want.rows,
                         want.columns, want.bound);
  };
  EXPECT_TRUE(judge(y).pass) << judge(y).reason;
  const std::size_t at = 1234 * static_cast<std::size_t>(n) + 567;
  for (float wrong : {NAN, INFINITY, y[at] + 10.0F}) {
    std::vector<float> bad = y;
    bad[at] = wrong;
    verifier::NumericReport report = judge(bad);
    EXPECT_FALSE(report.pass) << wrong;
    EXPECT_EQ(report.row, 1234) << wrong;
  }
  std::vector<float> row = y;
  std::fill_n(row.begin() + 2222 * n, n, 0.0F);
  EXPECT_FALSE(judge(row).pass);
  // Every element a little off: no element fails by itself, the row does.
  std::vector<float> shifted = y;
  for (std::int64_t j = 0; j < n; ++j)
    shifted[static_cast<std::size_t>(77 * n + j)] *= 1.0F + 3.0F * static_cast<float>(want.bound);
  verifier::NumericReport report = judge(shifted);
  EXPECT_FALSE(report.pass);
  EXPECT_EQ(report.row, 77);
}

TEST(DeviceMathOnGpu, EqualSeesTheLastByte) {
  TENON_REQUIRE_GPU(device);
  auto math = measure::make_device_math(*device, workload_of(3, 100, 7, ir::DType::kBF16));
  for (std::size_t size :
       {std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{1000003}}) {
    auto a = device->allocate(size), b = device->allocate(size);
    device->fill(a->data(), 0x5a, size);
    device->fill(b->data(), 0x5a, size);
    EXPECT_TRUE(math->equal(a->data(), b->data(), size));
    device->fill(static_cast<std::byte*>(b->data()) + size - 1, 0x5b, 1);
    EXPECT_FALSE(math->equal(a->data(), b->data(), size));
  }
}

// A kernel that is right on the rows the host samples and wrong elsewhere is refuted: the whole
// acceptance, over a plan whose result is damaged behind its back, is in fault_test for the host;
// here the device's share of it at a shape with thousands of rows must pass for a right kernel.
TEST(DeviceMathOnGpu, AcceptanceOfManyRowsUsesEveryRow) {
  TENON_REQUIRE_GPU(device);
  ir::MuGraph graph = embedded_fixture("rmsnorm_one_pass");
  ir::Workload w = workload_of(4096, 512, 1024, ir::DType::kBF16);
  auto runner = measure::make_local_runner("cuda:0", w);
  std::vector<ir::Schedule> schedules = sample_schedules(graph, w, device->info().target);
  ASSERT_FALSE(schedules.empty());
  verifier::Evidence e = runner->accept(compile(graph, schedules[0], w, device->info().target), 3);
  EXPECT_EQ(e.verdict, verifier::Verdict::kPass) << e.reason;
  EXPECT_NE(e.figures.find("every row of every family"), std::string::npos) << e.figures;
}

}  // namespace
}  // namespace tenon::test
