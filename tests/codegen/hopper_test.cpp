// The families of sm_90a: plans and cubins of schedules drawn from the whole space.
#include <gtest/gtest.h>

#include <map>
#include <ostream>

#include "codegen/codegen.h"
#include "fixtures.h"
#include "ir/hopper_family.h"
#include "ir/layout.h"
#include "ir/weights.h"

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

// Rows summed by spare blocks: the code before the tiles costs no register of the tiles.
TEST(HopperFamilies, SpareBlocksCompileWithoutSpills) {
  std::string why;
  if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  ir::Target t = ir::target_from_name("sm_90a");
  struct Case {
    const char* fixture;
    std::int64_t m;
    const char* schedule;
  };
  for (const auto& [name, m, text] : {
           Case{"rmsnorm_one_pass", 4096,
                "gemm(statistics=5, tile_m=128, tile_n=96, stages=7, consumers=1)"},
           Case{"rmsnorm_one_pass", 4096,
                "gemm(statistics=5, tile_m=128, tile_n=192, stages=5, ping_pong=1, cluster_m=2)"},
           Case{"rmsnorm_one_pass", 4096,
                "gemm(statistics=5, tile_m=256, tile_n=192, stages=3, cluster_n=2)"},
           Case{"rmsnorm_split_k", 64,
                "gemm(statistics=5, tile_m=64, tile_n=96, stages=8, consumers=1, split_k=2)"},
       }) {
    Fixture f = fixture(name);
    ir::Workload w = testing::workload(f, m, 4096, 6144, ir::DType::kBF16);
    ir::Schedule s = ir::parse_schedule(text);
    ASSERT_FALSE(ir::illegal(ir::view(f.graph, 0), s.kernels[0], w, t).has_value()) << text;
    Generated g = generate(f.graph, s, w, t);
    // Every block that fits, whatever m: some are spare.
    EXPECT_EQ(g.plan.main.back().grid[0].text(), "132") << text;
    for (const Source& source : g.sources) {
      Compiled c = compile(source, t);
      ASSERT_TRUE(c.ok) << text << "\n" << c.log;
      for (const KernelResources& r : c.resources) EXPECT_EQ(r.spill_bytes, 0) << text;
    }
  }
}

TEST(HopperFamilies, SpareBlocksAreRefusedWhereNoneExistOrARowIsLargerThanAStage) {
  Fixture f = fixture("rmsnorm_one_pass");
  Fixture split = fixture("rmsnorm_split_k");
  ir::Target t = ir::target_from_name("sm_90a");
  auto reason = [&](const Fixture& graph, std::int64_t k, const char* text) {
    ir::Workload w = testing::workload(graph, 4096, k, 6144, ir::DType::kBF16);
    return ir::illegal(ir::view(graph.graph, 0), ir::parse_schedule(text).kernels[0], w, t);
  };
  // 64 rows: 64 tiles in two parts, and four blocks over; 4096 rows have no such block.
  const char* parts = "gemm(statistics=5, tile_m=64, tile_n=96, consumers=1, split_k=2)";
  ir::Workload few = testing::workload(split, 64, 4096, 6144, ir::DType::kBF16);
  EXPECT_FALSE(ir::illegal(ir::view(split.graph, 0), ir::parse_schedule(parts).kernels[0], few, t)
                   .has_value());
  EXPECT_TRUE(reason(split, 4096, parts).has_value());
  // 520 rows are 5 x 10 tiles in two parts, 100 blocks; but the plan serves up to 1024 rows, 160.
  for (int statistics : {2, 3, 5}) {
    const std::string more =
        "gemm(statistics=" + std::to_string(statistics) + ", tile_m=128, tile_n=96, split_k=2)";
    for (auto [n, legal] : {std::pair{576, true}, {960, false}}) {
      ir::Workload w = testing::workload(split, 520, 4096, n, ir::DType::kBF16);
      EXPECT_EQ(!ir::illegal(ir::view(split.graph, 0), ir::parse_schedule(more).kernels[0], w, t)
                     .has_value(),
                legal)
          << more << " " << n;
    }
  }
  // 256 rows of 64 columns are 32 KB: a row of 16,384 elements and not of 8 more.
  const char* tile = "gemm(statistics=5, tile_m=128, tile_n=128, stages=4)";
  EXPECT_FALSE(reason(f, 16384, tile).has_value());
  EXPECT_TRUE(reason(f, 16392, tile).has_value());
}

