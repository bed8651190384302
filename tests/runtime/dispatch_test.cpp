// Which plan serves which m: the table against the database's own answer for every m, chunks where
// nothing is valid, and what is passed over.
#include "runtime/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "cache/database.h"
#include "host_plan.h"
#include "ir/error.h"
#include "runtime/layer.h"
#include "runtime/load.h"
#include "runtime/residence.h"
#include "stored.h"

namespace tenon::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kK = 24, kN = 10;

class Dispatch : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tenon-dispatch-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = (folder_ / "tuning.db").string();
    device_ = open_device("host");
  }
  void TearDown() override { fs::remove_all(folder_); }

  ir::Workload workload(std::int64_t m) const {
    return ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                             {{"m", m}, {"k", kK}, {"n", kN}}, ir::DType::kF32);
  }

  // A host plan tuned at m and valid from `low` to `high`.
  std::int64_t store(const std::string& fixture, std::int64_t m, std::int64_t low,
                     std::int64_t high, double time_us = 2, const std::string& schedule = "") {
    ir::MuGraph graph = test::fixture(fixture);
    ir::LaunchPlan plan =
        test::host_plan(graph, {{"m", m}, {"k", kK}, {"n", kN}}, ir::DType::kF32, {"host", {}});
    const ir::Workload w = workload(m);
    plan.workload_key = ir::key(w);
    plan.m_min = low;
    plan.m_max = high;
    // Its launches read what prepare made of the parameters alone.
    if (fixture == "rmsnorm_gamma_folded")
      plan.buffers[1].in_main = plan.buffers[2].in_main = false;
    auto database = cache::Database::open(path_);
    return test::store_winner(*database, w, graph, plan, {}, device_->info(), time_us, schedule);
  }

  cache::Query query(std::int64_t m) const { return make_query(workload(m), device_->info()); }

  // Every m of the table is served by what `best` answers for it, or in chunks where it answers
  // nothing.
  void expect_as_best(std::int64_t m_max) {
    auto database = cache::Database::open(path_, true);
    std::string why;
    DispatchTable table = make_dispatch(*database, query(1), 1, m_max, true, why);
    ASSERT_FALSE(table.segments.empty()) << why;
    EXPECT_EQ(table.segments.front().low, 1);
    EXPECT_EQ(table.segments.back().high, m_max);
    std::int64_t largest = 0;
    for (std::size_t i = 0; i < table.segments.size(); ++i) {
      const Segment& s = table.segments[i];
      EXPECT_EQ(s.low, i == 0 ? 1 : table.segments[i - 1].high + 1);
      for (std::int64_t m = s.low; m <= s.high; ++m) {
        auto stored = database->best(query(m));
        if (stored) {
          ASSERT_EQ(s.chunk, 0) << m;
          ASSERT_EQ(table.plans[s.plan].plan.id, stored->plan.id) << m;
          largest = m;
        } else {
          ASSERT_EQ(s.chunk, largest) << m;
        }
      }
    }
  }

  fs::path folder_;
  std::string path_;
  std::unique_ptr<Device> device_;
};

TEST_F(Dispatch, IsWhatTheDatabaseAnswersForEveryM) {
  store("rmsnorm_one_pass", 1, 1, 1);
  store("rmsnorm_gamma_folded", 16, 1, 16, 5);
  store("rmsnorm_one_pass", 16, 1, 16, 3);
  store("rmsnorm_unfused", 64, 1, 64);
  store("rmsnorm_one_pass", 300, 1, 320);
  store("rmsnorm_deferred_scale", 4096, 1, 4096);
  expect_as_best(300);
  expect_as_best(700);
}

TEST_F(Dispatch, IntervalsThatBeginLateOrOverlap) {
  store("rmsnorm_one_pass", 10, 1, 40);
  store("rmsnorm_unfused", 20, 15, 22);
  store("rmsnorm_one_pass", 30, 25, 32);
  expect_as_best(90);
}

TEST_F(Dispatch, ChunksOnlyWhatIsRowWise) {
  store("rmsnorm_one_pass", 16, 1, 16);
  auto database = cache::Database::open(path_, true);
  std::string why;
  DispatchTable table = make_dispatch(*database, query(1), 1, 100, true, why);
  ASSERT_EQ(table.segments.size(), 2u);
  EXPECT_EQ(table.segments[1].chunk, 16);
  table = make_dispatch(*database, query(1), 40, 100, true, why);  // nothing from 40 on is valid
  ASSERT_FALSE(table.segments.empty());
  EXPECT_EQ(table.segments.back().chunk, 16);
  table = make_dispatch(*database, query(1), 1, 100, false, why);
  EXPECT_TRUE(table.segments.empty());
  EXPECT_NE(why.find("m=17"), std::string::npos) << why;
  EXPECT_TRUE(is_row_wise(ir::catalog_program("rmsnorm_linear")));
  EXPECT_FALSE(
      is_row_wise(ir::parse_program("program total\ndims m, k\ninput x: T[m, k] activation\n"
                                    "%s = sum(x, m)\n%c = cast(%s, T)\noutput y: T = %c\n")));
}

