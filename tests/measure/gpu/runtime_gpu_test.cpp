// The CUDA device and its executables: memory, loading, launching, capture, streams.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "device_case.h"
#include "gpu.h"
#include "ir/error.h"
#include "ir/family.h"
#include "ir/sha256.h"
#include "measure/families.h"
#include "measure/storage.h"
#include "runtime/cuda/context.h"
#include "runtime/cuda/library.h"

namespace tenon::test {
namespace {

namespace cuda = runtime::cuda;

TEST(CudaDevice, DescribesItself) {
  TENON_REQUIRE_GPU(device);
  const runtime::DeviceInfo& info = device->info();
  EXPECT_EQ(info.id, "cuda:0");
  EXPECT_EQ(info.device_class.rfind("sm_", 0), 0u);
  EXPECT_EQ(info.target.name, info.device_class);
  EXPECT_GT(info.target.sm_count, 0);
  EXPECT_GT(info.target.l2_bytes, 1 << 20);
  EXPECT_GE(info.target.shared_bytes_per_block, 48 << 10);
  EXPECT_NE(info.driver.find("CUDA"), std::string::npos);
  EXPECT_THROW(runtime::open_device("cuda:999"), DeviceError);
}

TEST(CudaDevice, MovesBytes) {
  TENON_REQUIRE_GPU(device);
  std::vector<std::uint8_t> from(100003), to(100003);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 7);
  auto memory = device->allocate(from.size());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->data()) % 256, 0u);
  device->upload(memory->data(), from.data(), from.size());
  device->download(to.data(), memory->data(), to.size());
  EXPECT_EQ(from, to);
  device->fill(memory->data(), 0x5a, 50);
  device->download(to.data(), memory->data(), to.size());
  EXPECT_EQ(to[49], 0x5a);
  EXPECT_EQ(to[50], from[50]);
  EXPECT_THROW(device->allocate(std::size_t{1} << 50), DeviceError);
}

TEST(CudaExecutable, RefusesWhatDoesNotFit) {
  TENON_REQUIRE_GPU(device);
  DeviceCase bench(*device, "rmsnorm_one_pass", 3, 100, 7, ir::DType::kBF16);
  EXPECT_THROW(device->load(bench.candidate.plan, {}), UserError);
  auto cubins = bench.candidate.cubins;
  cubins[0][100] = static_cast<char>(cubins[0][100] ^ 1);
  EXPECT_THROW(device->load(bench.candidate.plan, cubins), UserError);
  ir::LaunchPlan plan = bench.candidate.plan;
  plan.device_class = "sm_70";
  EXPECT_THROW(device->load(plan, bench.candidate.cubins), UserError);
  plan = bench.candidate.plan;
  plan.main[0].entry = "no_such_kernel";
  EXPECT_THROW(device->load(plan, bench.candidate.cubins), DeviceError);
  plan = bench.candidate.plan;
  plan.main[0].shared_bytes = 10 << 20;
  EXPECT_THROW(device->load(plan, bench.candidate.cubins), DeviceError);
  // Not a cubin at all, but with a matching checksum.
  plan = bench.candidate.plan;
  cubins = bench.candidate.cubins;
  cubins[0] = "not a cubin";
  plan.modules[0].cubin_sha256 = ir::sha256_hex(cubins[0]);
  EXPECT_THROW(device->load(plan, cubins), DeviceError);
}

TEST(CudaExecutable, ChecksCalls) {
  TENON_REQUIRE_GPU(device);
  DeviceCase bench(*device, "rmsnorm_one_pass", 3, 100, 7, ir::DType::kBF16);
  auto executable = device->load(bench.candidate.plan, bench.candidate.cubins);
  auto out = bench.output();
  void* outputs[] = {out->data()};
  EXPECT_THROW(executable->launch(bench.inputs.data(), outputs, 3, nullptr),
               UserError);  // not prepared
  executable->prepare(bench.inputs, nullptr);
  EXPECT_THROW(
      executable->launch(bench.inputs.data(), outputs, bench.candidate.plan.m_max + 1, nullptr),
      UserError);
  executable->launch(bench.inputs.data(), outputs, 0, nullptr);
  device->synchronize();
  EXPECT_EQ(bench.bytes(*out),
            std::vector<std::byte>(bench.output_bytes, std::byte{0xff}));  // untouched
}

// Replays of a captured graph give what direct launches give.
TEST(CudaExecutable, IsLegalInStreamCapture) {
  TENON_REQUIRE_GPU(device);
  for (const std::string& fixture :
       {std::string("rmsnorm_unfused"), std::string("rmsnorm_one_pass"),
        std::string("rmsnorm_split_k")}) {
    DeviceCase bench(*device, fixture, 16, 576, 960, ir::DType::kBF16);
    auto executable = device->load(bench.candidate.plan, bench.candidate.cubins);
    executable->prepare(bench.inputs, nullptr);
    std::vector<std::byte> direct = bench.run(*executable);

    auto context = cuda::context_of(*device);
    const cuda::Driver& d = context->driver();
    cuda::Scope scope(*context);
    CUstream stream = nullptr;
    d.check(d.stream_create(&stream, CU_STREAM_NON_BLOCKING), "stream");
    auto out = bench.output();
    void* outputs[] = {out->data()};
    d.check(d.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "capture");
    for (int i = 0; i < 3; ++i) executable->launch(bench.inputs.data(), outputs, 16, stream);
    CUgraph graph = nullptr;
    d.check(d.stream_end_capture(stream, &graph), "capture");
    CUgraphExec exec = nullptr;
    d.check(d.graph_instantiate(&exec, graph, 0), "instantiate");
    for (int i = 0; i < 5; ++i) d.check(d.graph_launch(exec, stream), "replay");
    d.check(d.stream_synchronize(stream), "replay");
    EXPECT_EQ(bench.bytes(*out), direct) << fixture;
    d.graph_exec_destroy(exec);
    d.graph_destroy(graph);
    d.stream_destroy(stream);
  }
}