// Slices of k that tiles sum for each other: which there are, that they cost no spills, and what
// room the exchange has.
TEST(HopperFamilies, SlicesOfKAreRefusedOrCompileWithoutSpills) {
  Fixture f = fixture("rmsnorm_one_pass");
  const ir::Target t = ir::target_from_name("sm_90a");
  const ir::Workload w = testing::workload(f, 4096, 7168, 2112, ir::DType::kBF16);
  const std::string pair =
      "gemm(statistics=3, tile_m=128, tile_n=176, stages=5, ping_pong=1, group=11, "
      "producer_registers=56, ";
  const std::string clusters =
      "gemm(statistics=3, tile_m=256, tile_n=192, stages=3, cluster_n=2, "
      "producer_registers=56, ";
  for (const auto& [rest, legal] : {std::pair{"slices=12, rotate=0)", true},
                                    {"slices=12, rotate=1)", true},
                                    {"slices=12, rotate=2)", true},
                                    {"slices=12, rotate=3)", false},
                                    {"slices=64)", true},
                                    {"slices=68)", false},
                                    {"slices=10)", false}})
    for (const std::string& text : {pair + rest, clusters + rest}) {
      const ir::Schedule s = ir::parse_schedule(text);
      ASSERT_EQ(!ir::illegal(ir::view(f.graph, 0), s.kernels[0], w, t).has_value(), legal) << text;
    }
  std::string why;
  if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  // 300 rows are 3 or 2 tiles of rows; a row has 12 slices and their sum, of 2 words each.
  for (const auto& [text, rows] :
       {std::pair{pair + "slices=12, rotate=2)", 384}, {clusters + "slices=12, rotate=2)", 512}}) {
    Generated g = generate(f.graph, ir::parse_schedule(text), w, t);
    int workspaces = 0;
    for (const ir::Buffer& b : g.plan.buffers)
      if (b.role == ir::BufferRole::kWorkspace) {
        ++workspaces;
        const std::int64_t extents[] = {300, 7168, 2112};
        EXPECT_EQ(b.elements.evaluate(extents), 4 + rows * 13 * 2);
      }
    EXPECT_EQ(workspaces, 1);
    for (const Source& source : g.sources) {
      Compiled c = compile(source, t);
      ASSERT_TRUE(c.ok) << text << "\n" << c.log;
      for (const KernelResources& r : c.resources) EXPECT_EQ(r.spill_bytes, 0) << text;
    }
  }
}

// The copy engines read rows that begin at multiples of 16 bytes: others pass through a copy.
TEST(HopperFamilies, RowsThatTheCopyEnginesCannotReadAreCopiedBefore) {
  Fixture f = fixture("rmsnorm_one_pass");
  const ir::Target t = ir::target_from_name("sm_90a");
  for (const auto& [k, launches] : {std::pair{1000, 1}, {1001, 2}, {1002, 2}, {1004, 2}}) {
    ir::Workload w = testing::workload(f, 300, k, 500, ir::DType::kBF16);
    ir::Schedule s = ir::parse_schedule("gemm(statistics=2, tile_m=128, tile_n=96, stages=5)");
    ASSERT_FALSE(ir::illegal(ir::view(f.graph, 0), s.kernels[0], w, t).has_value()) << k;
    Generated g = generate(f.graph, s, w, t);
    ASSERT_EQ(static_cast<int>(g.plan.main.size()), launches) << k;
    const ir::TensorMapSpec& x = g.plan.tensor_maps[0];
    EXPECT_EQ(x.row_stride, (k + 7) / 8 * 8);
    EXPECT_EQ(x.columns, x.row_stride);
    const ir::Buffer& from = g.plan.buffers[static_cast<std::size_t>(x.buffer)];
    EXPECT_EQ(from.role, launches == 2 ? ir::BufferRole::kWorkspace : ir::BufferRole::kActivation);
    if (launches == 2) {
      const std::int64_t extents[] = {7, k, 500};
      EXPECT_EQ(from.elements.evaluate(extents), 7 * ((k + 7) / 8 * 8));
    }
  }
}

