// The families of sm_90a: plans and cubins of schedules drawn from the whole space.
#include <gtest/gtest.h>

#include <ostream>

#include "codegen/codegen.h"
#include "fixtures.h"
#include "ir/hopper_family.h"

namespace tenon::codegen {
namespace {

using testing::Fixture;
using testing::fixture;

struct Setting {
  std::string fixture, family;
  std::int64_t m, k, n;
  friend void PrintTo(const Setting& s, std::ostream* out) {
    *out << s.family << " " << s.fixture << " " << s.m << "x" << s.k << "x" << s.n;
  }
};

// Kernels that each family takes, at shapes where it is meant to be used and at ragged ones.
const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {
      {"rmsnorm_one_pass", "small_m", 1, 4096, 6144},
      {"rmsnorm_one_pass", "small_m", 16, 576, 960},
      {"rmsnorm_split_k", "small_m", 16, 7168, 2112},
      {"rmsnorm_deferred_scale", "small_m", 5, 1000, 100},
      {"rmsnorm_one_pass", "multicast", 64, 4096, 6144},
      {"rmsnorm_one_pass", "gemm", 256, 4096, 6144},
      {"rmsnorm_one_pass", "gemm", 4096, 7168, 2112},
      {"rmsnorm_deferred_scale", "gemm", 1024, 1024, 2048},
      {"rmsnorm_split_k", "gemm", 128, 4096, 6144},
  };
  return all;
}

// `count` legal schedules spread over those of the last kernel; the other kernels' defaults.
std::vector<ir::Schedule> schedules(const Fixture& f, const std::string& family,
                                    const ir::Workload& w, const ir::Target& t, std::size_t count) {
  std::size_t last = f.graph.kernels.size() - 1;
  std::vector<ir::KernelSchedule> legal =
      ir::enumerate_schedules(ir::view(f.graph, last), family, w, t);
  std::vector<ir::Schedule> out;
  for (std::size_t i = 0; i < std::min(count, legal.size()); ++i) {
    ir::Schedule s = testing::default_schedule(f, w, t);
    s.kernels[last] = legal[legal.size() * i / std::min(count, legal.size())];
    out.push_back(s);
  }
  return out;
}

class Hopper : public ::testing::TestWithParam<Setting> {};

TEST_P(Hopper, PlansRoundTrip) {
  const Setting& p = GetParam();
  Fixture f = fixture(p.fixture);
  ir::Target t = ir::target_from_name("sm_90a");
  ir::Workload w = testing::workload(f, p.m, p.k, p.n, ir::DType::kBF16);
  std::vector<ir::Schedule> some = schedules(f, p.family, w, t, 40);
  ASSERT_FALSE(some.empty());
  for (const ir::Schedule& s : some) {
    Generated g = generate(f.graph, s, w, t);
    std::string text = ir::print(g.plan);
    ASSERT_EQ(ir::print(ir::parse_plan(text)), text) << ir::print(s);
    EXPECT_LE(g.plan.main.back().shared_bytes, t.shared_bytes_per_block);
  }
}

TEST_P(Hopper, CompilesWithoutSpills) {
  std::string why;
  if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  const Setting& p = GetParam();
  Fixture f = fixture(p.fixture);
  ir::Target t = ir::target_from_name("sm_90a");
  ir::Workload w = testing::workload(f, p.m, p.k, p.n, ir::DType::kBF16);
  for (ir::Schedule s : schedules(f, p.family, w, t, 2)) {
    for (bool dependent : {false, true}) {
      s.dependent_launch = dependent;
      Generated g = generate(f.graph, s, w, t);
      for (const Source& source : g.sources) {
        Compiled c = compile(source, t);
        ASSERT_TRUE(c.ok) << ir::print(s) << "\n" << c.log;
        for (const KernelResources& r : c.resources)
          EXPECT_EQ(r.spill_bytes, 0) << r.entry << " " << ir::print(s);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Hopper, ::testing::ValuesIn(settings()), [](const auto& p) {
  return p.param.family + "_" + p.param.fixture + "_" + std::to_string(p.param.m) + "_" +
         std::to_string(p.param.k) + "_" + std::to_string(p.param.n);
});

TEST(HopperFamilies, AreOfSm90aOnly) {
  Fixture f = fixture("rmsnorm_one_pass");
  ir::Workload w = testing::workload(f, 16, 4096, 6144, ir::DType::kBF16);
  for (const char* family : {"small_m", "multicast", "gemm"}) {
    EXPECT_TRUE(ir::is_hopper_family(family));
    for (const char* target : {"sm_80", "sm_90", "host"})
      EXPECT_TRUE(ir::illegal(ir::view(f.graph, 0), {family, {}}, w, ir::target_from_name(target))
                      .has_value())
          << family << " " << target;
  }
}

TEST(HopperFamilies, OperandsThatNeedArithmeticAreRefused) {
  for (const char* name :
       {"rmsnorm_prologue", "gamma_on_weights", "gamma_on_activations", "gated"}) {
    Fixture f = fixture(name);
    ir::Workload w = testing::workload(f, 16, 4096, 6144, ir::DType::kBF16);
    for (const char* family : {"small_m", "multicast", "gemm"})
      EXPECT_TRUE(
          ir::enumerate_schedules(ir::view(f.graph, 0), family, w, ir::target_from_name("sm_90a"))
              .empty())
          << name << " " << family;
  }
}

}  // namespace
}  // namespace tenon::codegen