TEST_F(Dispatch, NothingBelowTheFirstIntervalIsSaid) {
  store("rmsnorm_one_pass", 16, 9, 16);
  auto database = cache::Database::open(path_, true);
  std::string why;
  EXPECT_TRUE(make_dispatch(*database, query(1), 1, 16, true, why).segments.empty());
  EXPECT_NE(why.find("m=1"), std::string::npos) << why;
  EXPECT_FALSE(make_dispatch(*database, query(1), 9, 16, true, why).segments.empty());
}

TEST_F(Dispatch, PlansThatNeedTheDeviceAreForExclusiveLayers) {
  EXPECT_TRUE(needs_residence("gemm(statistics=3)"));
  EXPECT_TRUE(needs_residence("rows(threads=256); gemm(statistics=2)"));
  EXPECT_TRUE(needs_residence("gemm(statistics=5)"));
  EXPECT_FALSE(needs_residence("gemm(statistics=4)"));
  EXPECT_FALSE(needs_residence("small_m(rows=16)"));
  EXPECT_TRUE(needs_residence("no schedule ("));
  const std::int64_t fast = store("rmsnorm_one_pass", 16, 1, 16, 1, "gemm(statistics=3)");
  std::vector<float> g(kK, 1), w(kK * kN, 1);
  const std::vector<const void*> inputs = {nullptr, g.data(), w.data()};
  auto library = Library::open(path_, "host");
  std::string why;
  EXPECT_EQ(library->bind(workload(16), {}, inputs, nullptr, why), nullptr);
  EXPECT_NE(why.find("exclusive"), std::string::npos) << why;
  BindOptions exclusive;
  exclusive.exclusive = true;
  auto layer = library->bind(workload(16), exclusive, inputs, nullptr, why);
  ASSERT_NE(layer, nullptr) << why;
  EXPECT_EQ(layer->plan(layer->segment(16)).plan.id, fast);
  const std::int64_t slow = store("rmsnorm_unfused", 16, 1, 16, 9);
  library = Library::open(path_, "host");
  layer = library->bind(workload(16), {}, inputs, nullptr, why);
  ASSERT_NE(layer, nullptr) << why;
  EXPECT_EQ(layer->plan(layer->segment(16)).plan.id, slow);
}

// x and what is right, computed here in double.
struct Values {
  std::vector<float> x, g, w;
  std::vector<double> y;
  explicit Values(std::int64_t rows) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    auto fill = [&](std::vector<float>& v, std::int64_t count) {
      v.resize(static_cast<std::size_t>(count));
      for (float& e : v) e = normal(random);
    };
    fill(x, rows * kK);
    fill(g, kK);
    fill(w, kK * kN);
    y.assign(static_cast<std::size_t>(rows * kN), 0);
    for (std::int64_t i = 0; i < rows; ++i) {
      double squares = 0;
      for (std::int64_t l = 0; l < kK; ++l) squares += std::pow(at(x, i * kK + l), 2);
      const double scale = 1 / std::sqrt(squares / kK + 1e-6);
      for (std::int64_t l = 0; l < kK; ++l)
        for (std::int64_t j = 0; j < kN; ++j)
          y[static_cast<std::size_t>(i * kN + j)] +=
              at(x, i * kK + l) * scale * at(g, l) * at(w, l * kN + j);
    }
  }
  static double at(const std::vector<float>& v, std::int64_t i) {
    return v[static_cast<std::size_t>(i)];
  }
  // Is `out` the result of `m` rows from `first` on, and untouched behind?
  bool right(const std::vector<float>& out, std::int64_t m, std::int64_t first) const {
    for (std::int64_t i = 0; i < m * kN; ++i)
      if (!(std::abs(at(out, i) - y[static_cast<std::size_t>(first * kN + i)]) <= 1e-4))
        return false;
    return out[static_cast<std::size_t>(m * kN)] == -7;
  }
};