// Rows are shared out over the tiles that they need at least, in atoms of 8 for each block that
// loads a part.
TEST(HopperFamilies, RowsAreSharedOutEvenlyOverTiles) {
  Fixture f = fixture("rmsnorm_one_pass");
  const ir::Target t = ir::target_from_name("sm_90a");
  ir::Workload w = testing::workload(f, 300, 512, 512, ir::DType::kBF16);
  struct Case {
    const char* schedule;
    std::int64_t m, tile_rows, box_rows;
  };
  for (const Case& c : {
           Case{"gemm(statistics=2, tile_m=128, tile_n=96, stages=5)", 1, 8, 8},
           {"gemm(statistics=2, tile_m=128, tile_n=96, stages=5)", 100, 104, 104},
           {"gemm(statistics=2, tile_m=128, tile_n=96, stages=5)", 128, 128, 128},
           {"gemm(statistics=2, tile_m=128, tile_n=96, stages=5)", 129, 72, 72},    // 2 tiles
           {"gemm(statistics=2, tile_m=128, tile_n=96, stages=5)", 300, 104, 104},  // 3 tiles
           // Two blocks load halves of a tile's 200 rows, 100 each: 13 atoms.
           {"gemm(cluster_n=2, statistics=2, tile_m=256, tile_n=96, stages=3)", 200, 208, 104},
           // Two tiles to a cluster: 300 rows are 3 tiles of 2 clusters, so 4 of 75 rows.
           {"gemm(cluster_m=2, statistics=2, tile_m=128, tile_n=96, stages=5)", 300, 80, 80},
       }) {
    const ir::Schedule s = ir::parse_schedule(c.schedule);
    ASSERT_FALSE(ir::illegal(ir::view(f.graph, 0), s.kernels[0], w, t).has_value()) << c.schedule;
    const Generated g = generate(f.graph, s, w, t);
    const std::int64_t extents[] = {c.m, 512, 512};
    EXPECT_EQ(g.plan.main.back().args.back().integer.evaluate(extents), c.tile_rows) << c.schedule;
    EXPECT_EQ(g.plan.tensor_maps[0].box_rows.evaluate(extents), c.box_rows) << c.schedule;
  }
}

TEST(HopperFamilies, StoresThroughShufflesNeedRowsOfWholeWords) {
  Fixture f = fixture("rmsnorm_one_pass");
  const ir::Target t = ir::target_from_name("sm_90a");
  const ir::Schedule s =
      ir::parse_schedule("gemm(statistics=2, stores=1, tile_m=128, tile_n=96, stages=5)");
  auto illegal = [&](std::int64_t n) {
    const ir::Workload w = testing::workload(f, 300, 512, n, ir::DType::kBF16);
    return ir::illegal(ir::view(f.graph, 0), s.kernels[0], w, t);
  };
  EXPECT_FALSE(illegal(504).has_value());
  ASSERT_TRUE(illegal(500).has_value());
  EXPECT_NE(illegal(500)->find("rows of y are not multiples of 16 bytes"), std::string::npos);
  // Four stages of (256 + 192) * 128 bytes fit without the staging area, and not with it.
  ir::GemmParams p;
  p.tile_m = 256, p.tile_n = 192, p.stages = 4;
  EXPECT_GT(ir::gemm_shared_bytes(p, 0), 232448);
  p.stores = 1;
  EXPECT_EQ(ir::gemm_shared_bytes(p, 0), 4 * 448 * 128 + 8 * (2 * 4 + 12));
}

TEST(HopperFamilies, WgmmaIsOfSm90aOnly) {
  Fixture f = fixture("rmsnorm_one_pass");
  ir::Workload w = testing::workload(f, 16, 4096, 6144, ir::DType::kBF16);
  for (const char* family : {"small_m", "multicast", "gemm"}) {
    EXPECT_TRUE(ir::is_hopper_family(family));
    for (const char* target : {"sm_80", "sm_90", "host"}) {
      if (family == std::string("small_m") && target != std::string("host")) continue;
      EXPECT_TRUE(ir::illegal(ir::view(f.graph, 0), {family, {}}, w, ir::target_from_name(target))
                      .has_value())
          << family << " " << target;
      EXPECT_TRUE(
          ir::enumerate_schedules(ir::view(f.graph, 0), family, w, ir::target_from_name(target))
              .empty());
    }
  }
}

