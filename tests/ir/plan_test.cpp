// Launch plans as JSON: exact round trips, and every kind of damage named.
#include "ir/plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "ir/error.h"

namespace tenon::ir {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> kDims = {"m", "k", "n"};
SizeExpr size(const std::string& text) { return SizeExpr::parse(text, kDims); }

LaunchPlan cuda_plan() {
  LaunchPlan p;
  p.workload_key = R"({"program":"rmsnorm_linear"})";
  p.program = "rmsnorm_linear";
  p.dims = kDims;
  p.extents = {16, 576, 960};
  p.m_min = 9;
  p.m_max = 64;
  p.device_class = "sm_90a";
  p.dependent_launch = true;
  p.mugraph = "mugraph rmsnorm_linear\n";
  p.schedule = "rows(threads=256); contraction(tile_m=64) dependent";
  p.attributes = {1e-6};
  p.buffers = {{"x", BufferRole::kActivation, DType::kBF16, size("m*k"), true},
               {"g", BufferRole::kParameter, DType::kBF16, size("k"), false},
               {"w", BufferRole::kParameter, DType::kBF16, size("k*n"), true},
               {"y", BufferRole::kOutput, DType::kBF16, size("m*n"), true},
               {"wg", BufferRole::kPrepared, DType::kBF16, size("k*n"), true},
               {"partial", BufferRole::kWorkspace, DType::kF32, size("4*m*n"), true}};
  p.input_count = 3;
  p.output_count = 1;
  TensorMapSpec map;
  map.buffer = 4;
  map.rows = size("k");
  map.columns = size("n");
  map.row_stride = size("n");
  map.box_rows = size("8 * ceildiv(m, 8 * ceildiv(m, 64))");
  map.box_columns = 64;
  map.swizzle_bytes = 128;
  map.l2_promotion_bytes = 256;
  p.tensor_maps = {map};
  p.modules = {{std::string(64, 'a'), "sm_90a"}, {"", "sm_90"}};
  Launch fold;
  fold.module = 0;
  fold.entry = "prepare_0";
  fold.grid[0] = size("ceildiv(k*n, 256)");
  fold.block[0] = 256;
  fold.args = {{ArgKind::kBuffer, 1, {}, 0, -1},
               {ArgKind::kBuffer, 2, {}, 0, -1},
               {ArgKind::kBuffer, 4, {}, 0, -1}};
  p.prepare = {fold};
  Launch clear;
  clear.kind = LaunchKind::kFill;
  clear.fill_buffer = 5;
  Launch product;
  product.module = 1;
  product.entry = "kernel_0";
  product.grid[0] = size("ceildiv(m, 64)*2");
  product.grid[1] = size("ceildiv(n, 64)");
  product.block[0] = 128;
  product.cluster[0] = 2;
  product.shared_bytes = 100000;
  product.dependent = true;
  product.args = {{ArgKind::kBuffer, 0, {}, 0, -1},
                  {ArgKind::kTensorMap, -1, {}, 0, 0},
                  {ArgKind::kInt32, -1, size("m"), 0, -1},
                  {ArgKind::kInt64, -1, size("m*n*k"), 0, -1},
                  {ArgKind::kFloat, -1, {}, 1e-6, -1}};
  Launch library;
  library.kind = LaunchKind::kLibrary;
  library.a = 0;
  library.b = 2;
  library.out = 3;
  library.m = size("m");
  library.n = size("n");
  library.k = size("k");
  library.b_transposed = true;
  library.algorithm = 3;
  p.main = {clear, product, library};
  return p;
}

LaunchPlan host_plan() {
  LaunchPlan p = cuda_plan();
  p.device_class = "host";
  p.modules.clear();
  p.tensor_maps.clear();
  Launch prepare;
  prepare.kind = LaunchKind::kHost;
  prepare.entry = "prepare";
  Launch first = prepare;
  first.entry = "0";
  p.prepare = {prepare};
  p.main = {first};
  return p;
}

std::string error(const std::string& text) {
  try {
    parse_plan(text);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Plan, RoundTrips) {
  for (const LaunchPlan& p : {cuda_plan(), host_plan()}) {
    const std::string text = print(p);
    EXPECT_NO_THROW(validate(p));
    const LaunchPlan again = parse_plan(text);
    EXPECT_EQ(print(again), text);
    EXPECT_EQ(again.extents, p.extents);
    EXPECT_EQ(again.buffers.size(), p.buffers.size());
    EXPECT_EQ(again.buffers[5].elements, p.buffers[5].elements);
    EXPECT_EQ(again.attributes, p.attributes);
    EXPECT_EQ(again.main.size(), p.main.size());
  }
  const LaunchPlan again = parse_plan(print(cuda_plan()));
  EXPECT_EQ(again.main[1].args[4].number, 1e-6);
  EXPECT_EQ(again.main[1].args[1].tensor_map, 0);
  EXPECT_EQ(again.main[1].cluster[0], 2);
  EXPECT_TRUE(again.main[1].dependent);
  EXPECT_TRUE(again.main[2].b_transposed);
  EXPECT_EQ(again.main[0].fill_buffer, 5);
  EXPECT_EQ(again.tensor_maps[0].l2_promotion_bytes, 256);
  EXPECT_EQ(again.prepare[0].grid[0].text(), "ceildiv(k*n, 256)");
}

// The plan with one value of its JSON replaced, by JSON pointer.
std::string with(const std::string& pointer, const Json& value,
                 const LaunchPlan& plan = cuda_plan()) {
  Json json = Json::parse(print(plan));
  json[Json::json_pointer(pointer)] = value;
  return json.dump();
}

TEST(Plan, FieldsAreChecked) {
  const std::tuple<const char*, Json, const char*> cases[] = {
      {"/version", 2, "version is '2'; accepted: 1"},
      {"/version", "1", "version is '\"1\"'; accepted: an integer"},
      {"/version", 1.0, "version"},
      {"/program", "a b", "program is 'a b'"},
      {"/program", nullptr, "program is 'null'; accepted: a string"},
      {"/dims", {"m", "k"}, "'n' is not a dim"},
      {"/dims", {"m", "k", "n", "m"}, "dims is 'm'; accepted: distinct names"},
      {"/extents", {16, 576}, "extents"},
      {"/extents/0", 0, "extents[0] is '0'; accepted: an integer from 1 to 2147483647"},
      {"/extents/1", 1099511627776, "extents[1]"},
      {"/extents/1", 18446744073709551615u, "extents[1]"},
      {"/extents/0", 65, "extents is '65'; accepted: m from m_min to m_max, 9 to 64"},
      {"/dynamic_dim", 3, "dynamic_dim is '3'; accepted: -1 to 2"},
      {"/m_min", 0, "m_min is '0'"},
      {"/m_max", 3, "m_min and m_max"},
      {"/dtype", "T", "dtype is '\"T\"'; accepted: bf16, fp16, fp32"},
      {"/device_class", "sm_9", "device_class is 'sm_9'"},
      {"/device_class", "host", "no error"},
      {"/attributes/0", "x", "attributes[0] is '\"x\"'; accepted: a number"},
      {"/input_count", 7, "input_count"},
      {"/input_count", 0, "input_count"},
      {"/input_count", 2, "buffers[2].role"},
      {"/output_count", 2, "buffers[4].role"},
      {"/buffers/0/role", "weights",
       "buffers[0].role is '\"weights\"'; accepted: activation, parameter, prepared, workspace, "
       "output"},
      {"/buffers/0/role", "output", "buffers[0].role"},
      {"/buffers/5/role", "output", "buffers[5].role"},
      {"/buffers/0/dtype", "T", "buffers[0].dtype"},
      {"/buffers/0/elements", "m*q",
       "buffers[0].elements: size 'm*q': line 1, column 3: 'q' is not a dim"},
      {"/buffers/0/elements", 3, "buffers[0].elements is '3'; accepted: a string"},
      {"/buffers/4/elements", "k*n*m", "buffers[4].elements is 'k*n*m'; accepted: no dynamic dim"},
      {"/buffers/5/elements", "1099511627777", "at most 2^40"},
      {"/buffers/5/elements", "9223372036854775807*m", "overflows"},
      {"/buffers/5/elements", "ceildiv(m, 0)", "divides by 0"},
      {"/buffers/0/in_main", 1, "buffers[0].in_main is '1'; accepted: true or false"},
      {"/buffers/0/in_main", false,
       "main[1].args[0].buffer is 'x'; accepted: a buffer that is marked in_main"},
      {"/buffers/0/name", "", "buffers[0].name"},
      {"/tensor_maps/0/buffer", 6, "tensor_maps[0].buffer is '6'"},
      {"/tensor_maps/0/rows", "k + 1", "tensor_maps[0]"},
      {"/tensor_maps/0/row_stride", "n + 8", "what lies within its buffer"},
      {"/tensor_maps/0/row_stride", "1", "stride >= columns"},
      {"/tensor_maps/0/box_rows", 257, "box_rows"},
      {"/tensor_maps/0/swizzle_bytes", 48, "swizzle_bytes is '48'; accepted: 0, 32, 64, 128"},
      {"/tensor_maps/0/l2_promotion_bytes", 32, "l2_promotion_bytes"},
      {"/modules/0/cubin_sha256", "abc", "modules[0].cubin_sha256"},
      {"/modules/0/target", "../../etc", "modules[0].target"},
      {"/prepare/0/args/0/buffer", 0, "prepare[0].args[0].buffer is 'x'; accepted: a parameter"},
      {"/prepare/0/args/0/buffer", 3, "prepare[0].args[0].buffer is 'y'; accepted: a parameter"},
      {"/prepare/0/args/0/buffer", -1, "prepare[0].args[0].buffer is '-1'"},
      {"/prepare/0/args/0/buffer", 4000000000, "prepare[0].args[0].buffer"},
      {"/prepare/0/args/0", {{"buffer", 0}, {"int32", "m"}}, "an object with one field of buffer"},
      {"/prepare/0/args/0", {{"pointer", 0}}, "an object with one field of buffer"},
      {"/main", Json::array(), "main is empty"},
      {"/main/0/kind", "shell",
       "main[0].kind is '\"shell\"'; accepted: cubin, library, host, fill"},
      {"/main/0/fill_buffer", 0,
       "main[0].fill_buffer is 'x'; accepted: a buffer that may be written"},
      {"/main/1/module", 2, "main[1].module is '2'"},
      {"/main/1/entry", "k 0", "main[1].entry"},
      {"/main/1/block/0", "m*64", "main[1].block is 'm*64'; accepted: 1 to 1024 threads"},
      {"/main/1/block/1", "0", "1 to 1024 threads"},
      {"/main/1/block", {"1", "1"}, "main[1].block is 'array'; accepted: three sizes"},
      {"/main/1/grid/0", "ceildiv(m, 64)", "a multiple of the cluster"},
      {"/main/1/grid/1", "0", "at least 1"},
      {"/main/1/grid/1", "65536", "at most 65535"},
      {"/main/1/cluster/0", 17, "main[1].cluster[0]"},
      {"/main/1/cluster", {4, 4, 4}, "main[1].cluster is '64'; accepted: at most 16"},
      {"/main/1/shared_bytes", 232449, "shared_bytes"},
      {"/main/1/shared_bytes", -1, "shared_bytes"},
      {"/main/1/args/1/tensor_map", 1, "main[1].args[1].tensor_map"},
      {"/main/1/args/2/int32", "m*k*n*k", "fits 32 bits"},
      {"/main/1/args/4/float", 1e300, "fp32 can hold"},
      {"/main/2/a", 99, "main[2].a"},
      {"/main/2/out", 2, "main[2].out is 'w'; accepted: a buffer that may be written"},
      {"/main/2/k", "k + 1", "main[2].a"},
      {"/main/2/n", "0", "extents of 1 to 2147483647"},
      {"/main/2/b_transposed", "yes", "true or false"},
      {"/main/2/algorithm", -1, "algorithm"},
      {"/main/2/extra", 1, "main[2] has the unknown field 'extra'"},
      {"/extra", 1, "the plan has the unknown field 'extra'"},
      {"/schedule", std::string("a\0b", 3), "without NUL"},
  };
  for (const auto& [pointer, value, message] : cases) {
    const std::string got = error(with(pointer, value));
    EXPECT_NE(got.find(message), std::string::npos)
        << pointer << " = " << value.dump() << "\ngot: " << got;
    EXPECT_EQ(got.find('\n'), std::string::npos);
  }
}

TEST(Plan, HostLaunchesAreChecked) {
  EXPECT_NE(error(with("/main/0/entry", "prepare", host_plan())).find("the index of a kernel"),
            std::string::npos);
  EXPECT_NE(error(with("/main/0/entry", "99999", host_plan())).find("the index of a kernel"),
            std::string::npos);
  EXPECT_NE(error(with("/main/0/entry", "", host_plan())).find("the index of a kernel"),
            std::string::npos);
  EXPECT_NE(error(with("/prepare/0/entry", "0", host_plan())).find("accepted: prepare"),
            std::string::npos);
  EXPECT_NE(error(with("/mugraph", "", host_plan())).find("mugraph"), std::string::npos);
  EXPECT_NE(error(with("/device_class", "sm_80", host_plan())).find("prepare[0].kind is 'host'"),
            std::string::npos);
}

TEST(Plan, EveryMissingFieldIsNamed) {
  const Json whole = Json::parse(print(cuda_plan()));
  for (const char* object : {"", "/buffers/0", "/tensor_maps/0", "/modules/0", "/prepare/0",
                             "/main/0", "/main/1", "/main/2"}) {
    for (const auto& item : whole[Json::json_pointer(object)].items()) {
      Json json = whole;
      json[Json::json_pointer(object)].erase(item.key());
      EXPECT_NE(error(json.dump()).find("lacks the field '" + item.key() + "'"), std::string::npos)
          << object << "/" << item.key();
    }
  }
}

TEST(Plan, TextThatIsNoPlanIsRefused) {
  EXPECT_EQ(error(""), "launch plan: not JSON at byte 1");
  EXPECT_EQ(error("{\"version\": 1"), "launch plan: not JSON at byte 14");
  EXPECT_NE(error("[]").find("the plan is 'array'; accepted: an object"), std::string::npos);
  EXPECT_NE(error("null").find("accepted: an object"), std::string::npos);
  EXPECT_NE(error("{}").find("lacks the field 'version'"), std::string::npos);
  EXPECT_NE(error(std::string(4000000, '[')).find("nested too deeply"), std::string::npos);
  EXPECT_NE(error(std::string(5000000, ' ')).find("accepted: at most 4194304"), std::string::npos);
  EXPECT_NE(error("{\"version\": 1e999}").find("launch plan:"), std::string::npos);
  EXPECT_NE(error("{\"version\": \"\xff\"}").find("not JSON"), std::string::npos);
  std::string many = "{\"version\": 1";
  for (int i = 0; i < 100000; ++i) many += ",\"f" + std::to_string(i) + "\": 0";
  EXPECT_NE(error(many + "}").find("unknown field"), std::string::npos);
}

TEST(Plan, IntervalsOpenAtTheTopAreAllowed) {
  LaunchPlan p = cuda_plan();
  p.main.erase(p.main.begin() + 1);  // its int64 argument m*n*k stays within 64 bits anyway
  p.m_max = 2147483647;
  EXPECT_EQ(error(print(p)), "no error");
  p.dynamic_dim = -1;
  EXPECT_EQ(error(print(p)), "no error");
}

TEST(Plan, RandomDamageIsAnErrorOrAValidPlan) {
  std::mt19937 engine(5);
  const std::string whole = print(cuda_plan());
  auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(engine);
  };
  for (int i = 0; i < 5000; ++i) {
    std::string text = whole;
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
      if (below(2) == 0) {
        text[below(text.size())] = static_cast<char>(below(2) == 0 ? '0' + below(10) : below(256));
      } else {
        text.erase(below(text.size()), 1 + below(5));
      }
    }
    try {
      const LaunchPlan plan = parse_plan(text);
      EXPECT_EQ(print(parse_plan(print(plan))), print(plan));
    } catch (const UserError&) {
      // what a damaged plan should end in
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what() << "\n" << text;
    }
  }
}

}  // namespace
}  // namespace tenon::ir
