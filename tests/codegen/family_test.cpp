// Which schedules are legal, and the reasons of those that are not.
#include "ir/family.h"

#include <gtest/gtest.h>

#include "fixtures.h"
#include "ir/error.h"

namespace tenon::ir {
namespace {

using codegen::testing::Fixture;
using codegen::testing::fixture;
using codegen::testing::workload;

struct Setting {
  Fixture f;
  Workload w;
  Target t;
  KernelView k;
};

Setting setting(const std::string& name, std::size_t kernel, const std::string& target = "sm_80",
                DType dtype = DType::kBF16, std::int64_t m = 64, std::int64_t n = 256) {
  Setting s{fixture(name), {}, target_from_name(target), {}};
  s.w = workload(s.f, m, 512, n, dtype);
  s.k = view(s.f.graph, kernel);
  return s;
}

std::string reason(const Setting& s, const std::string& schedule) {
  auto r = illegal(s.k, parse_schedule(schedule).kernels.at(0), s.w, s.t);
  return r ? *r : "";
}

TEST(Family, LegalContractions) {
  Setting s = setting("rmsnorm_one_pass", 0);
  EXPECT_EQ(reason(s, "contraction"), "");
  EXPECT_EQ(reason(s, "contraction(tile_m=16, tile_n=64, warps_m=1, warps_n=4)"), "");
}

TEST(Family, ReasonsOfIllegalContractions) {
  Setting s = setting("rmsnorm_one_pass", 0);
  EXPECT_EQ(reason(s, "contraction(tile_m=24)"),
            "tile_m=24 is not a multiple of 16 rows for each of 2 warps");
  EXPECT_EQ(reason(s, "contraction(tile_n=40)"),
            "tile_n=40 is not a multiple of 16 columns for each of 2 warps");
  EXPECT_EQ(reason(s, "contraction(tile_k=48)"), "tile_k=48 is not a power of two from 16 to 256");
  EXPECT_EQ(reason(s, "contraction(stages=1)"), "stages=1 is not between 2 and 8");
  EXPECT_EQ(reason(s, "contraction(splits=2)"),
            "splits=2, but the kernel does not split its reduction");
  EXPECT_EQ(reason(s, "contraction(tile_q=1)"), "family contraction has no parameter 'tile_q'");
  EXPECT_EQ(reason(s, "contraction(tile_m=0)"), "tiles and warps must be positive");
  EXPECT_EQ(reason(s, "contraction(tile_m=256, tile_n=256)"),
            "512 accumulators a thread are more than 128");
  EXPECT_EQ(reason(s, "contraction(tile_k=256, stages=8)").find("bytes of shared memory") !=
                std::string::npos,
            true);
  EXPECT_EQ(reason(s, "rows"), "the rows family has no products");
  EXPECT_EQ(reason(s, "tiles"), "there is no schedule family 'tiles'");
  EXPECT_EQ(reason(s, "library"), "the kernel is not a library product");
  EXPECT_EQ(reason(s, "host"), "the host family needs the host");
}

TEST(Family, SplitIsTheGraphsChoice) {
  Setting s = setting("rmsnorm_split_k", 0);
  EXPECT_EQ(reason(s, "contraction(splits=4)"), "");
  EXPECT_EQ(reason(s, "contraction"), "splits=1, but the kernel splits its reduction");
  EXPECT_EQ(reason(s, "contraction(splits=9)"),
            "splits=9 is more than the 8 steps of the reduction");
  EXPECT_EQ(reason(s, "contraction(stream=5)"), "");
  EXPECT_EQ(reason(s, "contraction(splits=2, stream=5)"),
            "splits=2 and stream=5 are two ways to split");
  EXPECT_EQ(reason(s, "contraction(stream=70000)"), "stream=70000 is not between 0 and 65535");
  EXPECT_EQ(reason(setting("rmsnorm_one_pass", 0), "contraction(stream=5)"),
            "stream=5, but the kernel does not split its reduction");
  // A reduction of one step cannot be split, and the graph must still run.
  s.w.extents[1] = 8;
  EXPECT_EQ(reason(s, "contraction"), "");
  EXPECT_EQ(reason(s, "contraction(stream=5)"), "stream=5, but the reduction has one step");
}

TEST(Family, ReasonsOfIllegalRows) {
  Setting s = setting("rmsnorm_unfused", 0);
  EXPECT_EQ(reason(s, "rows(threads=256, group=256)"), "");
  EXPECT_EQ(reason(s, "rows(threads=100)"), "threads=100 is not a multiple of 32 up to 1024");
  EXPECT_EQ(reason(s, "rows(threads=256, group=64)"),
            "group=64 is neither a power of two up to 32 nor all 256 threads");
  EXPECT_EQ(reason(s, "contraction"), "the kernel has no product");
}

TEST(Family, TargetsDecide) {
  Setting old = setting("rmsnorm_one_pass", 0);
  old.t.name = "sm_75";
  EXPECT_EQ(reason(old, "contraction"), "sm_75 is older than sm_80");
  Setting host = setting("rmsnorm_one_pass", 0, "host");
  EXPECT_EQ(reason(host, "host(tile_k=64, tile_m=16, tile_n=64)"), "");
  EXPECT_EQ(reason(host, "contraction"), "family contraction needs a GPU");
}

TEST(Family, TheLibraryMultipliesWhatItCan) {
  Setting s = setting("rmsnorm_unfused", 1);
  EXPECT_EQ(reason(s, "library"), "");
  EXPECT_EQ(reason(s, "library(algorithm=99)"), "algorithm=99 is not between 0 and 15");
  EXPECT_EQ(reason(s, "contraction"), "a library product has no other family");
}

TEST(Family, EveryEnumeratedScheduleIsLegalAndDistinct) {
  for (const std::string& name : codegen::testing::fixture_names()) {
    for (const char* target : {"sm_80", "sm_90a", "host"}) {
      Setting s = setting(name, 0, target);
      std::set<KernelSchedule> seen;
      for (const std::string& family : families_for(s.k, s.w, s.t)) {
        for (const KernelSchedule& schedule : enumerate_schedules(s.k, family, s.w, s.t)) {
          EXPECT_FALSE(illegal(s.k, schedule, s.w, s.t).has_value());
          EXPECT_TRUE(seen.insert(schedule).second) << name;
        }
      }
      EXPECT_FALSE(seen.empty()) << name << " " << target;
      EXPECT_FALSE(illegal(s.k, default_schedule(s.k, s.w, s.t), s.w, s.t).has_value()) << name;
    }
  }
}

TEST(Family, EveryShapeHasADefault) {
  for (const std::string& name : codegen::testing::fixture_names())
    for (DType dtype : {DType::kBF16, DType::kF32})
      for (std::int64_t extent : {1, 7, 4096}) {
        Fixture f = fixture(name);
        Workload w = workload(f, extent, extent, extent, dtype);
        for (std::size_t i = 0; i < f.graph.kernels.size(); ++i)
          EXPECT_NO_THROW(default_schedule(view(f.graph, i), w, target_from_name("sm_80")))
              << name << " " << extent;
      }
}

TEST(Family, SharedMemoryIsCountedByHand) {
  // 3 stages of 64 × (64 + 8) elements of A and 64 × (64 + 8) of B, 2 bytes each; no row
  // values; one sum of 4 bytes for each of 64 rows.
  Setting s = setting("rmsnorm_one_pass", 0);
  EXPECT_EQ(contraction_shared_bytes(*s.k.facts, {}, s.w), 3 * 2 * 64 * 72 * 2 + 64 * 4);
  // With normalized operands each row has its scale, 4 bytes, as well.
  Setting p = setting("rmsnorm_prologue", 0);
  EXPECT_EQ(contraction_shared_bytes(*p.k.facts, {}, p.w), 3 * 2 * 64 * 72 * 2 + 64 * 4 + 64 * 4);
  EXPECT_EQ(contraction_partial_floats(*s.k.facts, {}), 64 * 64 + 64);
}

TEST(Family, UnknownFamiliesAreUserErrors) { EXPECT_THROW(family("tiles"), UserError); }

}  // namespace
}  // namespace tenon::ir
