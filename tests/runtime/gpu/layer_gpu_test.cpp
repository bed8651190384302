// Bound layers on a GPU: every number of rows, many threads and streams, captured graphs side by
// side, foreign contexts, and that nothing is lost over many bindings.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "cache/database.h"
#include "gpu.h"
#include "ir/error.h"
#include "ir/family.h"
#include "measure/storage.h"
#include "runtime/cuda/context.h"
#include "runtime/layer.h"
#include "stored.h"
#include "verifier/numeric.h"

namespace tenon::test {
namespace {

namespace cuda = runtime::cuda;
namespace fs = std::filesystem;

double seconds_from(const char* name, double fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtod(text, nullptr);
}

// A database of winners for one workload, tuned at several m; inputs for up to kRows rows; and
// what is right, in double.
class GpuLayer : public testing::Test {
 protected:
  static constexpr std::int64_t kK = 512, kN = 384, kRows = 5000;

  void SetUp() override {
    std::string why;
    device_ = open_gpu(&why);
    if (!device_) GTEST_SKIP() << why;
    std::string pattern = (fs::temp_directory_path() / "tenon-layer-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = (folder_ / "tuning.db").string();
    make_values();
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  ir::Workload workload(std::int64_t m) const {
    return ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                             {{"m", m}, {"k", kK}, {"n", kN}}, ir::DType::kBF16);
  }

  void store(const std::string& fixture, std::int64_t m, double time_us = 10) {
    ir::MuGraph graph = embedded_fixture(fixture);
    ir::Schedule schedule;
    const ir::Workload w = workload(m);
    for (std::size_t i = 0; i < graph.kernels.size(); ++i)
      schedule.kernels.push_back(
          ir::default_schedule(ir::view(graph, i), w, device_->info().target));
    measure::Candidate candidate = compile(graph, schedule, w, device_->info().target);
    auto database = cache::Database::open(path_);
    store_winner(*database, w, graph, candidate.plan, candidate.cubins, device_->info(), time_us);
  }

  std::unique_ptr<runtime::Layer> bind(runtime::Library& library, std::int64_t m_max) {
    std::string why;
    auto layer = library.bind(workload(m_max), {}, {nullptr, g_->data(), w_->data()}, nullptr, why);
    EXPECT_NE(layer, nullptr) << why;
    return layer;
  }

  // Rows of x from `first` on, `m` of them; the outputs must be within the contract.
  void check(runtime::Layer& layer, std::int64_t m, std::int64_t first, CUstream stream,
             measure::GuardedBuffer& y) {
    y.poison();
    const void* inputs[] = {
        static_cast<char*>(x_->data()) + static_cast<std::size_t>(first * kK) * 2, nullptr,
        nullptr};
    void* outputs[] = {y.data()};
    layer.launch(inputs, outputs, m, stream, true);
    context().driver().check(context().driver().stream_synchronize(stream), "launch");
    const std::string problem = problem_of(y, m, first);
    ASSERT_EQ(problem, "") << "m=" << m << " first=" << first;
  }

  // What is wrong with the first m rows of y, which must be those of x from `first` on.
  std::string problem_of(const measure::GuardedBuffer& y, std::int64_t m,
                         std::int64_t first) const {
    std::vector<float> got =
        measure::from_bytes(y.download(), ir::DType::kBF16, 0, static_cast<std::size_t>(m * kN));
    std::vector<double> want(y64_.begin() + first * kN, y64_.begin() + (first + m) * kN);
    verifier::NumericReport report = verifier::compare(got, want, m, kN, bound_);
    std::int64_t where = 0;
    if (!y.intact(&where)) return "the memory around y was written to";
    return report.pass ? "" : report.reason.empty() ? "not accepted" : report.reason;
  }

  const cuda::Context& context() const { return *cuda::context_of(*device_); }

  std::unique_ptr<runtime::Device> device_;
  std::unique_ptr<runtime::Memory> x_, g_, w_;
  std::vector<double> y64_;
  double bound_ = 0;
  fs::path folder_;
  std::string path_;

 private:
  std::unique_ptr<runtime::Memory> put(const std::vector<float>& values) {
    auto bytes = measure::to_bytes(values, ir::DType::kBF16);
    auto memory = device_->allocate(bytes.size());
    device_->upload(memory->data(), bytes.data(), bytes.size());
    return memory;
  }

  void make_values() {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    auto draw = [&](std::int64_t count) {
      std::vector<float> values(static_cast<std::size_t>(count));
      for (float& v : values) v = ir::round_to(ir::DType::kBF16, normal(random));
      return values;
    };
    const std::vector<float> x = draw(kRows * kK), g = draw(kK), w = draw(kK * kN);
    x_ = put(x);
    g_ = put(g);
    w_ = put(w);
    y64_.assign(static_cast<std::size_t>(kRows * kN), 0);
    std::vector<float> reference(64 * kN);
    for (std::int64_t i = 0; i < kRows; ++i) {
      const float* row = &x[static_cast<std::size_t>(i * kK)];
      double squares = 0;
      for (std::int64_t l = 0; l < kK; ++l) squares += double{row[l]} * row[l];
      const double scale = 1 / std::sqrt(squares / kK + 1e-6);
      double* out = &y64_[static_cast<std::size_t>(i * kN)];
      std::vector<double> rounded(kN, 0);
      for (std::int64_t l = 0; l < kK; ++l) {
        const double exact = row[l] * scale * g[static_cast<std::size_t>(l)];
        const double cast = ir::round_to(ir::DType::kBF16, static_cast<float>(exact));
        const float* column = &w[static_cast<std::size_t>(l * kN)];
        for (std::int64_t j = 0; j < kN; ++j) out[j] += exact * column[j];
        if (i < 64)
          for (std::int64_t j = 0; j < kN; ++j)
            rounded[static_cast<std::size_t>(j)] += cast * column[j];
      }
      if (i < 64)
        for (std::int64_t j = 0; j < kN; ++j)
          reference[static_cast<std::size_t>(i * kN + j)] = ir::round_to(
              ir::DType::kBF16, static_cast<float>(rounded[static_cast<std::size_t>(j)]));
    }
    const std::vector<double> head(y64_.begin(), y64_.begin() + 64 * kN);
    bound_ = verifier::row_bound(verifier::relative_row_error(reference, head, 64, kN),
                                 ir::DType::kBF16);
  }
};

class Stream {
 public:
  explicit Stream(const cuda::Context& context) : context_(context) {
    cuda::Scope scope(context_);
    context.driver().check(context.driver().stream_create(&handle_, CU_STREAM_NON_BLOCKING),
                           "stream");
  }
  ~Stream() {
    cuda::Scope scope(context_);
    context_.driver().stream_synchronize(handle_);
    context_.driver().stream_destroy(handle_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CUstream get() const { return handle_; }

 private:
  const cuda::Context& context_;
  CUstream handle_ = nullptr;
};

std::vector<std::int64_t> sweep() {
  std::vector<std::int64_t> ms;
  for (std::int64_t m = 1; m <= 300; ++m) ms.push_back(m);
  for (std::int64_t m : {512, 1000, 1024, 4095, 4096, 5000}) ms.push_back(m);
  return ms;
}

// In order, then shuffled so that nearly every launch changes m; plans for some buckets only, of
// four forms, so that there are gaps above, within and (5000) beyond what was tuned.
TEST_F(GpuLayer, ServesEveryM) {
  store("rmsnorm_one_pass", 1);
  store("rmsnorm_gamma_folded", 16);
  store("rmsnorm_split_k", 64);
  store("rmsnorm_one_pass", 300);
  store("rmsnorm_deferred_scale", 4096);
  auto library = runtime::Library::open(path_, "cuda:0");
  auto layer = bind(*library, kRows);
  ASSERT_NE(layer, nullptr);
  EXPECT_EQ(layer->m_min(), 1);
  EXPECT_EQ(layer->m_max(), kRows);
  cuda::Scope scope(context());
  Stream stream(context());
  measure::GuardedBuffer y(*device_, static_cast<std::size_t>(kRows * kN) * 2);
  std::vector<std::int64_t> ms = sweep();
  for (std::int64_t m : ms) check(*layer, m, (m * 7) % (kRows - m + 1), stream.get(), y);
  std::shuffle(ms.begin(), ms.end(), std::mt19937(3));
  for (std::int64_t m : ms) check(*layer, m, (m * 11) % (kRows - m + 1), stream.get(), y);
  y.poison();
  const void* inputs[] = {x_->data(), nullptr, nullptr};
  void* outputs[] = {y.data()};
  layer->launch(inputs, outputs, 0, stream.get(), true);
  EXPECT_THROW(layer->launch(inputs, outputs, kRows + 1, stream.get(), true), UserError);
}

// TENON_SOAK_SECONDS: how long (default 3).
TEST_F(GpuLayer, SixteenThreadsOnSixteenStreams) {
  store("rmsnorm_split_k", 16);
  store("rmsnorm_one_pass", 64);
  store("rmsnorm_deferred_scale", 512);
  auto library = runtime::Library::open(path_, "cuda:0");
  auto layer = bind(*library, 1000);
  ASSERT_NE(layer, nullptr);
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration<double>(seconds_from("TENON_SOAK_SECONDS", 3));
  std::vector<std::string> problems(16);
  std::atomic<long> launches{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < problems.size(); ++t)
    threads.emplace_back([&, t] {
      try {
        cuda::Scope scope(context());
        Stream stream(context());
        measure::GuardedBuffer y(*device_, static_cast<std::size_t>(1000 * kN) * 2);
        std::mt19937 random(static_cast<unsigned>(t));
        for (int round = 0; problems[t].empty() && std::chrono::steady_clock::now() < end;
             ++round) {
          // Several launches into one output; the last one counts.
          std::int64_t m = 0, first = 0;
          y.poison();
          for (int i = 0; i < 8; ++i) {
            m = 1 + static_cast<std::int64_t>(random() % (round % 50 == 0 ? 1000 : 70));
            first = static_cast<std::int64_t>(random() % static_cast<unsigned>(kRows - m + 1));
            const void* inputs[] = {
                static_cast<char*>(x_->data()) + static_cast<std::size_t>(first * kK) * 2, nullptr,
                nullptr};
            void* outputs[] = {y.data()};
            layer->launch(inputs, outputs, m, stream.get(), i % 2 == 0);
            ++launches;
          }
          context().driver().check(context().driver().stream_synchronize(stream.get()), "launch");
          problems[t] = problem_of(y, m, first);
        }
      } catch (const std::exception& e) {
        problems[t] = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(problems, std::vector<std::string>(16));
  EXPECT_GT(launches.load(), 16 * 8);
  std::printf("%ld launches from 16 threads\n", launches.load());
}

// Two graphs captured from one stream, replayed on two streams at once beside direct launches on a
// third: scratch must not be shared.
TEST_F(GpuLayer, GraphsRunBesideEachOtherAndDirectLaunches) {
  store("rmsnorm_split_k", 64);
  auto library = runtime::Library::open(path_, "cuda:0");
  auto layer = bind(*library, 64);
  ASSERT_NE(layer, nullptr);
  cuda::Scope scope(context());
  const cuda::Driver& d = context().driver();
  Stream capture(context()), first(context()), second(context());
  struct Replayed {
    CUgraphExec exec = nullptr;
    std::unique_ptr<measure::GuardedBuffer> y;
    std::int64_t row = 0;
  };
  std::vector<Replayed> graphs(2);
  for (std::size_t i = 0; i < 2; ++i) {
    graphs[i].row = 100 * static_cast<std::int64_t>(i);
    graphs[i].y = std::make_unique<measure::GuardedBuffer>(*device_, std::size_t{64 * kN * 2});
    const void* inputs[] = {
        static_cast<char*>(x_->data()) + static_cast<std::size_t>(graphs[i].row * kK) * 2, nullptr,
        nullptr};
    void* outputs[] = {graphs[i].y->data()};
    d.check(d.stream_begin_capture(capture.get(), CU_STREAM_CAPTURE_MODE_GLOBAL), "capture");
    for (int k = 0; k < 20; ++k) layer->launch(inputs, outputs, 64, capture.get(), true);
    CUgraph graph = nullptr;
    d.check(d.stream_end_capture(capture.get(), &graph), "capture");
    d.check(d.graph_instantiate(&graphs[i].exec, graph, 0), "instantiate");
    d.graph_destroy(graph);
  }
  measure::GuardedBuffer direct(*device_, std::size_t{64 * kN * 2});
  for (int round = 0; round < 50; ++round) {
    for (Replayed& g : graphs) g.y->poison();
    direct.poison();
    d.check(d.graph_launch(graphs[0].exec, first.get()), "replay");
    d.check(d.graph_launch(graphs[1].exec, second.get()), "replay");
    const void* inputs[] = {static_cast<char*>(x_->data()) + std::size_t{400 * kK * 2}, nullptr,
                            nullptr};
    void* outputs[] = {direct.data()};
    for (int k = 0; k < 20; ++k) layer->launch(inputs, outputs, 64, capture.get(), true);
    for (CUstream s : {first.get(), second.get(), capture.get()})
      d.check(d.stream_synchronize(s), "replay");
    for (Replayed& g : graphs) ASSERT_EQ(problem_of(*g.y, 64, g.row), "");
    ASSERT_EQ(problem_of(direct, 64, 400), "");
  }
  for (Replayed& g : graphs) d.graph_exec_destroy(g.exec);
}

// TENON_CYCLES: how many (default 300). The first cycles load what stays.
TEST_F(GpuLayer, OpenBindCloseLosesNothing) {
  store("rmsnorm_split_k", 16);
  store("rmsnorm_gamma_folded", 64);
  const int cycles = static_cast<int>(seconds_from("TENON_CYCLES", 300));
  const cuda::Driver& d = context().driver();
  cuda::Scope scope(context());
  auto free_bytes = [&] {
    std::size_t free = 0, total = 0;
    d.check(d.memory_info(&free, &total), "memory");
    return free;
  };
  auto resident_pages = [] {
    long size = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> size >> resident;
    return resident;
  };
  measure::GuardedBuffer y(*device_, std::size_t{64 * kN * 2});
  std::size_t gpu_before = 0;
  long host_before = 0;
  for (int i = 0; i < cycles; ++i) {
    auto library = runtime::Library::open(path_, "cuda:0");
    auto layer = bind(*library, 64);
    ASSERT_NE(layer, nullptr);
    if (i % 100 == 0) check(*layer, 40, 3, nullptr, y);
    layer.reset();
    library.reset();
    if (i == std::min(100, cycles / 2)) {
      gpu_before = free_bytes();
      host_before = resident_pages();
    }
  }
  const std::size_t gpu_after = free_bytes();
  const long host_after = resident_pages();
  std::printf("%d cycles: GPU memory %+lld bytes, host memory %+ld pages\n", cycles,
              static_cast<long long>(gpu_before) - static_cast<long long>(gpu_after),
              host_after - host_before);
  EXPECT_GE(gpu_after + (std::size_t{4} << 20), gpu_before);
  EXPECT_LE(host_after - host_before, 4096);  // 16 MB: what the allocator keeps back
}

// Another context is current: the launch works in the primary one and leaves the other in place.
TEST_F(GpuLayer, LeavesAForeignContextCurrent) {
  store("rmsnorm_one_pass", 16);
  auto library = runtime::Library::open(path_, "cuda:0");
  auto layer = bind(*library, 16);
  ASSERT_NE(layer, nullptr);
  measure::GuardedBuffer y(*device_, std::size_t{16 * kN * 2});
  const cuda::Driver& d = context().driver();
  std::thread([&] {
    CUcontext before = nullptr, after = nullptr;
    d.context_current(&before);
    EXPECT_EQ(before, nullptr);  // a new thread has none
    const void* inputs[] = {x_->data(), nullptr, nullptr};
    void* outputs[] = {y.data()};
    layer->launch(inputs, outputs, 16, nullptr, true);
    device_->synchronize();
    d.context_current(&after);
    EXPECT_EQ(after, nullptr);
  }).join();
  EXPECT_EQ(problem_of(y, 16, 0), "");
}

TEST_F(GpuLayer, NamesWhatIsNearest) {
  store("rmsnorm_one_pass", 16);
  auto library = runtime::Library::open(path_, "cuda:0");
  std::string why;
  auto other = ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                                 {{"m", 16}, {"k", kK}, {"n", kN + 8}}, ir::DType::kBF16);
  EXPECT_EQ(library->bind(other, {}, {nullptr, g_->data(), w_->data()}, nullptr, why), nullptr);
  EXPECT_NE(why.find("384"), std::string::npos) << why;
  EXPECT_THROW(runtime::Library::open((folder_ / "none.db").string(), "cuda:0"), UserError);
  EXPECT_THROW(runtime::Library::open(path_, "cuda:99"), DeviceError);
}

}  // namespace
}  // namespace tenon::test
