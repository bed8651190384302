// The C API on the host device: a database with one stored winner, bound, launched and checked
// against sums written out by hand; and what it says to wrong calls.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "cache/database.h"
#include "host_plan.h"
#include "ir/mugraph.h"
#include "ir/sha256.h"
#include "ir/workload.h"
#include "runtime/device.h"
#include "runtime/tenon.h"

namespace tenon::runtime {
namespace {

namespace fs = std::filesystem;

class CApi : public ::testing::Test {
 protected:
  static constexpr std::int64_t kM = 3, kK = 5, kN = 4;

  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tenon-c-api-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = (folder_ / "tuning.db").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Stores the one-pass fixture as a measured and accepted plan of the host.
  void store_winner() {
    ir::Workload workload = ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                                              {{"m", kM}, {"k", kK}, {"n", kN}}, ir::DType::kF32);
    ir::MuGraph graph = test::fixture("rmsnorm_one_pass");
    ir::LaunchPlan plan =
        test::host_plan(graph, {{"m", kM}, {"k", kK}, {"n", kN}}, ir::DType::kF32, {"host", {}});
    auto database = cache::Database::open(path_);
    const DeviceInfo info = open_device("host")->info();
    cache::WorkloadRow w;
    w.key = ir::key(workload);
    w.program = "rmsnorm_linear";
    w.program_text = ir::print(workload.program);
    w.m = kM;
    w.dims_json = R"({"k":5,"m":3,"n":4})";
    w.dtype = "fp32";
    w.attributes_json = R"({"eps":1e-06})";
    cache::EnvironmentRow e;
    e.device_name = info.name;
    e.device_class = info.device_class;
    e.tenon = "test";
    cache::MuGraphRow g;
    g.text = ir::print(ir::canonical(graph));
    g.sha256 = ir::identity(graph);
    g.label = "one pass";
    g.program = "rmsnorm_linear";
    cache::ScheduleRow s;
    s.text = plan.schedule;
    s.sha256 = ir::sha256_hex(s.text);
    cache::PlanRow p;
    p.workload = database->put(w);
    p.mugraph = database->put(g);
    p.schedule = database->put(s);
    p.device_class = info.device_class;
    p.text = ir::print(plan);
    p.sha256 = ir::sha256_hex(p.text);
    p.m_min = plan.m_min;
    p.m_max = plan.m_max;
    const std::int64_t plan_id = database->put(p);
    cache::SessionRow session;
    session.workload = p.workload;
    session.environment = database->put(e);
    cache::MeasurementRow m;
    m.plan = plan_id;
    m.environment = session.environment;
    m.session = database->put(session);
    m.status = "ok";
    m.kind = "measured";
    m.time_us = 2;
    m.samples_us = {2};
    database->put(m);
    for (const char* method : {"random", "numeric"}) {
      cache::EvidenceRow evidence;
      evidence.mugraph = p.mugraph;
      evidence.plan = std::string(method) == "numeric" ? plan_id : 0;
      evidence.method = method;
      evidence.verdict = "pass";
      evidence.figures_json = "{}";
      database->put(evidence);
    }
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(CApi, BindsAndLaunchesAStoredPlan) {
  store_winner();
  tenon_library* library = nullptr;
  ASSERT_EQ(tenon_library_open(path_.c_str(), "host", &library), TENON_OK) << tenon_last_error();
  std::vector<float> x(kM * kK), g(kK), w(kK * kN), y(kM * kN, NAN);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i % 7) - 3);
  for (std::size_t i = 0; i < g.size(); ++i) g[i] = 1 + 0.5f * static_cast<float>(i);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(static_cast<int>(i % 5) - 2);
  const void* parameters[] = {nullptr, g.data(), w.data()};
  tenon_kernel* kernel = nullptr;
  ASSERT_EQ(
      tenon_bind(library, "rmsnorm_linear", "m=3,k=5,n=4", "fp32", 0, parameters, nullptr, &kernel),
      TENON_OK)
      << tenon_last_error();
  EXPECT_GT(tenon_kernel_plan(kernel), 0);
  EXPECT_EQ(tenon_kernel_stored_time_us(kernel), 2.0);
  EXPECT_STREQ(tenon_kernel_label(kernel), "one pass");
  const void* inputs[] = {x.data(), g.data(), w.data()};
  void* outputs[] = {y.data()};
  ASSERT_EQ(tenon_launch(kernel, inputs, outputs, kM, nullptr, 0), TENON_OK) << tenon_last_error();
  for (std::size_t i = 0; i < kM; ++i) {
    double squares = 0;
    for (std::size_t l = 0; l < kK; ++l) squares += double{x[i * kK + l]} * x[i * kK + l];
    for (std::size_t j = 0; j < kN; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < kK; ++l) sum += double{x[i * kK + l]} * g[l] * w[l * kN + j];
      EXPECT_NEAR(y[i * kN + j], sum / std::sqrt(squares / kK + 1e-6), 1e-4);
    }
  }
  EXPECT_EQ(tenon_launch(kernel, inputs, outputs, 0, nullptr, 0), TENON_OK);
  EXPECT_EQ(tenon_launch(kernel, inputs, outputs, 1000000, nullptr, 0), TENON_BAD_INPUT);
  tenon_kernel_close(kernel);
  tenon_library_close(library);
}

TEST_F(CApi, SaysWhatIsWrong) {
  store_winner();
  tenon_library* library = nullptr;
  EXPECT_EQ(tenon_library_open((folder_ / "none.db").c_str(), "host", &library), TENON_BAD_INPUT);
  EXPECT_EQ(library, nullptr);
  EXPECT_EQ(tenon_library_open(path_.c_str(), "cuda:99", &library), TENON_DEVICE_ERROR);
  EXPECT_EQ(tenon_library_open(path_.c_str(), "abacus", &library), TENON_BAD_INPUT);
  ASSERT_EQ(tenon_library_open(path_.c_str(), "host", &library), TENON_OK);
  const void* parameters[] = {nullptr, nullptr, nullptr};
  tenon_kernel* kernel = nullptr;
  auto bind = [&](const char* program, const char* dims, const char* dtype) {
    return tenon_bind(library, program, dims, dtype, 0, parameters, nullptr, &kernel);
  };
  EXPECT_EQ(bind("no_such_program", "m=3,k=5,n=4", "fp32"), TENON_BAD_INPUT);
  EXPECT_EQ(bind("rmsnorm_linear", "m=3,k=five,n=4", "fp32"), TENON_BAD_INPUT);
  EXPECT_EQ(bind("rmsnorm_linear", "m=3,k=5,n=4", "int8"), TENON_BAD_INPUT);
  EXPECT_EQ(bind("rmsnorm_linear", "m=3,k=6,n=4", "fp32"), TENON_NOT_FOUND);
  EXPECT_NE(std::string(tenon_last_error()), "");
  EXPECT_EQ(tenon_bind(library, nullptr, "", "fp32", 0, parameters, nullptr, &kernel),
            TENON_BAD_INPUT);
  EXPECT_EQ(kernel, nullptr);
  EXPECT_EQ(tenon_abi_version(), TENON_ABI_VERSION);
  tenon_library_close(library);
}

}  // namespace
}  // namespace tenon::runtime
