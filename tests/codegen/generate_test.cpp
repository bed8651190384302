// Sources and launch plans, without a compiler.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/codegen.h"
#include "codegen/expression.h"
#include "fixtures.h"

namespace tenon::codegen {
namespace {

using testing::Fixture;
using testing::fixture;

Generated generated(const std::string& name, const std::string& target, ir::DType dtype,
                    std::int64_t m = 16, std::int64_t k = 576, std::int64_t n = 960) {
  Fixture f = fixture(name);
  ir::Workload w = testing::workload(f, m, k, n, dtype);
  ir::Target t = ir::target_from_name(target);
  return generate(f.graph, testing::default_schedule(f, w, t), w, t);
}

std::string rejection(const std::string& name, const ir::Schedule& schedule,
                      const std::string& target) {
  Fixture f = fixture(name);
  ir::Workload w = testing::workload(f, 16, 576, 960, ir::DType::kBF16);
  try {
    generate(f.graph, schedule, w, ir::target_from_name(target));
  } catch (const Rejected& e) {
    return e.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Generate, PlansRoundTripAndAreComplete) {
  for (const std::string& name : testing::fixture_names()) {
    for (const char* target : {"sm_80", "sm_90a", "host"}) {
      Generated g = generated(name, target, ir::DType::kBF16);
      std::string text = ir::print(g.plan);
      EXPECT_EQ(ir::print(ir::parse_plan(text)), text) << name << " " << target;
      EXPECT_EQ(g.sources.size(), g.plan.modules.size());
      Fixture f = fixture(name);
      EXPECT_EQ(g.plan.main.size(), f.graph.kernels.size());
      EXPECT_EQ(g.plan.input_count, static_cast<int>(f.graph.signature.inputs.size()));
      for (std::size_t i = 0; i < f.graph.signature.inputs.size(); ++i)
        EXPECT_EQ(g.plan.buffers[i].name, f.graph.signature.inputs[i].name);
      EXPECT_EQ(ir::identity(ir::parse_mugraph(g.plan.mugraph)), ir::identity(f.graph));
    }
  }
}

TEST(Generate, EveryEntryIsLaunchedWithAsManyArgumentsAsItTakes) {
  for (const std::string& name : testing::fixture_names()) {
    Generated g = generated(name, "sm_90a", ir::DType::kBF16);
    for (const auto* launches : {&g.plan.prepare, &g.plan.main})
      for (const ir::Launch& launch : *launches) {
        if (launch.kind != ir::LaunchKind::kCubin) continue;
        const std::string& text = g.sources[static_cast<std::size_t>(launch.module)].text;
        std::size_t at = text.find(" " + launch.entry + "(");
        ASSERT_NE(at, std::string::npos) << launch.entry;
        std::string parameters = text.substr(at, text.find(')', at) - at);
        EXPECT_EQ(std::count(parameters.begin(), parameters.end(), ',') + 1,
                  static_cast<long>(launch.args.size()))
            << name;
      }
  }
}

TEST(Generate, SourcesAreReadable) {
  Generated g = generated("rmsnorm_one_pass", "sm_90a", ir::DType::kBF16);
  ASSERT_EQ(g.sources.size(), 2u);
  const std::string& text = g.sources[0].text;
  EXPECT_EQ(text.rfind("// mugraph rmsnorm_linear\n", 0), 0u);
  EXPECT_TRUE(has(text, "//   %2 = accumulate matmul(x, wg, k)\n"));
  EXPECT_TRUE(has(text, "// schedule contraction("));
  EXPECT_TRUE(has(text, "#include \"device/portable/contraction.cuh\""));
  // The statistics and the epilogue in the shape that every family takes.
  EXPECT_TRUE(has(text, "void accumulate(float (&s)[kCount], float x)"));
  EXPECT_TRUE(has(text, "float apply(const Args& args, const Row& row, float acc, int m, int n)"));
  EXPECT_TRUE(has(text, "rsqrtf("));
  // 1/576 and ε as literals of the nearest float.
  EXPECT_TRUE(has(text, "0.00173611112f"));
  EXPECT_TRUE(has(text, "9.99999997e-07f"));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 220);
  // The prepare module folds γ with the rounding that the graph writes down.
  EXPECT_TRUE(has(g.sources[1].text, "round_to<Bf16>("));
}

TEST(Generate, TypesFollowTheWorkload) {
  EXPECT_TRUE(
      has(generated("rmsnorm_one_pass", "sm_80", ir::DType::kF16).sources[0].text, "Fp16* y"));
  std::string fp32 = generated("rmsnorm_one_pass", "sm_80", ir::DType::kF32).sources[0].text;
  EXPECT_TRUE(has(fp32, "float* y"));
  EXPECT_TRUE(has(fp32, "FmaTile<K>"));
  EXPECT_FALSE(has(fp32, "round_to"));
}

TEST(Generate, MIsDynamicUpToTheEndOfItsBucket) {
  struct Expected {
    std::int64_t m, high;
  };
  for (const Expected& e :
       std::vector<Expected>{{1, 1}, {2, 2}, {3, 4}, {16, 16}, {17, 24}, {4096, 4096}}) {
    Generated g = generated("rmsnorm_one_pass", "sm_80", ir::DType::kBF16, e.m);
    EXPECT_EQ(g.plan.m_min, 1) << e.m;
    EXPECT_EQ(g.plan.m_max, e.high) << e.m;
  }
  Generated g = generated("rmsnorm_one_pass", "sm_80", ir::DType::kBF16, 100);
  // Tiles of 64 × 64: ⌈m / 64⌉ × 15.
  std::int64_t extents[] = {100, 576, 960};
  EXPECT_EQ(g.plan.main[0].grid[0].evaluate(extents), 2 * 15);
  extents[0] = 65;
  EXPECT_EQ(g.plan.main[0].grid[0].evaluate(extents), 2 * 15);
  extents[0] = 64;
  EXPECT_EQ(g.plan.main[0].grid[0].evaluate(extents), 15);
}

TEST(Generate, SplitReductionsHaveAWorkspace) {
  Fixture f = fixture("rmsnorm_split_k");
  ir::Workload w = testing::workload(f, 16, 576, 960, ir::DType::kBF16);
  Generated g = generate(f.graph, ir::parse_schedule("contraction(splits=3)"), w,
                         ir::target_from_name("sm_80"));
  std::int64_t extents[] = {16, 576, 960};
  const ir::Buffer* partials = nullptr;
  const ir::Buffer* counters = nullptr;
  for (const ir::Buffer& b : g.plan.buffers) {
    if (b.name == "main.partials") partials = &b;
    if (b.name == "main.counters") counters = &b;
  }
  ASSERT_NE(partials, nullptr);
  ASSERT_NE(counters, nullptr);
  EXPECT_EQ(partials->role, ir::BufferRole::kWorkspace);
  // 3 parts × 15 tiles × (64 × 64 products + 64 sums).
  EXPECT_EQ(partials->elements.evaluate(extents), 3 * 15 * (64 * 64 + 64));
  EXPECT_EQ(counters->elements.evaluate(extents), 15);
  EXPECT_EQ(g.plan.main[0].grid[1].evaluate(extents), 3);
}

TEST(Generate, LibraryProductsAreLaunches) {
  Generated g = generated("rmsnorm_unfused", "sm_80", ir::DType::kBF16);
  ASSERT_EQ(g.plan.main.size(), 2u);
  const ir::Launch& product = g.plan.main[1];
  EXPECT_EQ(product.kind, ir::LaunchKind::kLibrary);
  EXPECT_EQ(g.plan.buffers[static_cast<std::size_t>(product.a)].name, "xn");
  EXPECT_EQ(g.plan.buffers[static_cast<std::size_t>(product.b)].name, "w");
  EXPECT_EQ(g.plan.buffers[static_cast<std::size_t>(product.out)].name, "y");
  EXPECT_FALSE(product.b_transposed);
  EXPECT_TRUE(g.plan.prepare.empty());
}

TEST(Generate, PreparedValuesAreMadeOnce) {
  Generated g = generated("layernorm_folded", "sm_80", ir::DType::kBF16);
  // Σ_k wg and Σ_k b·w have tensors of their own, then wg, s and t are stored.
  EXPECT_EQ(g.plan.prepare.size(), 5u);
  for (const ir::Buffer& b : g.plan.buffers) {
    if (b.name == "w" || b.name == "prepare.0") {
      EXPECT_FALSE(b.in_main) << b.name;
    }
    if (b.name == "wg" || b.name == "s" || b.name == "t") {
      EXPECT_TRUE(b.in_main) << b.name;
      EXPECT_EQ(b.role, ir::BufferRole::kPrepared);
    }
  }
}

TEST(Generate, HostPlansNameKernels) {
  Generated g = generated("rmsnorm_deferred_scale", "host", ir::DType::kF32);
  EXPECT_TRUE(g.sources.empty());
  ASSERT_EQ(g.plan.prepare.size(), 1u);
  EXPECT_EQ(g.plan.prepare[0].entry, "prepare");
  ASSERT_EQ(g.plan.main.size(), 2u);
  EXPECT_EQ(g.plan.main[1].kind, ir::LaunchKind::kHost);
  EXPECT_EQ(g.plan.main[1].entry, "1");
}

TEST(Generate, DependentLaunchReachesKernelsAndPlan) {
  Fixture f = fixture("rmsnorm_deferred_scale");
  ir::Workload w = testing::workload(f, 16, 576, 960, ir::DType::kBF16);
  ir::Target t = ir::target_from_name("sm_90a");
  ir::Schedule s = testing::default_schedule(f, w, t);
  s.dependent_launch = true;
  Generated g = generate(f.graph, s, w, t);
  EXPECT_TRUE(g.plan.dependent_launch);
  for (const ir::Launch& launch : g.plan.main) EXPECT_TRUE(launch.dependent);
  for (const ir::Launch& launch : g.plan.prepare) EXPECT_FALSE(launch.dependent);
  EXPECT_TRUE(has(g.sources[0].text, "kDependent = true"));
}

TEST(Generate, IllegalSchedulesAreRejectedWithReasons) {
  EXPECT_EQ(rejection("rmsnorm_one_pass", ir::parse_schedule("contraction(tile_m=20)"), "sm_80"),
            "kernel main: tile_m=20 is not a multiple of 16 rows for each of 2 warps");
  EXPECT_EQ(rejection("rmsnorm_deferred_scale", ir::parse_schedule("rows"), "sm_80"),
            "the schedule has 1 kernels and the µGraph 2");
  EXPECT_EQ(rejection("rmsnorm_one_pass", ir::parse_schedule("contraction dependent"), "sm_80"),
            "dependent launch needs sm_90 or later, not sm_80");
}

TEST(Generate, GraphsWithoutALoweringAreRejectedWithReasons) {
  ir::MuGraph graph = testing::rmsnorm_graph(
      "kernel main {\n  grid m, n\n  load x [m: grid, k: full]\n  load w [k: full, n: grid]\n"
      "  %0 = matmul(x, w, k)\n  %1 = sum(w, k)\n  %2 = broadcast(%1, [m: grid, n: grid])\n"
      "  %3 = mul(%0, %2)\n  %4 = cast(%3, T)\n  store y = %4\n}\n");
  ir::validate(graph);
  Fixture f = fixture("rmsnorm_one_pass");
  ir::Workload w = testing::workload(f, 16, 576, 960, ir::DType::kBF16);
  try {
    generate(graph, ir::parse_schedule("contraction"), w, ir::target_from_name("sm_80"));
    FAIL() << "lowered";
  } catch (const Rejected& e) {
    EXPECT_STREQ(e.what(), "kernel main: a sum along the columns of a kernel with a product");
  }
}

TEST(Expression, LiteralsReadBackAsTheNearestFloat) {
  EXPECT_EQ(literal(1.0), "1.0f");
  EXPECT_EQ(literal(0.5), "0.5f");
  EXPECT_EQ(literal(1e-6), "9.99999997e-07f");
  for (double v : {1.0 / 3, 1.0 / 576, 1e-30, 3e38, -2.5, 16777217.0})
    EXPECT_EQ(std::stof(literal(v)), static_cast<float>(v));
}

}  // namespace
}  // namespace tenon::codegen
