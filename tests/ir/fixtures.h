// The µGraphs and programs of tests/ir/fixtures, by file name.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace tenon::ir::testing {

inline std::string fixture(const std::string& file) {
  std::ifstream in(std::string(TENON_FIXTURES) + "/" + file);
  EXPECT_TRUE(in.good()) << file;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline constexpr const char* kRmsnormFixtures[] = {
    "rmsnorm_unfused.mugraph",  "rmsnorm_gamma_folded.mugraph", "rmsnorm_deferred_scale.mugraph",
    "rmsnorm_one_pass.mugraph", "rmsnorm_split_k.mugraph",      "rmsnorm_prologue.mugraph"};

}  // namespace tenon::ir::testing