TEST_F(Dispatch, LayersServeEveryMInAnyOrder) {
  store("rmsnorm_one_pass", 1, 1, 1);
  store("rmsnorm_gamma_folded", 16, 1, 16);
  store("rmsnorm_split_k", 64, 1, 64);
  store("rmsnorm_deferred_scale", 300, 1, 320);
  const std::int64_t rows = 5000;
  Values values(rows);
  auto library = Library::open(path_, "host");
  std::string why;
  auto layer =
      library->bind(workload(rows), {}, {nullptr, values.g.data(), values.w.data()}, nullptr, why);
  ASSERT_NE(layer, nullptr) << why;
  std::vector<std::int64_t> ms;
  for (std::int64_t m = 1; m <= 300; ++m) ms.push_back(m);
  for (std::int64_t m : {512, 1000, 1024, 4095, 4096, 5000}) ms.push_back(m);
  std::shuffle(ms.begin(), ms.end(), std::mt19937(2));
  for (std::int64_t m : ms) {
    const std::int64_t first = (m * 7) % (rows - m + 1);
    std::vector<float> out(static_cast<std::size_t>(m * kN + 1), -7);
    const void* inputs[] = {&values.x[static_cast<std::size_t>(first * kK)], nullptr, nullptr};
    void* outputs[] = {out.data()};
    layer->launch(inputs, outputs, m, nullptr, true);
    ASSERT_TRUE(values.right(out, m, first)) << m;
  }
  const void* inputs[] = {values.x.data(), nullptr, nullptr};
  void* outputs[] = {nullptr};
  layer->launch(inputs, outputs, 0, nullptr, true);
  EXPECT_THROW(layer->launch(inputs, outputs, rows + 1, nullptr, true), UserError);
  EXPECT_THROW(layer->launch(inputs, outputs, -1, nullptr, true), UserError);
}

// TENON_SOAK_SECONDS: how long (default 1); 30 under ThreadSanitizer in
// scripts/sanitize.sh.
TEST_F(Dispatch, SixteenThreads) {
  store("rmsnorm_gamma_folded", 4, 1, 4);
  store("rmsnorm_split_k", 16, 1, 16);
  Values values(64);
  auto library = Library::open(path_, "host");
  std::string why;
  auto layer =
      library->bind(workload(40), {}, {nullptr, values.g.data(), values.w.data()}, nullptr, why);
  ASSERT_NE(layer, nullptr) << why;
  const char* given = std::getenv("TENON_SOAK_SECONDS");
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration<double>(given ? std::strtod(given, nullptr) : 1);
  std::vector<int> wrong(16, 0), done(16, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      do {
        const auto m = static_cast<std::int64_t>(1 + random() % 40);
        const auto first = static_cast<std::int64_t>(random() % static_cast<unsigned>(65 - m));
        std::vector<float> out(static_cast<std::size_t>(m * kN + 1), -7);
        const void* inputs[] = {&values.x[static_cast<std::size_t>(first * kK)], nullptr, nullptr};
        void* outputs[] = {out.data()};
        layer->launch(inputs, outputs, m, &wrong[t], true);
        wrong[t] += !values.right(out, m, first);
        ++done[t];
        if (t == 0 && done[t] % 50 == 0) {  // binding meanwhile disturbs nobody
          std::string ignored;
          auto other = library->bind(workload(16), {}, {nullptr, values.g.data(), values.w.data()},
                                     nullptr, ignored);
          wrong[t] += other == nullptr;
        }
      } while (std::chrono::steady_clock::now() < end);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(16, 0));
  for (int n : done) EXPECT_GT(n, 0);
}

// TENON_CYCLES: how many (default 200).
TEST_F(Dispatch, OpenBindCloseLosesNothing) {
  store("rmsnorm_gamma_folded", 16, 1, 16);
  std::vector<float> g(kK, 1), w(kK * kN, 1);
  auto open_files = [] {
    int count = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++count;
    return count;
  };
  const char* given = std::getenv("TENON_CYCLES");
  const int cycles = given ? std::atoi(given) : 200, before = open_files();
  for (int i = 0; i < cycles; ++i) {
    std::string why;
    auto library = Library::open(path_, "host");
    ASSERT_NE(library->bind(workload(16), {}, {nullptr, g.data(), w.data()}, nullptr, why),
              nullptr);
  }
  EXPECT_EQ(open_files(), before);
}

TEST_F(Dispatch, ParametersThatNoLaunchReadsMayGo) {
  store("rmsnorm_gamma_folded", 16, 1, 16);
  Values values(16);
  auto library = Library::open(path_, "host");
  std::string why;
  auto layer =
      library->bind(workload(16), {}, {nullptr, values.g.data(), values.w.data()}, nullptr, why);
  ASSERT_NE(layer, nullptr) << why;
  EXPECT_FALSE(layer->reads(1));
  EXPECT_FALSE(layer->reads(2));
  std::fill(values.g.begin(), values.g.end(), NAN);
  std::fill(values.w.begin(), values.w.end(), NAN);
  std::vector<float> out(16 * kN + 1, -7);
  const void* inputs[] = {values.x.data(), nullptr, nullptr};
  void* outputs[] = {out.data()};
  layer->launch(inputs, outputs, 16, nullptr, true);
  EXPECT_TRUE(values.right(out, 16, 0));
}

