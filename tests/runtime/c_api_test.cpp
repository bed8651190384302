// The C API on the host device: a database with one stored winner, bound, launched and checked
// against sums written out by hand; and what it says to wrong calls.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>

#include "cache/database.h"
#include "host_plan.h"
#include "ir/layout.h"
#include "ir/mugraph.h"
#include "ir/sha256.h"
#include "ir/workload.h"
#include "runtime/device.h"
#include "runtime/layer.h"
#include "runtime/load.h"
#include "runtime/tenon.hpp"
#include "runtime/utf8.h"

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

  // Stores the one-pass fixture as a measured and accepted plan of the host, for weights as the
  // program has them or [n, k]. `edit`, where given, changes the plan's text first. The plan's id.
  std::int64_t store_winner(bool transposed = false, double time_us = 2,
                            const std::function<void(std::string&)>& edit = {}) {
    ir::Program program = ir::catalog_program("rmsnorm_linear");
    std::string text = test::read_file(test::fixture_path("rmsnorm_one_pass"));
    if (transposed) {
      program = ir::with_layout(program, "w=n,k");
      const std::string from = "w: T[k, n]", to = "w: T[n, k]";
      text.replace(text.find(from), from.size(), to);
    }
    ir::Workload workload =
        ir::make_workload(program, {{"m", kM}, {"k", kK}, {"n", kN}}, ir::DType::kF32);
    ir::MuGraph graph = ir::parse_mugraph(text);
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
    if (edit) {
      edit(p.text);
      s.text += " edited";
      s.sha256 = ir::sha256_hex(s.text);
      p.schedule = database->put(s);
    }
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
    m.time_us = time_us;
    m.samples_us = {time_us};
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
    return plan_id;
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

TEST_F(CApi, BindsWeightsInAnotherLayout) {
  store_winner(true);
  tenon::Library library(path_, "host");
  std::vector<float> x(kM * kK), g(kK), w(kN * kK), y(kM * kN, NAN);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i % 7) - 3);
  for (std::size_t i = 0; i < g.size(); ++i) g[i] = 1 + 0.5f * static_cast<float>(i);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(static_cast<int>(i % 6) - 2);
  const void* inputs[] = {nullptr, g.data(), w.data()};
  auto bind = [&](const char* layouts) {
    Binding binding;
    binding.layouts = layouts;
    return library.bind("rmsnorm_linear", "m=3,k=5,n=4", "fp32", inputs, nullptr, binding);
  };
  auto status = [&](const char* layouts) {
    try {
      bind(layouts);
    } catch (const RuntimeError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return error.status();
    }
    return TENON_OK;
  };
  tenon::Kernel kernel = bind("w=n,k");
  kernel.launch(x.data(), y.data(), kM);
  for (std::size_t i = 0; i < kM; ++i) {
    double squares = 0;
    for (std::size_t l = 0; l < kK; ++l) squares += double{x[i * kK + l]} * x[i * kK + l];
    for (std::size_t j = 0; j < kN; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < kK; ++l) sum += double{x[i * kK + l]} * g[l] * w[j * kK + l];
      EXPECT_NEAR(y[i * kN + j], sum / std::sqrt(squares / kK + 1e-6), 1e-4);
    }
  }
  EXPECT_EQ(status("w=n,k;g=k"), TENON_OK);
  // Nothing else is stored, and nothing else is taken for it.
  EXPECT_EQ(status(""), TENON_NOT_FOUND);
  EXPECT_EQ(status("w=k,n"), TENON_NOT_FOUND);
  EXPECT_EQ(status("w=n,k;x=k,m"), TENON_NOT_FOUND);
  for (const char* bad : {"w", "w=n", "w=n,k,m", "q=n,k", ";", "w=n,k;;"})
    EXPECT_EQ(status(bad), TENON_BAD_INPUT) << bad;
}

TEST_F(CApi, OptionsOfAnOlderCallerAreShorter) {
  store_winner();
  std::vector<float> g(kK), w(kK * kN);
  const void* inputs[] = {nullptr, g.data(), w.data()};
  tenon_library* handle = nullptr;
  ASSERT_EQ(tenon_library_open(path_.c_str(), "host", &handle), TENON_OK);
  tenon_bind_options options{};
  options.size = offsetof(tenon_bind_options, layouts);
  options.layouts = "what lies behind an older caller's struct";
  tenon_kernel* kernel = nullptr;
  EXPECT_EQ(tenon_bind_with(handle, "rmsnorm_linear", "m=3,k=5,n=4", "fp32", &options, inputs,
                            nullptr, &kernel),
            TENON_OK)
      << tenon_last_error();
  tenon_kernel_close(kernel);
  tenon_library_close(handle);
}

