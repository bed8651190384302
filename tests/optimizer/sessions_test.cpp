// Sessions that end before they are done and go on, and lists of workloads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>

#include "ir/error.h"
#include "optimizer/many.h"
#include "optimizer/session.h"

namespace tenon::optimizer {
namespace {

namespace fs = std::filesystem;

// Asks for a stop after so many candidates were timed.
class StopAfter : public Progress {
 public:
  StopAfter(int count, std::stop_source& source) : left_(count), source_(source) {}
  void begin(const std::string& step, std::int64_t) override { exploring_ = step == "exploring"; }
  void advance(std::int64_t units) override {
    if (exploring_ && (left_ -= static_cast<int>(units)) <= 0) source_.request_stop();
  }

 private:
  std::atomic<bool> exploring_ = false;
  std::atomic<int> left_;
  std::stop_source& source_;
};

class Sessions : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tenon-sessions-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  Options options(std::int64_t n = 24) const {
    Options o;
    o.workload = workload(n);
    o.device = "host";
    o.database = (folder_ / "tuning.db").string();
    o.budget_seconds = 3;
    o.strategy = "estimate";
    o.schedules_per_graph = 1;
    o.force = true;  // machines that run tests are rarely quiet
    return o;
  }
  static ir::Workload workload(std::int64_t n) {
    return ir::make_workload(ir::catalog_program("rmsnorm_linear"), {{"m", 4}, {"k", 32}, {"n", n}},
                             ir::DType::kF32);
  }
  std::int64_t rows(const std::string& table) const {
    for (const auto& [name, count] :
         cache::Database::open((folder_ / "tuning.db").string(), true)->table_counts())
      if (name == table) return count;
    return -1;
  }

  fs::path folder_;
  Progress silent_;
};

TEST_F(Sessions, AnInterruptedOneGoesOnWhereItWas) {
  std::stop_source source;
  StopAfter stopper(15, source);
  Options interrupted = options();
  interrupted.budget_seconds = 60;  // more than any machine needs until the interruption
  Report first = optimize(interrupted, stopper, source.get_token());
  EXPECT_EQ(first.stop_reason, "interrupted");
  // What was timed is there, and the best of it was checked, stored and said.
  const std::int64_t measured = rows("measurement");
  EXPECT_GE(measured, 15);
  ASSERT_TRUE(first.best.has_value());

  Report second = optimize(options(), silent_);
  EXPECT_FALSE(second.from_database);
  ASSERT_TRUE(second.best.has_value());
  bool said = false;
  for (const std::string& note : second.notes)
    said = said || note.find("going on with the session") != std::string::npos;
  EXPECT_TRUE(said);
  EXPECT_EQ(rows("session"), 1);
  // No candidate was screened twice.
  auto database = cache::Database::open(options().database, true);
  std::map<std::int64_t, int> screened;
  for (const cache::MeasurementRow& row : database->measurements_of(1))
    if (row.settings.rfind("samples=3 ", 0) == 0) ++screened[row.plan];
  EXPECT_EQ(screened.size(), second.search.measured);
  for (const auto& [plan, count] : screened) EXPECT_EQ(count, 1) << plan;

  EXPECT_TRUE(optimize(options(), silent_).from_database);
  Options again = options();
  again.retune = true;
  optimize(again, silent_);
  EXPECT_EQ(rows("session"), 2);
}

TEST_F(Sessions, OneThatWasKilledGoesOnAndOneThatRunsDoesNot) {
  ASSERT_TRUE(optimize(options(), silent_).best.has_value());
  auto set_owner = [&](const std::string& owner) {
    cache::Database::open(options().database)->resume_session(1, owner);
  };
  // As a kill leaves it: no stop reason, an owner that is gone.
  const std::string self = process_identity();
  EXPECT_TRUE(may_still_run(self));
  set_owner(self);
  EXPECT_TRUE(optimize(options(), silent_).from_database);
  std::string gone = self;
  gone.replace(gone.rfind(' '), std::string::npos, " 1");  // another process of that id
  EXPECT_FALSE(may_still_run(gone));
  EXPECT_TRUE(may_still_run("elsewhere" + self));
  EXPECT_FALSE(may_still_run(""));
  set_owner(gone);
  Report report = optimize(options(), silent_);
  EXPECT_FALSE(report.from_database);
  EXPECT_EQ(rows("session"), 1);
}

TEST_F(Sessions, AListSharesItsBudgetAndItsFailuresAreTheirOwn) {
  ManyOptions many;
  many.each = options();
  many.workloads = {workload(8), workload(16), workload(24)};
  many.devices = {"host", "host"};  // two workers at once, one list
  many.budget_seconds = 60;         // plenty, also for slow builds: the searches end by themselves
  EXPECT_EQ(outcomes_of(many), 3u);
  std::size_t called = 0;
  auto outcomes = optimize_many(many, {}, [&](const ManyOutcome&) { ++called; });
  EXPECT_EQ(called, 3u);
  ASSERT_EQ(outcomes.size(), 3u);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].workload, i);
    EXPECT_EQ(outcomes[i].error, "");
    EXPECT_TRUE(outcomes[i].report.best.has_value());
  }
  // Without time left what is stored answers, and the rest says why it does not.
  many.workloads.push_back(workload(40));
  many.budget_seconds = 0.1;
  outcomes = optimize_many(many, {}, [](const ManyOutcome&) {});
  ASSERT_EQ(outcomes.size(), 4u);
  EXPECT_TRUE(outcomes[0].report.from_database);
  EXPECT_FALSE(outcomes[3].report.best.has_value());
  EXPECT_EQ(outcomes[3].report.stop_reason, "budget");
}

TEST(Devices, ListsAreExpandedAndCheckedForTwins) {
  EXPECT_EQ(expand_devices("host"), std::vector<std::string>{"host"});
  EXPECT_EQ(expand_devices("cuda:0,host"), (std::vector<std::string>{"cuda:0", "host"}));
  EXPECT_THROW(expand_devices("host,host"), UserError);
  bool gpu = false;
  for (const auto& info : runtime::list_devices()) gpu = gpu || info.id.rfind("cuda:", 0) == 0;
  if (!gpu) {
    EXPECT_THROW(expand_devices("all"), DeviceError);
  }
}

}  // namespace
}  // namespace tenon::optimizer