// From sm_80 on: rings filled by cp.async and registers, one block a tile; smaller cards have less
// shared memory.
TEST(HopperFamilies, SmallMStreamsFromSm80On) {
  std::string why;
  const bool compiles = nvrtc_available(&why);
  for (const char* name : {"sm_80", "sm_86", "sm_90"}) {
    const ir::Target t = ir::target_from_name(name);
    for (auto [m, k, n] : {std::tuple{16, 4096, 6144}, {1, 1000, 100}, {7, 333, 70}}) {
      Fixture f = fixture("rmsnorm_one_pass");
      ir::Workload w = testing::workload(f, m, k, n, ir::DType::kBF16);
      const ir::KernelView kernel = ir::view(f.graph, 0);
      const std::vector<ir::KernelSchedule> legal =
          ir::enumerate_schedules(kernel, "small_m", w, t);
      ASSERT_GE(legal.size(), 5u) << name << " " << k;
      for (std::size_t i = 0; i < 5; ++i) {
        ir::Schedule s;
        s.kernels = {legal[(legal.size() - 1) * i / 4]};
        EXPECT_NE(s.kernels[0].get("weights", -1), 0);
        const Generated g = generate(f.graph, s, w, t);
        EXPECT_LE(g.plan.main.back().shared_bytes, t.shared_bytes_per_block);
        for (const Source& source : g.sources) {
          if (!compiles) continue;
          const Compiled c = compile(source, t);
          ASSERT_TRUE(c.ok) << name << " " << ir::print(s) << "\n" << c.log;
          for (const KernelResources& r : c.resources)
            EXPECT_EQ(r.spill_bytes, 0) << name << " " << ir::print(s);
        }
      }
      ir::KernelSchedule bulk = legal.front();
      bulk.params["weights"] = 0;
      EXPECT_EQ(ir::illegal(kernel, bulk, w, t).value_or(""),
                std::string("clusters and bulk copies need sm_90a, not ") + name);
    }
    Fixture split = fixture("rmsnorm_split_k");
    ir::Workload w = testing::workload(split, 16, 7168, 2112, ir::DType::kBF16);
    EXPECT_TRUE(ir::enumerate_schedules(ir::view(split.graph, 0), "small_m", w, t).empty());
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

// A norm kernel, then a product with W as nn.Linear keeps it.
ir::MuGraph unfused(const std::string& w, const std::string& load) {
  ir::MuGraph graph = ir::parse_mugraph(R"(mugraph rmsnorm_linear
dims m, k, n
attribute eps = 1e-6
input x: T[m, k] activation
input g: T[k] parameter
input w: T)" + w + R"( parameter
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
  load w )" + load + R"(
  %0 = accumulate matmul(xn, w, k)
  %1 = cast(%0, T)
  store y = %1
}
)");
  ir::validate(graph);
  return graph;
}

struct Kept {
  ir::MuGraph graph;
  ir::Workload workload;
  ir::Target target = ir::target_from_name("sm_90a");
  Kept(bool rows_are_columns, std::int64_t m, std::int64_t k, std::int64_t n, bool keep)
      : graph(rows_are_columns ? unfused("[n, k]", "[n: grid, k: loop]")
                               : unfused("[k, n]", "[k: loop, n: grid]")) {
    ir::Program program = ir::catalog_program("rmsnorm_linear");
    if (rows_are_columns) program = ir::with_layout(program, "w=n,k");
    workload = ir::make_workload(program, {{"m", m}, {"k", k}, {"n", n}}, ir::DType::kBF16);
    workload.keep_weights = keep;
  }
  std::vector<ir::KernelSchedule> schedules(const std::string& family) const {
    return ir::enumerate_schedules(ir::view(graph, 1), family, workload, target);
  }
  Generated plan(const ir::KernelSchedule& product) const {
    ir::Schedule s;
    s.kernels = {ir::default_schedule(ir::view(graph, 0), workload, target), product};
    return generate(graph, s, workload, target);
  }
};

TEST(KeepWeights, RowsOfWAreReadWhereTheyAre) {
  std::string why;
  const bool compiles = nvrtc_available(&why);
  // 1000 elements a row: whole chunks of 16 bytes, no whole lines of 128.
  for (const char* family : {"multicast", "gemm"}) {
    const Kept kept(true, 40, 1000, 100, true), free(true, 40, 1000, 100, false);
    const std::vector<ir::KernelSchedule> legal = kept.schedules(family);
    ASSERT_FALSE(legal.empty()) << family;
    EXPECT_EQ(legal.size(), free.schedules(family).size());
    const Generated g = kept.plan(legal.front());
    EXPECT_TRUE(g.plan.prepare.empty()) << family;
    const ir::HeldWeights held = ir::held_weights(g.plan);
    EXPECT_TRUE(held.copies.empty());
    EXPECT_EQ(held.prepared_bytes, 0);
    EXPECT_EQ(held.parameter_bytes, 2 * (1000 + 100 * 1000));  // g and w, two bytes each
    ASSERT_EQ(g.plan.tensor_maps.size(), 2u);
    EXPECT_EQ(g.plan.tensor_maps[1].row_stride.text(), "1000");
    EXPECT_EQ(g.plan.buffers[static_cast<std::size_t>(g.plan.tensor_maps[1].buffer)].name, "w");
    const ir::HeldWeights copied = ir::held_weights(free.plan(legal.front()).plan);
    EXPECT_EQ(copied.copies, std::vector<std::string>{"w.streamed"});
    EXPECT_EQ(copied.prepared_bytes, 2 * 100 * 1024);  // rows padded to 64 elements
    EXPECT_EQ(copied.parameter_bytes, 2 * 1000);       // g
    for (const Source& source : g.sources) {
      if (!compiles) continue;
      const Compiled c = compile(source, kept.target);
      EXPECT_TRUE(c.ok) << c.log;
      for (const KernelResources& r : c.resources) EXPECT_EQ(r.spill_bytes, 0) << r.entry;
    }
  }
}

TEST(KeepWeights, SmallMNeedsRowsOfWholeLines) {
  EXPECT_TRUE(Kept(true, 16, 1000, 100, true).schedules("small_m").empty());
  const Kept kept(true, 16, 576, 100, true);
  const std::vector<ir::KernelSchedule> legal = kept.schedules("small_m");
  ASSERT_FALSE(legal.empty());
  for (const ir::KernelSchedule& s : legal) EXPECT_EQ(s.get("weights", 0), 3);
  EXPECT_TRUE(kept.plan(legal.front()).plan.prepare.empty());
}

TEST(KeepWeights, ColumnsOfWAreLeftToThePortableFamily) {
  const Kept kept(false, 40, 1000, 100, true);
  for (const char* family : {"small_m", "multicast", "gemm"})
    EXPECT_TRUE(kept.schedules(family).empty()) << family;
  const std::vector<ir::KernelSchedule> legal = kept.schedules("contraction");
  ASSERT_FALSE(legal.empty());
  EXPECT_TRUE(ir::held_weights(kept.plan(legal.front()).plan).copies.empty());
}

TEST(KeepWeights, FoldedScalesAreCopiesAndVectorsAreNot) {
  EXPECT_EQ(ir::weight_copies(fixture("rmsnorm_one_pass").graph).size(), 1u);
  for (const char* name : {"rmsnorm_unfused", "gamma_on_weights", "gamma_on_activations"})
    EXPECT_TRUE(ir::weight_copies(fixture(name).graph).empty()) << name;
  // Prepares wg [k, n], and the vectors Wᵀg and Wᵀb.
  const ir::MuGraph layernorm = fixture("layernorm_folded").graph;
  ASSERT_GT(layernorm.prepare.outputs.size(), 1u);
  EXPECT_EQ(ir::weight_copies(layernorm).size(), 1u);
}

// Steps of prepare that plans have in common are the same text: one cubin, by which the runtime
// knows that what they make is the same.
TEST(Prepare, CommonStepsAreTheSameSource) {
  const Fixture f = fixture("rmsnorm_one_pass");
  const ir::Target t = ir::target_from_name("sm_90a");
  std::map<std::string, Generated> plans;
  for (auto [family, m] : {std::pair{"contraction", 4}, {"multicast", 40}, {"gemm", 300}}) {
    const ir::Workload w = testing::workload(f, m, 320, 200, ir::DType::kBF16);
    const auto legal = ir::enumerate_schedules(ir::view(f.graph, 0), family, w, t);
    ASSERT_FALSE(legal.empty()) << family;
    ir::Schedule s;
    s.kernels = {legal.front()};
    plans[family] = generate(f.graph, s, w, t);
  }
  const auto& [fold, rows] =
      std::pair{plans["multicast"].sources[1], plans["multicast"].sources[2]};
  ASSERT_EQ(plans["contraction"].sources.size(), 2u);
  EXPECT_EQ(plans["contraction"].sources[1].text, fold.text);
  ASSERT_EQ(plans["gemm"].sources.size(), 3u);
  EXPECT_EQ(plans["gemm"].sources[1].text, fold.text);
  EXPECT_EQ(plans["gemm"].sources[2].text, rows.text);
}

TEST(RowStrides, AreConstantsOfTheKernels) {
  const Fixture f = fixture("rmsnorm_one_pass");
  const ir::Target t = ir::target_from_name("sm_90a");
  const ir::KernelView kernel = ir::view(f.graph, 0);
  std::string why;
  const bool compiles = nvrtc_available(&why);
  for (auto [family, m] :
       {std::pair{"contraction", 20}, {"small_m", 20}, {"multicast", 40}, {"gemm", 300}})
    for (auto [x, y] : {std::pair{344, 208}, {344, 203}, {325, 203}}) {
      ir::Workload w = testing::workload(f, m, 320, 200, ir::DType::kBF16);
      w = ir::with_row_stride(ir::with_row_stride(w, "x", x), "y", y);
      const auto legal = ir::enumerate_schedules(kernel, family, w, t);
      // The copy engines take rows that begin at multiples of 16 bytes; `gemm` copies others first.
      const bool aligned = x % 8 == 0;
      ASSERT_EQ(legal.empty(), family == std::string("multicast") && !aligned) << family << x;
      if (legal.empty()) continue;
      ir::Schedule s;
      s.kernels = {legal.front()};
      const Generated g = generate(f.graph, s, w, t);
      EXPECT_EQ(g.plan.buffers[0].elements.text(), "m*" + std::to_string(x));
      EXPECT_EQ(g.plan.buffers[3].elements.text(), "m*" + std::to_string(y));
      EXPECT_EQ(ir::print(ir::parse_plan(ir::print(g.plan))), ir::print(g.plan));
      if (!g.plan.tensor_maps.empty()) {
        EXPECT_EQ(g.plan.tensor_maps[0].row_stride.text(), std::to_string(aligned ? x : 320));
        EXPECT_EQ(g.plan.tensor_maps[0].columns.text(), "320");
      }
      for (const Source& source : g.sources) {
        if (!compiles) continue;
        const Compiled c = compile(source, t);
        ASSERT_TRUE(c.ok) << family << "\n" << c.log;
        for (const KernelResources& r : c.resources) EXPECT_EQ(r.spill_bytes, 0) << r.entry;
      }
    }
}

TEST(RowStrides, AreLeftToOurOwnProducts) {
  const Fixture f = fixture("rmsnorm_unfused");
  const ir::Target t = ir::target_from_name("sm_80");
  ir::Workload w = testing::workload(f, 20, 320, 200, ir::DType::kBF16);
  EXPECT_FALSE(ir::enumerate_schedules(ir::view(f.graph, 1), "library", w, t).empty());
  w = ir::with_row_stride(w, "y", 208);
  EXPECT_TRUE(ir::enumerate_schedules(ir::view(f.graph, 1), "library", w, t).empty());
  EXPECT_FALSE(ir::enumerate_schedules(ir::view(f.graph, 0), "rows", w, t).empty());
}

}  // namespace
}  // namespace tenon::codegen