// What a newer caller leaves at zero is no matter; what it asks for is not passed over in silence.
TEST_F(CApi, OptionsOfANewerCallerAreLonger) {
  store_winner();
  std::vector<float> g(kK), w(kK * kN);
  const void* inputs[] = {nullptr, g.data(), w.data()};
  tenon_library* handle = nullptr;
  ASSERT_EQ(tenon_library_open(path_.c_str(), "host", &handle), TENON_OK);
  struct {
    tenon_bind_options known;
    const char* more;
  } newer{};
  newer.known.size = sizeof newer;
  for (const char* more : {static_cast<const char*>(nullptr), "a wish"}) {
    newer.more = more;
    tenon_kernel* kernel = nullptr;
    EXPECT_EQ(tenon_bind_with(handle, "rmsnorm_linear", "m=3,k=5,n=4", "fp32", &newer.known, inputs,
                              nullptr, &kernel),
              more == nullptr ? TENON_OK : TENON_BAD_INPUT)
        << tenon_last_error();
    tenon_kernel_close(kernel);
  }
  newer.known.size = std::size_t{1} << 40;
  tenon_kernel* kernel = nullptr;
  EXPECT_EQ(tenon_bind_with(handle, "rmsnorm_linear", "m=3,k=5,n=4", "fp32", &newer.known, inputs,
                            nullptr, &kernel),
            TENON_BAD_INPUT);
  tenon_library_close(handle);
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

// Plans of a later version, or with other text than a plan's, are passed over as damaged ones are.
TEST_F(CApi, PlansThatCannotBeReadArePassedOver) {
  const std::int64_t sound = store_winner();
  const std::int64_t later = store_winner(false, 1, [](std::string& text) {
    const std::string version = "\"version\": " + std::to_string(ir::kPlanVersion);
    ASSERT_NE(text.find(version), std::string::npos);
    text.replace(text.find(version), version.size(), "\"version\": 99");
  });
  const std::int64_t no_plan =
      store_winner(false, 0.5, [](std::string& text) { text = "no plan"; });
  tenon_library* library = nullptr;
  ASSERT_EQ(tenon_library_open(path_.c_str(), "host", &library), TENON_OK);
  float data[kK * kN] = {};
  const void* inputs[] = {nullptr, data, data};
  tenon_kernel* kernel = nullptr;
  ASSERT_EQ(
      tenon_bind(library, "rmsnorm_linear", "m=3,k=5,n=4", "fp32", 0, inputs, nullptr, &kernel),
      TENON_OK)
      << tenon_last_error();
  EXPECT_EQ(tenon_kernel_plan(kernel), sound);
  const std::string note = tenon_kernel_note(kernel);
  EXPECT_NE(note.find("plan " + std::to_string(later) +
                      " was passed over: it cannot be read: "
                      "launch plan: version is '99'"),
            std::string::npos)
      << note;
  EXPECT_NE(note.find("plan " + std::to_string(no_plan) + " was passed over"), std::string::npos)
      << note;
  tenon_kernel_close(kernel);
  tenon_library_close(library);
  auto database = cache::Database::open(path_, true);
  EXPECT_TRUE(database->check().empty());  // the checksums are right
  const std::vector<std::string> problems = database->check(plan_damage);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].rfind("plan " + std::to_string(later) + ": it cannot be read", 0), 0u);
}