TEST_F(Dispatch, KeptWeightsAreServedByPlansWithoutACopy) {
  const std::int64_t folded = store("rmsnorm_gamma_folded", 16, 1, 16, 1);
  Values values(16);
  const std::vector<const void*> inputs = {nullptr, values.g.data(), values.w.data()};
  ir::Workload keep = workload(16);
  keep.keep_weights = true;
  EXPECT_EQ(ir::key(keep), ir::key(workload(16)));
  std::string why;
  auto library = Library::open(path_, "host");
  EXPECT_EQ(library->bind(keep, {}, inputs, nullptr, why), nullptr);
  EXPECT_NE(why.find("copy of the weights"), std::string::npos) << why;
  // A slower plan that reads w serves those who ask for it, and nobody else.
  const std::int64_t plain = store("rmsnorm_unfused", 16, 1, 16, 9);
  library = Library::open(path_, "host");
  auto layer = library->bind(workload(16), {}, inputs, nullptr, why);
  ASSERT_NE(layer, nullptr) << why;
  EXPECT_EQ(layer->plan(layer->segment(16)).plan.id, folded);
  layer = library->bind(keep, {}, inputs, nullptr, why);
  ASSERT_NE(layer, nullptr) << why;
  EXPECT_EQ(layer->plan(layer->segment(16)).plan.id, plain);
  EXPECT_TRUE(layer->reads(2));
  std::vector<float> out(16 * kN + 1, -7);
  const void* x[] = {values.x.data(), nullptr, nullptr};
  void* outputs[] = {out.data()};
  layer->launch(x, outputs, 16, nullptr, true);
  EXPECT_TRUE(values.right(out, 16, 0));
}

// Rows of x and y apart, in one call and in chunks: what lies between rows is neither read nor
// written.
TEST_F(Dispatch, RowsThatAreApart) {
  constexpr std::int64_t kX = kK + 5, kY = kN + 3;
  auto apart = [&](std::int64_t m) {
    return ir::with_row_stride(ir::with_row_stride(workload(m), "x", kX), "y", kY);
  };
  ir::MuGraph graph = test::fixture("rmsnorm_split_k");
  ir::LaunchPlan plan =
      test::host_plan(graph, {{"m", 16}, {"k", kK}, {"n", kN}}, ir::DType::kF32, {"host", {}});
  plan.workload_key = ir::key(apart(16));
  plan.m_max = 16;
  plan.buffers[0].elements = ir::SizeExpr::parse("m * " + std::to_string(kX), plan.dims);
  plan.buffers[3].elements = ir::SizeExpr::parse("m * " + std::to_string(kY), plan.dims);
  auto database = cache::Database::open(path_);
  test::store_winner(*database, apart(16), graph, plan, {}, device_->info(), 2);
  Values values(40);
  auto library = Library::open(path_, "host");
  std::string why;
  const std::vector<const void*> parameters = {nullptr, values.g.data(), values.w.data()};
  EXPECT_EQ(library->bind(workload(16), {}, parameters, nullptr, why), nullptr);
  EXPECT_NE(why.find("row stride of x"), std::string::npos) << why;
  auto layer = library->bind(apart(40), {}, parameters, nullptr, why);
  ASSERT_NE(layer, nullptr) << why;
  for (std::int64_t m : {1, 16, 40}) {
    std::vector<float> x(static_cast<std::size_t>((m - 1) * kX + kK), NAN);
    std::vector<float> y(static_cast<std::size_t>((m - 1) * kY + kN + 1), -7), dense;
    for (std::int64_t r = 0; r < m; ++r)
      std::copy_n(values.x.begin() + r * kK, kK, x.begin() + r * kX);
    const void* inputs[] = {x.data(), nullptr, nullptr};
    void* outputs[] = {y.data()};
    layer->launch(inputs, outputs, m, nullptr, true);
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (i % kY < kN && i + 1 < y.size())
        dense.push_back(y[i]);
      else
        EXPECT_EQ(y[i], -7) << m << " " << i;
    }
    dense.push_back(-7);
    EXPECT_TRUE(values.right(dense, m, 0)) << m;
  }
}

}  // namespace
}  // namespace tenon::runtime
