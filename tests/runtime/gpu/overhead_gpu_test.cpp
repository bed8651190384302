// The launch path is as thin as it must be.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "bench/launch_overhead.h"
#include "gpu.h"

namespace tenon::test {
namespace {

// TENON_LAUNCH_DB names a database that holds rmsnorm_linear 16 x 4096 x 6144
// (scripts/gpu_runtime.sh tunes it); the figures go to the folder TENON_GPU_OUT.
TEST(LaunchOverhead, IsUnderThreeTenthsOfAMicrosecond) {
  TENON_REQUIRE_GPU(device);
  const char* database = std::getenv("TENON_LAUNCH_DB");
  if (database == nullptr) GTEST_SKIP() << "TENON_LAUNCH_DB is not set";
  const bench::LaunchOverhead result =
      bench::measure_launch_overhead(database, "cuda:0", 16, 4096, 6144);
  std::fputs(result.json.c_str(), stdout);
  if (const char* folder = std::getenv("TENON_GPU_OUT"))
    std::ofstream(std::string(folder) + "/launch_overhead.json") << result.json;
  EXPECT_GE(result.launches, 1);
  EXPECT_LE(result.layer_us - result.bare_us, 0.3 * result.launches);
  EXPECT_LE(result.open_and_bind_ms, 50);
}

}  // namespace
}  // namespace tenon::test