TEST_F(CApi, NullHandlesAndPointersAreNamed) {
  store_winner();
  const std::string kernel_is_null = "kernel is 'NULL'; accepted: a pointer that is not NULL";
  EXPECT_EQ(tenon_library_device(nullptr), nullptr);
  EXPECT_STREQ(tenon_last_error(), "library is 'NULL'; accepted: a pointer that is not NULL");
  auto says_kernel = [&](auto got, auto expected) {
    EXPECT_EQ(got, expected);
    EXPECT_EQ(tenon_last_error(), kernel_is_null);
    tenon_library_open("", nullptr, nullptr);  // another message
  };
  const char* nothing = nullptr;
  says_kernel(tenon_kernel_note(nullptr), nothing);
  says_kernel(tenon_kernel_label(nullptr), nothing);
  says_kernel(tenon_kernel_schedule(nullptr), nothing);
  says_kernel(tenon_kernel_reads(nullptr, 0), 0);
  says_kernel(tenon_kernel_m_min(nullptr), 0);
  says_kernel(tenon_kernel_m_max(nullptr), 0);
  says_kernel(tenon_kernel_plan(nullptr), 0);
  says_kernel(tenon_kernel_stored_time_us(nullptr), 0.0);
  tenon_segment segment{};
  segment.size = sizeof segment;
  says_kernel(tenon_kernel_segment(nullptr, 1, &segment), TENON_BAD_INPUT);
  float data[kK * kN] = {};
  const void* inputs[] = {data, data, data};
  void* outputs[] = {data};
  says_kernel(tenon_launch(nullptr, inputs, outputs, 1, nullptr, 0), TENON_BAD_INPUT);
  says_kernel(tenon_launch_one(nullptr, data, data, 1, nullptr, 0), TENON_BAD_INPUT);
  tenon_library_close(nullptr);
  tenon_kernel_close(nullptr);

  tenon_library* library = nullptr;
  EXPECT_EQ(tenon_library_open("", "host", &library), TENON_BAD_INPUT);
  ASSERT_EQ(tenon_library_open(path_.c_str(), "host", &library), TENON_OK);
  tenon_kernel* kernel = nullptr;
  auto bind = [&] {
    return tenon_bind(library, "rmsnorm_linear", "m=3,k=5,n=4", "fp32", 0, inputs, nullptr,
                      &kernel);
  };
  inputs[2] = nullptr;
  EXPECT_EQ(bind(), TENON_BAD_INPUT);
  EXPECT_STREQ(tenon_last_error(), "parameter w is 'NULL'; accepted: an address on the device");
  inputs[0] = nullptr, inputs[2] = data;  // activations are given to launches
  ASSERT_EQ(bind(), TENON_OK) << tenon_last_error();
  EXPECT_EQ(tenon_launch(kernel, inputs, outputs, 1, nullptr, 0), TENON_BAD_INPUT);
  EXPECT_STREQ(tenon_last_error(),
               "input 0 of a launch is 'NULL'; accepted: an address on the device");
  EXPECT_EQ(tenon_launch_one(kernel, data, nullptr, 1, nullptr, 0), TENON_BAD_INPUT);
  EXPECT_STREQ(tenon_last_error(),
               "output 0 of a launch is 'NULL'; accepted: an address on the device");
  EXPECT_EQ(tenon_kernel_segment(kernel, 0, &segment), TENON_BAD_INPUT);
  EXPECT_EQ(tenon_kernel_reads(kernel, 3), 0);
  EXPECT_STREQ(tenon_last_error(), "input is '3'; accepted: 0 to 2");
  tenon_kernel_close(kernel);
  tenon_library_close(library);
}

TEST(Utf8, KeepsSequencesAndWritesOtherBytesOut) {
  EXPECT_EQ(utf8("µGraph – 行 🙂"), "µGraph – 行 🙂");
  EXPECT_EQ(utf8(std::string("a\0b\n", 4)), "a\\x00b\\x0a");
  EXPECT_EQ(utf8("\xff\xc3"), "\\xff\\xc3");                    // never; cut off
  EXPECT_EQ(utf8("\xc0\x80"), "\\xc0\\x80");                    // overlong
  EXPECT_EQ(utf8("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(utf8("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
  EXPECT_EQ(tenon_library_open("\xff.db", "host", nullptr), TENON_BAD_INPUT);
  tenon_library* library = nullptr;
  EXPECT_EQ(tenon_library_open("/nowhere/\xff.db", "host", &library), TENON_BAD_INPUT);
  EXPECT_NE(std::string(tenon_last_error()).find("/nowhere/\\xff.db"), std::string::npos);
}

// Four bytes a row where a tensor has rows, 0 for parameters.
TEST(Layer, TakesOneWhereTheFirstInputIsTheOnlyActivation) {
  auto takes_one = [](std::vector<std::size_t> inputs, std::vector<std::size_t> outputs) {
    return Layer({}, {}, std::move(inputs), std::move(outputs)).takes_one();
  };
  EXPECT_TRUE(takes_one({4, 0, 0}, {4}));
  EXPECT_FALSE(takes_one({4, 4, 0}, {4}));
  EXPECT_FALSE(takes_one({0, 4}, {4}));
  EXPECT_FALSE(takes_one({4, 0}, {4, 4}));
  EXPECT_FALSE(takes_one({}, {4}));
}

}  // namespace
}  // namespace tenon::runtime
