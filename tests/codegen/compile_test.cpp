// NVRTC on generated sources: no GPU needed.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "codegen/codegen.h"
#include "fixtures.h"

namespace tenon::codegen {
namespace {

using testing::Fixture;
using testing::fixture;

class Compile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  }

  // Compiles all sources of one candidate; no spills, and every entry is there.
  static void check(const std::string& name, const std::string& target, ir::DType dtype,
                    const std::string& schedule = "", std::int64_t m = 16, std::int64_t k = 576,
                    std::int64_t n = 960) {
    Fixture f = fixture(name);
    ir::Workload w = testing::workload(f, m, k, n, dtype);
    ir::Target t = ir::target_from_name(target);
    ir::Schedule s =
        schedule.empty() ? testing::default_schedule(f, w, t) : ir::parse_schedule(schedule);
    Generated g = generate(f.graph, s, w, t);
    for (const Source& source : g.sources) {
      Compiled c = compile(source, t);
      ASSERT_TRUE(c.ok) << name << " " << target << " " << ir::name(dtype) << "\n" << c.log;
      EXPECT_EQ(c.sha256.size(), 64u);
      EXPECT_EQ(c.resources.size(), source.entries.size());
      for (const KernelResources& r : c.resources) {
        EXPECT_EQ(r.spill_bytes, 0) << name << " " << r.entry;
        EXPECT_GT(r.registers, 0);
        EXPECT_LE(r.registers, 255);
      }
    }
  }
};

class CompileFixture : public Compile, public ::testing::WithParamInterface<std::string> {};

TEST_P(CompileFixture, Bf16OnBothTargets) {
  check(GetParam(), "sm_80", ir::DType::kBF16);
  check(GetParam(), "sm_90a", ir::DType::kBF16);
}
TEST_P(CompileFixture, Fp16AndRaggedShapes) {
  check(GetParam(), "sm_90a", ir::DType::kF16, "", 3, 101, 7);
}
TEST_P(CompileFixture, Fp32) { check(GetParam(), "sm_80", ir::DType::kF32); }

INSTANTIATE_TEST_SUITE_P(All, CompileFixture, ::testing::ValuesIn(testing::fixture_names()),
                         [](const auto& p) { return p.param; });

// Every function of the operator table is a CUDA expression, of a literal as of a name.
TEST_F(Compile, Functions) {
  std::string body;
  for (std::string_view name :
       {"exp", "tanh", "erf", "sigmoid", "silu", "gelu", "gelu_tanh", "sqrt", "rsqrt", "square"})
    for (const std::string& operand : {std::string("x"), std::string("-1.5f")}) {
      std::string text(ir::info(ir::op_from_name(name).value()).cuda);
      for (std::size_t at; (at = text.find("$0")) != std::string::npos;)
        text.replace(at, 2, operand);
      body += "  *y++ = " + text + ";\n";
    }
  Source source{"extern \"C\" __global__ void f(float* y, float x) {\n" + body + "}\n", {"f"}};
  for (const char* target : {"sm_80", "sm_90a"}) {
    Compiled c = compile(source, ir::target_from_name(target));
    EXPECT_TRUE(c.ok) << c.log;
  }
}

// A form of every catalog program compiles.
TEST_F(Compile, EveryCatalogProgram) {
  std::map<std::string, std::string> rejected;  // by program; erased once one compiles
  for (const ir::CatalogEntry& entry : ir::catalog()) rejected[entry.name] = "no fixture";
  std::vector<Fixture> forms;
  std::vector<std::filesystem::path> files = {
      TENON_HEAD_FIXTURES "/linear_headnorm_unfused.mugraph",
      TENON_HEAD_FIXTURES "/linear_head_layernorm_unfused.mugraph"};
  for (const auto& file : std::filesystem::directory_iterator(TENON_CATALOG_FIXTURES))
    files.push_back(file.path());
  for (const std::filesystem::path& file : files) {
    std::ifstream in(file);
    ASSERT_TRUE(in) << file;
    Fixture f;
    f.graph = ir::parse_mugraph({std::istreambuf_iterator<char>(in), {}});
    f.program = ir::catalog_program(f.graph.signature.program);
    forms.push_back(std::move(f));
  }
  forms.push_back(fixture("rmsnorm_one_pass"));
  const std::map<std::string, std::int64_t> extents = {
      {"m", 16}, {"k", 96}, {"n", 80}, {"h", 2}, {"d", 32}, {"nq", 64}, {"nk", 16}, {"nv", 32}};
  const ir::Target t = ir::target_from_name("sm_80");
  for (const Fixture& f : forms) {
    const std::string& program = f.graph.signature.program;
    if (rejected.count(program) == 0) continue;
    std::map<std::string, std::int64_t> dims;
    for (const std::string& dim : f.program.signature.dims) dims[dim] = extents.at(dim);
    const ir::Workload w = ir::make_workload(f.program, dims, ir::DType::kBF16);
    try {
      Generated g = generate(f.graph, testing::default_schedule(f, w, t), w, t);
      for (const Source& source : g.sources) {
        Compiled c = compile(source, t);
        EXPECT_TRUE(c.ok) << program << "\n" << c.log;
      }
      rejected.erase(program);
    } catch (const std::exception& e) {
      rejected[program] = e.what();
    }
  }
  for (const auto& [program, why] : rejected) ADD_FAILURE() << program << ": " << why;
}

