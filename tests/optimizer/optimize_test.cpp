// The pipeline as a library: what it stores, how it stops, and what it refuses to call a winner.
#include "optimizer/optimize.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "ir/error.h"
#include "runtime/load.h"

namespace tenon::optimizer {
namespace {

namespace fs = std::filesystem;

class Optimize : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tenon-optimize-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  Options options(std::int64_t m, std::int64_t k, std::int64_t n,
                  ir::DType dtype = ir::DType::kBF16) const {
    Options o;
    o.workload = ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                                   {{"m", m}, {"k", k}, {"n", n}}, dtype);
    o.device = "host";
    o.database = (folder_ / "tuning.db").string();
    o.budget_seconds = 20;
    o.schedules_per_graph = 2;
    o.force = true;  // machines that run tests are rarely quiet
    return o;
  }

  fs::path folder_;
  Progress silent_;
};

TEST_F(Optimize, WinnerIsVerifiedMeasuredStoredAndLoadable) {
  Options o = options(5, 37, 11);
  Report report = optimize(o, silent_);
  ASSERT_TRUE(report.best.has_value());
  const BestReport& best = *report.best;
  EXPECT_EQ(best.evidence.at("random").verdict, verifier::Verdict::kPass);
  EXPECT_EQ(best.evidence.at("z3").verdict, verifier::Verdict::kProved);
  EXPECT_EQ(best.evidence.at("numeric").verdict, verifier::Verdict::kPass);
  EXPECT_LE(best.time_us, best.reference_time_us);  // the unfused form is a candidate itself

  auto database = cache::Database::open(o.database, true);
  auto device = runtime::open_device("host");
  std::string why;
  auto stored = database->best(runtime::make_query(o.workload, device->info()), &why);
  ASSERT_TRUE(stored.has_value()) << why;
  EXPECT_EQ(stored->plan.id, best.plan);

  // x = 1, g = 2, w = 1: every element is 2·37 / sqrt(1 + 1e-6), 74 in bf16.
  const std::vector<std::size_t> counts = {5 * 37, 37, 37 * 11};
  const float fills[] = {1, 2, 1};
  std::vector<std::unique_ptr<runtime::Memory>> memory;
  std::vector<const void*> inputs;
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<std::uint16_t> bits(counts[i], ir::to_bits16(ir::DType::kBF16, fills[i]));
    memory.push_back(device->allocate(bits.size() * 2));
    device->upload(memory.back()->data(), bits.data(), bits.size() * 2);
    inputs.push_back(memory.back()->data());
  }
  auto y = device->allocate(5 * 11 * 2);
  void* outputs[] = {y->data()};
  auto kernel = runtime::load(*stored, *device);
  kernel->prepare(inputs, nullptr);
  kernel->launch(inputs.data(), outputs, 5, nullptr);
  std::vector<std::uint16_t> result(5 * 11);
  device->download(result.data(), y->data(), result.size() * 2);
  for (std::uint16_t bits : result) EXPECT_EQ(ir::from_bits16(ir::DType::kBF16, bits), 74.0f);
}

TEST_F(Optimize, SecondRunIsAnsweredFromTheDatabaseUnlessRetuned) {
  Options o = options(2, 16, 8);
  Report first = optimize(o, silent_);
  ASSERT_TRUE(first.best.has_value());
  Report second = optimize(o, silent_);
  EXPECT_TRUE(second.from_database);
  EXPECT_EQ(second.stop_reason, "database");
  ASSERT_TRUE(second.best.has_value());
  EXPECT_EQ(second.best->plan, first.best->plan);
  EXPECT_EQ(second.best->evidence.size(), 4u);
  o.retune = true;
  EXPECT_FALSE(optimize(o, silent_).from_database);
  // Another attribute is another workload.
  Options other = options(2, 16, 8);
  other.workload.attributes["eps"] = 0.5;
  EXPECT_FALSE(optimize(other, silent_).from_database);
}

// Also on a machine that is not quiet: what could not decide here may not decide there.
TEST_F(Optimize, TheDatabaseLaunchesTheWinnerThatIsReported) {
  Options o = options(3, 40, 6, ir::DType::kF16);
  o.force = false;
  o.budget_seconds = 6;
  Report report = optimize(o, silent_);
  auto database = cache::Database::open(o.database, true);
  auto device = runtime::open_device("host");
  auto stored = database->best(runtime::make_query(o.workload, device->info()));
  ASSERT_EQ(stored.has_value(), report.best.has_value());
  if (stored) {
    EXPECT_EQ(stored->plan.id, report.best->plan);
  }
}

TEST_F(Optimize, InterruptedBeforeItStartsFindsNothingAndSaysSo) {
  std::stop_source source;
  source.request_stop();
  Report report = optimize(options(4, 32, 8), silent_, source.get_token());
  EXPECT_FALSE(report.best.has_value());
  EXPECT_EQ(report.stop_reason, "interrupted");
  // The database is whole and can be used again.
  EXPECT_TRUE(optimize(options(4, 32, 8), silent_).best.has_value());
}

TEST_F(Optimize, EveryProvedFormOfTheHostIsMeasuredOrSaysWhyNot) {
  Report report = optimize(options(3, 40, 6, ir::DType::kF32), silent_);
  EXPECT_EQ(report.search.distinct, report.search.verified);
  EXPECT_EQ(report.search.verified, report.search.lowerable);
  for (const CandidateReport& c : report.candidates) {
    EXPECT_FALSE(std::isnan(c.time_us));
    EXPECT_TRUE(c.status == "ok" || !c.reason.empty()) << c.schedule;
  }
}

TEST_F(Optimize, MissingDeviceIsADeviceErrorAndTouchesNothing) {
  Options o = options(4, 32, 8);
  o.device = "cuda:99";
  EXPECT_THROW(optimize(o, silent_), DeviceError);
  o.device = "abacus";
  EXPECT_THROW(optimize(o, silent_), UserError);
  EXPECT_FALSE(fs::exists(o.database));
}

TEST_F(Optimize, KeptWeightsHaveNoCopyAndServeOthersToo) {
  Options o = options(5, 37, 11);
  o.workload.keep_weights = true;
  Report report = optimize(o, silent_);
  ASSERT_TRUE(report.best.has_value());
  EXPECT_TRUE(report.best->weights.copies.empty());
  EXPECT_EQ(report.best->weights.parameter_bytes, 2 * (37 + 37 * 11));
  EXPECT_GT(report.search.not_lowerable.at("it keeps a copy of the weights"), 0u);
  Options any = options(5, 37, 11);
  any.answer_only = true;
  EXPECT_TRUE(optimize(any, silent_).from_database);
}

}  // namespace
}  // namespace tenon::optimizer
