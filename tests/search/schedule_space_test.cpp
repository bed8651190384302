// Enumeration and ranking of schedules.
#include "search/schedule_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ir/error.h"
#include "ir/family.h"
#include "search/cost_model.h"

namespace tenon::search {
namespace {

ir::MuGraph graph_of(const std::string& kernels) {
  ir::MuGraph graph = ir::parse_mugraph(
      "mugraph rmsnorm_linear\ndims m, k, n\nattribute eps = 1e-6\n"
      "input x: T[m, k] activation\ninput g: T[k] parameter\ninput w: T[k, n] parameter\n"
      "output y: T[m, n]\n" +
      kernels);
  ir::validate(graph);
  return graph;
}

ir::MuGraph unfused() {
  return graph_of(
      "kernel norm {\n  grid m\n  load x [m: grid, k: full]\n  load g [k: full]\n"
      "  %0 = square(x)\n  %1 = sum(%0, k)\n  %2 = const(1/k)\n  %3 = mul(%1, %2)\n"
      "  %4 = const(eps)\n  %5 = add(%3, %4)\n  %6 = rsqrt(%5)\n  %7 = mul(x, %6)\n"
      "  %8 = mul(%7, g)\n  %9 = cast(%8, T)\n  store xn: T[m, k] = %9\n}\n"
      "kernel product library matmul(xn, w, k) -> y\n");
}

ir::MuGraph product(bool split) {
  std::string part = split ? "grid+loop" : "loop";
  return graph_of("kernel main {\n  grid m, n" + std::string(split ? ", split k" : "") +
                  "\n  loop k\n  load x [m: grid, k: " + part + "]\n  load w [k: " + part +
                  ", n: grid]\n  %0 = accumulate matmul(x, w, k)\n  %1 = cast(%0, T)\n"
                  "  store y = %1\n}\n");
}

ir::Workload workload(std::int64_t m, std::int64_t k, std::int64_t n,
                      ir::DType dtype = ir::DType::kBF16) {
  return ir::make_workload(ir::catalog_program("rmsnorm_linear"), {{"m", m}, {"k", k}, {"n", n}},
                           dtype);
}

TEST(ScheduleSpace, EverySchedulesIsLegalDistinctAndInOrder) {
  for (const ir::MuGraph& graph : {unfused(), product(false), product(true)})
    for (const char* name : {"sm_80", "sm_90a", "host"}) {
      ir::Workload w = workload(16, 576, 960);
      ir::Target target = ir::target_from_name(name);
      std::vector<RankedSchedule> all = schedules(graph, w, target, 300);
      ASSERT_FALSE(all.empty());
      std::set<ir::Schedule> distinct;
      for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_TRUE(distinct.insert(all[i].schedule).second);
        EXPECT_GT(all[i].estimated_us, 0);
        if (i > 0) {
          EXPECT_LE(all[i - 1].estimated_us, all[i].estimated_us + 1e-9);
        }
        EXPECT_NEAR(all[i].estimated_us, estimate_us(graph, all[i].schedule, w, target), 1e-9);
        for (std::size_t k = 0; k < graph.kernels.size(); ++k)
          EXPECT_FALSE(
              ir::illegal(ir::view(graph, k), all[i].schedule.kernels[k], w, target).has_value());
      }
    }
}

TEST(ScheduleSpace, TheCheapestCombinationsAreExact) {
  // Against the full cross product, sorted.
  ir::MuGraph graph = unfused();
  ir::Workload w = workload(16, 576, 960);
  ir::Target target = ir::target_from_name("sm_90a");
  std::vector<double> brute;
  std::vector<std::vector<double>> each;
  for (std::size_t k = 0; k < 2; ++k) {
    ir::KernelView kernel = ir::view(graph, k);
    each.emplace_back();
    for (const std::string& family : ir::families_for(kernel, w, target))
      for (const ir::KernelSchedule& s : ir::enumerate_schedules(kernel, family, w, target))
        each.back().push_back(kernel_cost(kernel, s, w, target).total_us());
  }
  for (double a : each[0])
    for (double b : each[1]) brute.push_back(a + b);
  std::sort(brute.begin(), brute.end());
  std::vector<RankedSchedule> ranked = schedules(graph, w, target, 0);
  ASSERT_EQ(ranked.size(), brute.size());
  for (std::size_t i = 0; i < brute.size(); ++i)
    EXPECT_NEAR(ranked[i].estimated_us, brute[i], 1e-9);
}

TEST(ScheduleSpace, IsDeterministicAndLimited) {
  ir::Workload w = workload(64, 4096, 6144);
  ir::Target target = ir::target_from_name("sm_80");
  std::vector<RankedSchedule> a = schedules(product(true), w, target, 20);
  std::vector<RankedSchedule> b = schedules(product(true), w, target, 20);
  ASSERT_EQ(a.size(), 20u);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].schedule, b[i].schedule);
}