TEST_F(Compile, Schedules) {
  for (const char* schedule :
       {"contraction(stages=4, tile_k=32, tile_m=128, tile_n=128, warps_m=2, warps_n=4)",
        "contraction(stages=6, tile_k=128, tile_m=16, tile_n=64, warps_m=1, warps_n=2)",
        "contraction(stages=2, tile_k=64, tile_m=32, tile_n=256, warps_m=1, warps_n=8)"})
    check("rmsnorm_one_pass", "sm_90a", ir::DType::kBF16, schedule, 1024, 4096, 6144);
  check("rmsnorm_split_k", "sm_80", ir::DType::kBF16, "contraction(splits=8, tile_m=16, warps_m=1)",
        16, 4096, 6144);
  check("rmsnorm_split_k", "sm_80", ir::DType::kBF16,
        "contraction(stages=4, stream=108, tile_m=128, tile_n=128, warps_m=2, warps_n=4)", 1000,
        4096, 6144);
  check("rmsnorm_split_k", "sm_80", ir::DType::kF32,
        "contraction(stages=3, stream=216, tile_k=16, tile_m=64, tile_n=64)", 100, 3001, 2000);
  check("rmsnorm_one_pass", "sm_80", ir::DType::kF32,
        "contraction(stages=3, tile_k=16, tile_m=128, tile_n=128, warps_m=2, warps_n=4)", 1024,
        4096, 6144);
  check("rmsnorm_unfused", "sm_80", ir::DType::kBF16, "rows(group=512, threads=512); library", 16,
        16384, 64);
}

TEST_F(Compile, DependentLaunch) {
  check("rmsnorm_deferred_scale", "sm_90a", ir::DType::kBF16, "rows; contraction dependent");
}

TEST_F(Compile, ABrokenSourceIsAFailureWithItsLog) {
  Source source{"extern \"C\" __global__ void f(int* p) { *p = undeclared_name; }\n", {"f"}};
  Compiled c = compile(source, ir::target_from_name("sm_80"));
  EXPECT_FALSE(c.ok);
  EXPECT_NE(c.log.find("undeclared_name"), std::string::npos);
  EXPECT_TRUE(c.cubin.empty());
}

TEST_F(Compile, AMissingEntryIsAFailure) {
  Source source{"extern \"C\" __global__ void f(int* p) { *p = 1; }\n", {"g"}};
  Compiled c = compile(source, ir::target_from_name("sm_80"));
  EXPECT_FALSE(c.ok);
  EXPECT_NE(c.log.find("no kernel g"), std::string::npos);
}

TEST_F(Compile, ResourcesAreRead) {
  // 1 KB of static shared memory, and 64 floats written and read at indices that only the data
  // knows, so that they lie on the stack.
  Source source{
      "extern \"C\" __global__ void f(float* p, const int* index) {\n"
      "  __shared__ float s[256];\n"
      "  float a[64];\n"
      "  for (int j = 0; j < 64; ++j) a[j] = p[j];\n"
      "  for (int j = 0; j < 1000; ++j) a[index[j]] += p[j];\n"
      "  s[threadIdx.x] = a[index[0]];\n"
      "  __syncthreads();\n"
      "  p[threadIdx.x] = s[index[1]];\n"
      "}\n",
      {"f"}};
  Compiled c = compile(source, ir::target_from_name("sm_80"));
  ASSERT_TRUE(c.ok) << c.log;
  ASSERT_EQ(c.resources.size(), 1u);
  EXPECT_EQ(c.resources[0].static_shared_bytes, 1024);
  EXPECT_EQ(c.resources[0].stack_bytes, 256);
  EXPECT_NE(c.log.find(std::to_string(c.resources[0].registers) + " registers"), std::string::npos);
}

TEST_F(Compile, SpillsAreCounted) {
  // Far more live values than registers: 200 sums over a launch bound of 1024 threads, 64 each.
  Source source{
      "extern \"C\" __global__ void __launch_bounds__(1024) f(const float* p, float* q) {\n"
      "  float a[200];\n"
      "#pragma unroll\n"
      "  for (int j = 0; j < 200; ++j) a[j] = p[j * 1024 + threadIdx.x];\n"
      "  for (int r = 0; r < 100; ++r) {\n"
      "#pragma unroll\n"
      "    for (int j = 0; j < 200; ++j) a[j] = a[j] * a[(j + 1) % 200] + p[r];\n"
      "  }\n"
      "#pragma unroll\n"
      "  for (int j = 0; j < 200; ++j) q[j * 1024 + threadIdx.x] = a[j];\n"
      "}\n",
      {"f"}};
  Compiled c = compile(source, ir::target_from_name("sm_80"));
  ASSERT_TRUE(c.ok) << c.log;
  EXPECT_GT(c.resources.at(0).spill_bytes, 0);
}

TEST_F(Compile, IsDeterministicAcrossThreads) {
  Fixture f = fixture("rmsnorm_one_pass");
  ir::Workload w = testing::workload(f, 16, 576, 960, ir::DType::kBF16);
  ir::Target t = ir::target_from_name("sm_80");
  Generated g = generate(f.graph, testing::default_schedule(f, w, t), w, t);
  Compiled a, b;
  std::thread other([&] { a = compile(g.sources[0], t); });
  b = compile(g.sources[0], t);
  other.join();
  EXPECT_EQ(a.sha256, b.sha256);
  EXPECT_EQ(a.source_sha256, b.source_sha256);
}

TEST_F(Compile, PtxOnlyWhenAskedFor) {
  Source source{"extern \"C\" __global__ void f(int* p) { *p = 1; }\n", {"f"}};
  ir::Target t = ir::target_from_name("sm_80");
  EXPECT_NE(compile(source, t, true).ptx.find(".target sm_80"), std::string::npos);
}

TEST_F(Compile, TheVersionIsKnown) { EXPECT_GE(std::stod(nvrtc_version()), 12.0); }

}  // namespace
}  // namespace tenon::codegen
