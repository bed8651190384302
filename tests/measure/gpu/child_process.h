// This test program, started again to run one test that may hang, crash or corrupt a device.
#pragma once

#include <string>
#include <vector>

namespace tenon::test {

struct ChildResult {
  enum End { kExited, kSignalled, kTimedOut } end = kExited;
  int code = 0;  // exit status or signal
  double seconds = 0;
};

// Runs `prefix` (a tool such as compute-sanitizer with its options; may be empty) followed by
// this program with --gtest_filter=`test` and NAME=VALUE added to the environment, its output
// going to `log`. Past `limit_s` seconds its process group is killed.
ChildResult run_child(const std::vector<std::string>& prefix, const std::string& test,
                      const std::string& variable, const std::string& log, double limit_s);

}  // namespace tenon::test
