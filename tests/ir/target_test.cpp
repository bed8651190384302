#include "ir/target.h"

#include <gtest/gtest.h>

#include "ir/error.h"

namespace tenon::ir {
namespace {

TEST(Target, ComputeCapabilityFollowsTheName) {
  EXPECT_EQ(target_from_name("host").compute_capability(), 0);
  EXPECT_EQ(target_from_name("sm_80").compute_capability(), 80);
  EXPECT_EQ(target_from_name("sm_90a").compute_capability(), 90);
  Target t;
  t.name = "sm_100a";
  EXPECT_EQ(t.compute_capability(), 100);
  t.name = "sm_";
  EXPECT_EQ(t.compute_capability(), 0);
}

TEST(Target, KnownDevicesHaveTheirPublishedFigures) {
  const Target a100 = target_from_name("sm_80");
  EXPECT_EQ(a100.sm_count, 108);
  EXPECT_EQ(a100.shared_bytes_per_block, 166912);  // 163 KiB
  const Target h200 = target_from_name("sm_90a");
  EXPECT_EQ(h200.sm_count, 132);
  EXPECT_EQ(h200.shared_bytes_per_block, 232448);                       // 227 KiB
  EXPECT_EQ(target_from_name("sm_89").shared_bytes_per_block, 101376);  // 99 KiB
  Target plain = target_from_name("sm_90");
  plain.name = "sm_90a";
  EXPECT_EQ(plain, h200);
}

TEST(Target, EveryKnownTargetIsUsable) {
  for (const char* name : {"host", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"}) {
    const Target t = target_from_name(name);
    EXPECT_EQ(t.name, name);
    EXPECT_EQ(t.is_host(), t.name == "host");
    EXPECT_GE(t.sm_count, 1);
    EXPECT_GT(t.memory_tb_per_s, 0);
    EXPECT_GT(t.matrix_tflops, 0);
    EXPECT_GT(t.fp32_tflops, 0);
    EXPECT_GT(t.launch_us, 0);
    if (!t.is_host()) {
      EXPECT_LE(t.shared_bytes_per_block, t.shared_bytes_per_sm);
    }
  }
}

TEST(Target, UnknownNamesAreUserErrors) {
  for (const char* name : {"", "sm_70", "sm_90b", "cuda:0", "Host"}) {
    EXPECT_THROW(target_from_name(name), UserError) << name;
  }
}

}  // namespace
}  // namespace tenon::ir
