// Kernels that are wrong by what a loose norm-wise tolerance lets through: acceptance on the
// device has to refuse them. Each is a right kernel whose generated source is edited in one place.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpu.h"
#include "ir/schedule.h"
#include "source_mutants.h"

namespace tenon::test {
namespace {

struct WrongKernel {
  const char* name;
  ir::DType dtype;
  std::int64_t m, k, n;
  const char* from;  // in the source of some kernel, once
  const char* to;
};

const WrongKernel kWrong[] = {
    {"Tf32OperandsInFp32", ir::DType::kF32, 24, 328, 96, "fmaf(a[r][k], b[k][j], out[j])",
     "fmaf(__uint_as_float((__float_as_uint(a[r][k]) + 0x1000u) & 0xffffe000u), "
     "__uint_as_float((__float_as_uint(b[k][j]) + 0x1000u) & 0xffffe000u), out[j])"},
    {"Bf16OperandsInFp16", ir::DType::kF16, 24, 328, 96, "mma_m16n8k16_fp16(d, a, b0, b1);",
     "auto narrowed = [](unsigned w) { return Element<Fp16>::pack("
     "round_to<Bf16>(Element<Fp16>::low(w)), round_to<Bf16>(Element<Fp16>::high(w))); }; "
     "const unsigned r[4] = {narrowed(a[0]), narrowed(a[1]), narrowed(a[2]), narrowed(a[3])}; "
     "mma_m16n8k16_fp16(d, r, narrowed(b0), narrowed(b1));"},
    {"ThirtyTwoColumnsMissingFromTheSquares", ir::DType::kBF16, 8, 4096, 64,
     "for (int j = 0; j < V; ++j) Pass::accumulate(s, row, others, x.at(j), j);",
     "for (int j = 0; j < V; ++j) if (k >= 32) Pass::accumulate(s, row, others, x.at(j), j);"},
    {"OneZeroedElementAmongMany", ir::DType::kBF16, 50, 64, 3000,
     "y[j] = j < valid ? apply<E>(args, row, tile, r, c, j, m, n + j) : 0.f;",
     "y[j] = j < valid && !(m == 37 && n + j == 1234) ? "
     "apply<E>(args, row, tile, r, c, j, m, n + j) : 0.f;"},
};

ir::Workload workload_of(const WrongKernel& wrong) {
  return ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                           {{"m", wrong.m}, {"k", wrong.k}, {"n", wrong.n}}, wrong.dtype);
}

// The right kernel, and the wrong one.
std::pair<measure::Candidate, measure::Candidate> build(const WrongKernel& wrong,
                                                        const ir::Target& target) {
  const ir::Schedule schedule = ir::parse_schedule(
      "rows(group=32, threads=128); "
      "contraction(stages=2, tile_k=32, tile_m=16, tile_n=32, warps_m=1, warps_n=1)");
  const codegen::Generated generated = codegen::generate(embedded_fixture("rmsnorm_gamma_folded"),
                                                         schedule, workload_of(wrong), target);
  std::pair<measure::Candidate, measure::Candidate> out;
  for (measure::Candidate* candidate : {&out.first, &out.second}) {
    candidate->plan = generated.plan;
    bool edited = false;
    for (std::size_t i = 0; i < generated.sources.size(); ++i) {
      codegen::Source source{flatten(generated.sources[i].text), generated.sources[i].entries};
      const std::size_t at = source.text.find(wrong.from);
      if (candidate == &out.second && at != std::string::npos) {
        source.text.replace(at, std::string(wrong.from).size(), wrong.to);
        edited = true;
      }
      const codegen::Compiled compiled = codegen::compile(source, target);
      if (!compiled.ok) throw std::runtime_error(compiled.log);
      candidate->plan.modules[i].cubin_sha256 = compiled.sha256;
      candidate->cubins.push_back(compiled.cubin);
    }
    if (candidate == &out.second && !edited)
      throw std::runtime_error(fmt::format("no kernel has \"{}\"", wrong.from));
  }
  return out;
}

class WrongKernelsOnGpu : public testing::TestWithParam<WrongKernel> {};

TEST_P(WrongKernelsOnGpu, IsRefused) {
  TENON_REQUIRE_GPU(device);
  const WrongKernel& wrong = GetParam();
  const auto [right, edited] = build(wrong, device->info().target);
  auto runner = measure::make_local_runner("cuda:0", workload_of(wrong));
  const verifier::Evidence good = runner->accept(right, 1);
  EXPECT_EQ(good.verdict, verifier::Verdict::kPass) << good.reason;
  const verifier::Evidence bad = runner->accept(edited, 1);
  EXPECT_EQ(bad.verdict, verifier::Verdict::kRefuted) << bad.reason;
  std::printf("%s\n", bad.reason.c_str());
}

// Without a GPU: the edits are found, and they change the code.
TEST_P(WrongKernelsOnGpu, IsOtherCode) {
  std::string why;
  if (!codegen::nvrtc_available(&why)) GTEST_SKIP() << why;
  const auto [right, edited] = build(GetParam(), ir::target_from_name("sm_90a"));
  EXPECT_NE(right.cubins, edited.cubins);
}

INSTANTIATE_TEST_SUITE_P(Loose, WrongKernelsOnGpu, testing::ValuesIn(kWrong),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon::test