TEST(ScheduleSpace, AFewSchedulesDifferInShape) {
  // The cheapest ones of all often differ in stages only; a handful must not.
  ir::MuGraph graph = product(false);
  for (const char* name : {"sm_80", "sm_90a"}) {
    ir::Workload w = workload(16, 4096, 6144);
    std::vector<RankedSchedule> few = schedules(graph, w, ir::target_from_name(name), 6);
    ASSERT_EQ(few.size(), 6u);
    std::set<std::vector<std::int64_t>> shapes;
    for (const RankedSchedule& r : few) {
      const ir::KernelSchedule& k = r.schedule.kernels[0];
      shapes.insert({k.get("tile_m", 0), k.get("tile_n", 0), k.get("columns", 0),
                     k.get("weights", 0), k.get("cluster", 0), k.get("statistics", 0),
                     k.get("ping_pong", 0), k.get("warps", 0), k.get("rows", 0)});
    }
    EXPECT_GE(shapes.size(), 4u) << name;
    // The cheapest of all is among them.
    EXPECT_EQ(few[0].schedule, schedules(graph, w, ir::target_from_name(name), 0)[0].schedule);
  }
}

TEST(ScheduleSpace, SplitGraphsAreSplitAndOthersNot) {
  ir::Workload w = workload(16, 4096, 6144);
  ir::Target target = ir::target_from_name("sm_80");
  int streams = 0;
  for (const RankedSchedule& r : schedules(product(true), w, target, 0)) {
    const bool stream = r.schedule.kernels[0].get("stream", 0) > 0;
    EXPECT_EQ(r.schedule.kernels[0].get("splits", 1) >= 2, !stream);
    streams += stream;
  }
  EXPECT_GT(streams, 0);
  for (const RankedSchedule& r : schedules(product(false), w, target, 0)) {
    EXPECT_EQ(r.schedule.kernels[0].get("splits", 1), 1);
    EXPECT_EQ(r.schedule.kernels[0].get("stream", 0), 0);
  }
}

TEST(ScheduleSpace, TinyShapesHaveSchedules) {
  for (ir::DType dtype : {ir::DType::kBF16, ir::DType::kF32})
    for (const ir::MuGraph& graph : {unfused(), product(false), product(true)})
      EXPECT_FALSE(
          schedules(graph, workload(1, 1, 1, dtype), ir::target_from_name("sm_80"), 10).empty());
}

TEST(ScheduleSpace, SaysWhyThereIsNone) {
  // A sum along the columns next to a product has no lowering.
  ir::MuGraph graph = graph_of(
      "kernel main {\n  grid m, n\n  load x [m: grid, k: full]\n  load w [k: full, n: grid]\n"
      "  %0 = matmul(x, w, k)\n  %1 = sum(w, k)\n  %2 = broadcast(%1, [m: grid, n: grid])\n"
      "  %3 = mul(%0, %2)\n  %4 = cast(%3, T)\n  store y = %4\n}\n");
  std::string why;
  EXPECT_TRUE(
      schedules(graph, workload(16, 64, 64), ir::target_from_name("sm_80"), 10, &why).empty());
  EXPECT_EQ(why, "kernel main: a sum along the columns of a kernel with a product");
}

TEST(CostModel, FollowsTheColdReadCurve) {
  // Measured on an H200 (docs/performance.md): 50.3 MB in 12.9 µs, 235 MB in 54.5 µs.
  ir::Target target = ir::target_from_name("sm_90a");
  EXPECT_NEAR(cold_read_us(50.3e6, target), 12.9, 0.6);
  EXPECT_NEAR(cold_read_us(235e6, target), 54.5, 2.5);
}

TEST(CostModel, NoScheduleBeatsTheFloor) {
  ir::Target target = ir::target_from_name("sm_90a");
  ir::Workload w = workload(16, 4096, 6144);
  double bytes = 2.0 * (4096 * 6144 + 16 * 4096 + 16 * 6144);
  for (const RankedSchedule& r : schedules(product(false), w, target, 0))
    EXPECT_GE(r.estimated_us, bytes / (target.memory_tb_per_s * 1e6));
  // 2·M·N·K at the tensor cores' full rate, which a burst from a cool card exceeds by 4%.
  ir::Workload large = workload(4096, 4096, 6144);
  double flops_us = 2.0 * 4096 * 4096 * 6144 / (target.matrix_tflops * 1e6);
  for (const RankedSchedule& r : schedules(product(false), large, target, 0))
    EXPECT_GE(r.estimated_us, 0.95 * flops_us);
}

TEST(CostModel, MoreWorkTakesLonger) {
  ir::Target target = ir::target_from_name("sm_80");
  ir::Schedule s = ir::parse_schedule("contraction(stages=3, tile_k=64, tile_m=64, tile_n=64)");
  double small = estimate_us(product(false), s, workload(64, 4096, 4096), target);
  EXPECT_LT(small, estimate_us(product(false), s, workload(256, 4096, 4096), target));
  EXPECT_LT(small, estimate_us(product(false), s, workload(64, 8192, 4096), target));
}

TEST(CostModel, IllegalSchedulesAreErrors) {
  EXPECT_THROW(estimate_us(product(false), ir::parse_schedule("contraction(tile_m=5)"),
                           workload(16, 64, 64), ir::target_from_name("sm_80")),
               UserError);
}

}  // namespace
}  // namespace tenon::search
