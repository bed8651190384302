// Kernels that misbehave: a device whose launches go through the host's and then do harm.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "host_plan.h"
#include "ir/error.h"
#include "measure/accept.h"

namespace tenon::measure {
namespace {

struct Call {
  const void* const* inputs;
  void* const* outputs;
  std::int64_t m;
  int index;  // counts launches
};
using Harm = std::function<void(const Call&)>;

class HarmfulExecutable final : public runtime::Executable {
 public:
  HarmfulExecutable(std::unique_ptr<runtime::Executable> inner, Harm harm)
      : inner_(std::move(inner)), harm_(std::move(harm)) {}
  const ir::LaunchPlan& plan() const override { return inner_->plan(); }
  void prepare(const std::vector<const void*>& inputs, runtime::StreamHandle s) override {
    inner_->prepare(inputs, s);
  }
  void launch(const void* const* inputs, void* const* outputs, std::int64_t m,
              runtime::StreamHandle s, bool dependent) override {
    inner_->launch(inputs, outputs, m, s, dependent);
    harm_({inputs, outputs, m, count_++});
  }
  std::unique_ptr<Executable> replicate() const override {
    return std::make_unique<HarmfulExecutable>(inner_->replicate(), harm_);
  }

 private:
  std::unique_ptr<runtime::Executable> inner_;
  Harm harm_;
  int count_ = 0;
};

class HarmfulDevice final : public runtime::Device {
 public:
  explicit HarmfulDevice(Harm harm) : host_(runtime::open_device("host")), harm_(std::move(harm)) {}
  const runtime::DeviceInfo& info() const override { return host_->info(); }
  std::unique_ptr<runtime::Memory> allocate(std::size_t bytes) override {
    return host_->allocate(bytes);
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    host_->upload(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    host_->download(to, from, bytes);
  }
  void fill(void* to, std::uint8_t value, std::size_t bytes) override {
    host_->fill(to, value, bytes);
  }
  void synchronize() override { host_->synchronize(); }
  std::unique_ptr<runtime::Executable> load(const ir::LaunchPlan& plan,
                                            const std::vector<std::string>& cubins) override {
    return std::make_unique<HarmfulExecutable>(host_->load(plan, cubins), harm_);
  }

 private:
  std::unique_ptr<runtime::Device> host_;
  Harm harm_;
};

constexpr std::int64_t kM = 6, kK = 80, kN = 500;

verifier::Evidence accept_with(const Harm& harm) {
  test::Dims dims{{"m", kM}, {"k", kK}, {"n", kN}};
  ir::MuGraph graph = test::fixture("rmsnorm_one_pass");
  Expectations expected(
      ir::make_workload(ir::catalog_program("rmsnorm_linear"), dims, ir::DType::kF32), 3);
  HarmfulDevice device(harm);
  return accept(device, expected, {test::host_plan(graph, dims, ir::DType::kF32, {"host", {}}), {}},
                3);
}

float* output(const Call& c) { return static_cast<float*>(c.outputs[0]); }
float* input(const Call& c, int i) {
  return const_cast<float*>(static_cast<const float*>(c.inputs[i]));
}

void expect_refuted(const Harm& harm, const std::string& reason) {
  verifier::Evidence e = accept_with(harm);
  EXPECT_EQ(e.verdict, verifier::Verdict::kRefuted) << e.reason;
  EXPECT_NE(e.reason.find(reason), std::string::npos) << e.reason;
}

TEST(Faults, NoHarmPasses) {
  verifier::Evidence e = accept_with([](const Call&) {});
  EXPECT_EQ(e.verdict, verifier::Verdict::kPass) << e.reason;
}

TEST(Faults, StrayWriteBehindAnOutput) {
  expect_refuted([](const Call& c) { output(c)[c.m * kN] = 1; },
                 "stray write at byte " + std::to_string(kM * kN * 4) + " of tensor y");
}
TEST(Faults, StrayWriteBeforeAnInput) {
  expect_refuted([](const Call& c) { input(c, 0)[-2] = 1; }, "stray write at byte -8 of tensor x");
}
TEST(Faults, StrayWriteBehindAParameter) {
  expect_refuted([](const Call& c) { input(c, 2)[kK * kN + 100] = 1; }, "of tensor w");
}
TEST(Faults, InputOverwritten) {
  expect_refuted(
      [](const Call& c) {
        if (c.index % 2) input(c, 0)[3] += 1;
      },
      "input x was overwritten");
}
TEST(Faults, ParameterOverwritten) {
  expect_refuted([](const Call& c) { input(c, 1)[0] += 1; }, "g was overwritten");
}
TEST(Faults, SecondLaunchDiffers) {
  expect_refuted(
      [](const Call& c) {
        if (c.index % 2) output(c)[0] *= 1.0000002f;
      },
      "differs between two launches");
}
TEST(Faults, OneElementZeroed) {
  expect_refuted([](const Call& c) { output(c)[c.m * kN - 3] = 0; }, "column 497");
}
TEST(Faults, OneElementNotWritten) {
  expect_refuted([](const Call& c) { output(c)[7] = std::numeric_limits<float>::quiet_NaN(); },
                 "column 7");
}
TEST(Faults, WrongOnlyForOtherM) {
  expect_refuted(
      [](const Call& c) {
        if (c.m > kM) output(c)[(c.m - 1) * kN] += 1;
      },
      "m=7");
}
// An address that is a multiple of the element only.
bool off_alignment(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 != 0; }
TEST(Faults, WrongOnlyWhereTheOutputIsNotAligned) {
  expect_refuted(
      [](const Call& c) {
        if (off_alignment(c.outputs[0])) output(c)[kN + 2] *= 1.5f;
      },
      "misaligned (m=6)");
}
TEST(Faults, WrongOnlyWhereTheInputIsNotAligned) {
  expect_refuted(
      [](const Call& c) {
        if (off_alignment(c.inputs[0])) output(c)[kN + 2] *= 1.5f;
      },
      "misaligned (m=6)");
}
TEST(Faults, WrongOnlyForTinyInputsThatAreNotAligned) {
  expect_refuted(
      [](const Call& c) {
        const auto* x = static_cast<const float*>(c.inputs[0]);
        if (off_alignment(x) && std::abs(x[0]) < 1e-3f) output(c)[kN + 2] *= 1.5f;
      },
      "misaligned_tiny (m=6)");
}
TEST(Faults, StrayWriteBeforeAnOutputThatIsNotAligned) {
  expect_refuted(
      [](const Call& c) {
        if (off_alignment(c.outputs[0])) output(c)[-1] = 1;
      },
      "stray write at byte -4 of tensor y");
}
TEST(Faults, LaunchFailureIsNoPass) {
  verifier::Evidence e = accept_with([](const Call& c) {
    if (c.index == 5) throw DeviceError("an illegal address");
  });
  EXPECT_EQ(e.verdict, verifier::Verdict::kUnknown);
  EXPECT_EQ(e.reason, "launch_error: an illegal address");
}

}  // namespace
}  // namespace tenon::measure