// Threads that launch one executable on streams of their own do not disturb each other, with
// workspace (split reductions) and without.
TEST(CudaExecutable, LaunchesFromManyThreadsAndStreams) {
  TENON_REQUIRE_GPU(device);
  for (const std::string& fixture :
       {std::string("rmsnorm_split_k"), std::string("rmsnorm_deferred_scale")}) {
    DeviceCase bench(*device, fixture, 16, 576, 960, ir::DType::kBF16);
    auto executable = device->load(bench.candidate.plan, bench.candidate.cubins);
    executable->prepare(bench.inputs, nullptr);
    device->synchronize();
    std::vector<std::byte> want = bench.run(*executable);
    auto context = cuda::context_of(*device);
    const cuda::Driver& d = context->driver();
    std::vector<int> wrong(16, 0);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t)
      threads.emplace_back([&, t] {
        cuda::Scope scope(*context);
        CUstream stream = nullptr;
        d.stream_create(&stream, CU_STREAM_NON_BLOCKING);
        auto out = bench.output();
        void* outputs[] = {out->data()};
        for (int round = 0; round < 20; ++round) {
          for (int i = 0; i < 10; ++i)
            executable->launch(bench.inputs.data(), outputs, 16, stream, i % 2 == 0);
          d.stream_synchronize(stream);
          wrong[t] += bench.bytes(*out) != want;
        }
        d.stream_destroy(stream);
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong, std::vector<int>(16, 0)) << fixture;
  }
}

// A second binding of the plan has weights of its own.
TEST(CudaExecutable, ReplicasHaveTheirOwnWeights) {
  TENON_REQUIRE_GPU(device);
  DeviceCase bench(*device, "rmsnorm_gamma_folded", 4, 64, 32, ir::DType::kF32);
  auto first = device->load(bench.candidate.plan, bench.candidate.cubins);
  auto second = first->replicate();
  first->prepare(bench.inputs, nullptr);
  std::vector<std::byte> before = bench.run(*first);
  // All gains 0: the second answers zeros, the first what it did.
  auto gains = device->allocate(64 * 4);
  device->fill(gains->data(), 0, 64 * 4);
  std::vector<const void*> other = bench.inputs;
  other[1] = gains->data();
  second->prepare(other, nullptr);
  EXPECT_EQ(bench.run(*first), before);
  auto out = bench.output();
  void* outputs[] = {out->data()};
  second->launch(other.data(), outputs, 4, nullptr);
  device->synchronize();
  EXPECT_EQ(bench.bytes(*out), std::vector<std::byte>(bench.output_bytes, std::byte{0}));
}

// The vendor's product against float64, in both layouts of b.
TEST(CublasLt, EqualsTheSumInFloat64) {
  TENON_REQUIRE_GPU(device);
  std::string why;
  if (cuda::cublas_lt(&why) == nullptr) GTEST_SKIP() << why;
  auto context = cuda::context_of(*device);
  cuda::Scope scope(*context);
  const std::int64_t m = 5, n = 48, k = 72;
  for (bool transposed : {false, true})
    for (int algorithm : {0, 1}) {
      std::vector<float> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
      for (std::size_t i = 0; i < a.size(); ++i)
        a[i] = ir::round_to(ir::DType::kBF16, static_cast<float>(std::sin(static_cast<double>(i))));
      for (std::size_t i = 0; i < b.size(); ++i)
        b[i] = ir::round_to(ir::DType::kBF16,
                            static_cast<float>(std::cos(static_cast<double>(3 * i))));
      auto put = [&](const std::vector<float>& v) {
        auto bytes = measure::to_bytes(v, ir::DType::kBF16);
        auto memory = device->allocate(bytes.size());
        device->upload(memory->data(), bytes.data(), bytes.size());
        return memory;
      };
      auto ma = put(a), mb = put(b), mo = device->allocate(static_cast<std::size_t>(m * n) * 2),
           ws = device->allocate(cuda::kLibraryWorkspaceBytes);
      cuda::LibraryProduct product(n, k, ir::DType::kBF16, ir::DType::kBF16, transposed, algorithm);
      auto address = [](runtime::Memory& x) { return reinterpret_cast<CUdeviceptr>(x.data()); };
      product.launch(m, address(*ma), address(*mb), address(*mo), address(*ws), nullptr);
      device->synchronize();
      std::vector<std::byte> bytes(static_cast<std::size_t>(m * n) * 2);
      device->download(bytes.data(), mo->data(), bytes.size());
      std::vector<float> y =
          measure::from_bytes(bytes, ir::DType::kBF16, 0, static_cast<std::size_t>(m * n));
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::int64_t p = 0; p < k; ++p)
            sum += static_cast<double>(a[static_cast<std::size_t>(i * k + p)]) *
                   b[static_cast<std::size_t>(transposed ? j * k + p : p * n + j)];
          ASSERT_NEAR(y[static_cast<std::size_t>(i * n + j)], sum, 0.01 * (1 + std::abs(sum)));
        }
    }
}

}  // namespace
}  // namespace tenon::test
