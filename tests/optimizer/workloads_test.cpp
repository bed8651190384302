// Lists of workloads: both forms, and what is refused with which words.
#include "optimizer/workloads.h"

#include <gtest/gtest.h>

#include <random>

#include "ir/error.h"

namespace tenon::optimizer {
namespace {

std::vector<ir::Workload> parse(const std::string& text, const std::string& program = "") {
  return parse_workloads(text, ir::catalog_program, program);
}

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Workloads, JsonAndCsvSayTheSame) {
  auto json = parse(R"([
    {"program": "rmsnorm_linear", "m": 16, "k": 576, "n": 960},
    {"program": "rmsnorm_linear", "dims": {"m": 1, "k": 64, "n": 32}, "dtype": "fp16",
     "attributes": {"eps": 0.25}, "name": "layer 0", "count": 24}])");
  auto csv = parse(
      "# shapes of a model\r\n"
      "program, m, k, n, dtype, eps, name\r\n"
      "rmsnorm_linear,16,576,960,,,\r\n"
      "\r\n"
      "\"rmsnorm_linear\",1,64,32,fp16,0.25,\"layer \"\"0\"\", the first\"\r\n");
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json, csv);
  EXPECT_EQ(ir::extent(json[0], "n"), 960);
  EXPECT_EQ(json[0].dtype, ir::DType::kBF16);
  EXPECT_EQ(json[1].attributes.at("eps"), 0.25);
  auto wrapped = parse(R"({"workloads": [{"m": 16, "k": 576, "n": 960}]})", "rmsnorm_linear");
  EXPECT_EQ(wrapped[0], json[0]);
}

TEST(Workloads, WhatIsWrongIsNamedWithItsEntry) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no entries"},
      {"[]", "no entries"},
      {"{}", "without 'workloads'"},
      {"[1]", "entry 1: it is no object"},
      {"[{\"m\":1}]", "entry 1: it has no 'program'"},
      {"[{\"program\":\"nope\",\"m\":1}]", "nope"},
      {"[{\"program\":\"rmsnorm_linear\",\"m\":1,\"k\":1,\"n\":0}]", "'n' is '0'"},
      {"[{\"program\":\"rmsnorm_linear\",\"m\":1,\"k\":1,\"n\":1.5}]", "'n' is '1.5'"},
      {"[{\"program\":\"rmsnorm_linear\",\"m\":1,\"k\":1,\"n\":1e300}]", "'n' is"},
      {"[{\"program\":\"rmsnorm_linear\",\"m\":1,\"k\":1}]", "n"},
      {"[{\"program\":\"rmsnorm_linear\",\"m\":1,\"k\":1,\"n\":1,\"q\":2}]", "q"},
      {"[{\"program\":\"rmsnorm_linear\",\"m\":1,\"k\":1,\"n\":1,\"dtype\":\"int7\"}]", "int7"},
      {"[{\"program\":\"rmsnorm_linear\",\"m\":[1],\"k\":1,\"n\":1}]", "'m' is array"},
      {"[{\"m\":", "no JSON"},
      {"[[[[[[[[[[1]]]]]]]]]]", "no JSON"},
      {"program,m,m\nrmsnorm_linear,1,2\n", "column 'm'"},
      {"program,m,k,n\nrmsnorm_linear,1,2\n", "line 2: it has 3 cells, the first line 4"},
      {"program,m,k,n\n\"rmsnorm_linear,1,2,3\n", "a quote is not closed"},
      {"program,m,k,n\nrmsnorm_linear,1,2,x\n", "'n' is 'x'"}};
  for (const auto& [text, named] : cases) {
    const std::string error = error_of(text);
    EXPECT_NE(error.find(named), std::string::npos) << text << "\n  " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(Workloads, DeepNestingIsRefusedQuickly) {
  EXPECT_NE(error_of(std::string(1 << 20, '[')), "");
  EXPECT_NE(error_of("{\"workloads\":" + std::string(1 << 20, '{')), "");
}

TEST(Workloads, DamagedTextIsAnErrorSentenceOrAList) {
  const std::string sound =
      "[{\"program\": \"rmsnorm_linear\", \"m\": 16, \"k\": 576, \"n\": 960, \"dtype\": \"bf16\"}]";
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text = trial % 2 ? sound : "program,m,k,n,eps\nrmsnorm_linear,16,576,960,1e-5\n";
    for (int edits = 1 + static_cast<int>(random() % 4); edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      if (random() % 2)
        text[at] = static_cast<char>(random());
      else
        text.erase(at, random() % 5);
      if (text.empty()) text = " ";
    }
    try {
      EXPECT_GE(parse(text).size(), 1u);
    } catch (const UserError&) {
    }
  }
}

}  // namespace
}  // namespace tenon::optimizer
