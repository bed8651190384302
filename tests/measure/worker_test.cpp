// The worker survives nothing; the session survives everything.
#include "measure/worker.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "host_plan.h"
#include "ir/error.h"
#include "measure/disturbance.h"

namespace tenon::measure {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Worker : public testing::Test {
 protected:
  Candidate good(int tile_m = 2) const {
    ir::KernelSchedule schedule{"host", {{"tile_m", tile_m}}};
    return {test::host_plan(test::fixture("rmsnorm_one_pass"), dims_, ir::DType::kF32, schedule),
            {}};
  }
  Candidate bad(const std::string& fault) const {
    Candidate candidate = good();
    candidate.plan.schedule = "fault " + fault;
    return candidate;
  }
  std::unique_ptr<Runner> runner(std::stop_token stop = {}) const {
    WorkerOptions options;
    options.program = TENON_FAULTY_WORKER;
    return make_worker_runner("host", workload_, std::move(stop), options);
  }
  static Protocol protocol(int samples) {
    Protocol p;
    p.samples = samples;
    p.hang_limit_s = 0.5;
    return p;
  }

  test::Dims dims_{{"m", 6}, {"k", 80}, {"n", 100}};
  ir::Workload workload_ =
      ir::make_workload(ir::catalog_program("rmsnorm_linear"), dims_, ir::DType::kF32);
};

TEST_F(Worker, FaultsCostTheFaultyCandidateOnly) {
  const std::vector<std::pair<std::string, Status>> faults = {{"illegal address", Status::kCrashed},
                                                              {"infinite loop", Status::kTimeout},
                                                              {"trap", Status::kCrashed},
                                                              {"allocation", Status::kLaunchError},
                                                              {"abort", Status::kCrashed},
                                                              {"exit", Status::kCrashed},
                                                              {"launch", Status::kLaunchError},
                                                              {"stray write", Status::kCrashed}};
  constexpr int kGood = 50;
  std::vector<Candidate> candidates;
  std::vector<Status> expected;
  for (int i = 0; i < kGood; ++i) {
    if (i % 7 == 3 && static_cast<std::size_t>(i / 7) < faults.size()) {
      candidates.push_back(bad(faults[static_cast<std::size_t>(i / 7)].first));
      expected.push_back(faults[static_cast<std::size_t>(i / 7)].second);
    }
    candidates.push_back(good(1 + i % 6));
    expected.push_back(Status::kOk);
  }
  candidates.push_back(bad(faults.back().first));
  expected.push_back(faults.back().second);
  ASSERT_EQ(candidates.size(), kGood + faults.size());
  auto runner = this->runner();
  std::vector<Timing> timings = runner->time(candidates, protocol(3));
  ASSERT_EQ(timings.size(), candidates.size());
  for (std::size_t i = 0; i < timings.size(); ++i) {
    EXPECT_EQ(timings[i].status, expected[i])
        << i << ": " << candidates[i].plan.schedule << ": " << timings[i].reason;
    EXPECT_FALSE(timings[i].not_run);
    EXPECT_EQ(timings[i].samples_us.size(), expected[i] == Status::kOk ? 3u : 0u);
    EXPECT_EQ(timings[i].reason.empty(), expected[i] == Status::kOk);
  }
  EXPECT_EQ(runner->accept(good(), 1).verdict, verifier::Verdict::kPass);
}

TEST_F(Worker, AcceptanceSurvivesFaultsToo) {
  auto runner = this->runner();
  runner->time({good()}, protocol(1));
  const std::vector<std::pair<std::string, Status>> faults = {{"abort", Status::kCrashed},
                                                              {"illegal address", Status::kCrashed},
                                                              {"allocation", Status::kLaunchError},
                                                              {"launch", Status::kLaunchError}};
  for (const auto& [fault, status] : faults) {
    verifier::Evidence e = runner->accept(bad(fault), 1);
    EXPECT_EQ(e.verdict, verifier::Verdict::kUnknown) << fault;
    EXPECT_EQ(status_of(e), status) << fault << ": " << e.reason;
    EXPECT_EQ(runner->accept(good(), 1).verdict, verifier::Verdict::kPass) << fault;
  }
}

TEST_F(Worker, AnswersAreThoseOfTheProcessItself) {
  auto local = make_local_runner("host", workload_);
  auto worker = this->runner();
  std::vector<Candidate> candidates = {good(1), good(3)};
  std::vector<Timing> a = local->time(candidates, protocol(10)),
                      b = worker->time(candidates, protocol(10));
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].status, b[i].status);
    EXPECT_EQ(a[i].samples_us.size(), b[i].samples_us.size());
    // The same protocol but for how many calls make a sample.
    EXPECT_EQ(a[i].protocol.substr(a[i].protocol.rfind("interleaved")),
              b[i].protocol.substr(b[i].protocol.rfind("interleaved")));
  }
  verifier::Evidence x = local->accept(candidates[0], 7), y = worker->accept(candidates[0], 7);
  EXPECT_EQ(x.verdict, y.verdict);
  EXPECT_EQ(x.figures, y.figures);
}

TEST_F(Worker, StartsInLessThanASecond) {
  const auto start = Clock::now();
  WorkerOptions options;
  options.program = TENON_WORKER_PROGRAM;
  auto runner = make_worker_runner("host", workload_, {}, options);
  EXPECT_LT(seconds_since(start), 1.0);
  EXPECT_EQ(runner->time({good()}, protocol(1)).at(0).status, Status::kOk);
}

TEST_F(Worker, LibrariesThatPrintDoNotDisturbTheAnswers) {
  EXPECT_EQ(runner()->time({bad("chatter")}, protocol(2)).at(0).status, Status::kOk);
}

TEST_F(Worker, AStopEndsAHangAtOnce) {
  std::stop_source source;
  auto runner = this->runner(source.get_token());
  Protocol patient = protocol(1);
  patient.hang_limit_s = 60;
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    source.request_stop();
  });
  const auto start = Clock::now();
  EXPECT_THROW(runner->time({bad("infinite loop")}, patient), Interrupted);
  EXPECT_LT(seconds_since(start), 1.3);
  stopper.join();
}

TEST_F(Worker, MissingDeviceAndProgramAreDeviceErrors) {
  WorkerOptions options;
  options.program = TENON_FAULTY_WORKER;
  EXPECT_THROW(make_worker_runner("cuda:99", workload_, {}, options), DeviceError);
  EXPECT_THROW(make_worker_runner("compile:sm_80", workload_, {}, options), DeviceError);
  options.start_limit_s = 0.2;
  EXPECT_THROW(make_worker_runner("never", workload_, {}, options), DeviceError);
  options.program = "/no/such/worker";
  EXPECT_THROW(make_worker_runner("host", workload_, {}, options), DeviceError);
  options.program = "/bin/true";
  EXPECT_THROW(make_worker_runner("host", workload_, {}, options), DeviceError);
}

TEST_F(Worker, ItGoesWithItsParent) {
  // A child starts a worker, writes down its process id and is killed while the worker hangs.
  const std::string file =
      (std::filesystem::temp_directory_path() / ("tenon-worker-" + std::to_string(getpid())))
          .string();
  const pid_t child = fork();
  if (child == 0) {
    WorkerOptions options;
    options.program = TENON_FAULTY_WORKER;
    auto runner = make_worker_runner("host", workload_, {}, options);
    std::ifstream children("/proc/self/task/" + std::to_string(getpid()) + "/children");
    std::string id;
    children >> id;
    std::ofstream(file + ".new") << id;
    std::filesystem::rename(file + ".new", file);
    Protocol patient = protocol(1);
    patient.hang_limit_s = 60;
    runner->time({bad("infinite loop")}, patient);
    _exit(1);
  }
  for (int i = 0; i < 200 && !std::filesystem::exists(file); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  int worker = 0;
  std::ifstream(file) >> worker;
  std::filesystem::remove(file);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (worker == 0) GTEST_SKIP() << "the kernel does not list children";
  bool gone = false;
  for (int i = 0; i < 100 && !gone; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::ifstream stat("/proc/" + std::to_string(worker) + "/stat");
    std::string id, command, state;
    gone = !(stat >> id >> command >> state) || state == "Z";
  }
  EXPECT_TRUE(gone);
}

TEST(Limits, HangLimitFollowsFromTheUnfusedTime) {
  EXPECT_EQ(hang_limit_s(0), 10);
  EXPECT_EQ(hang_limit_s(std::numeric_limits<double>::quiet_NaN()), 10);
  EXPECT_EQ(hang_limit_s(16), 1);
  EXPECT_DOUBLE_EQ(hang_limit_s(300), 3);
  EXPECT_EQ(hang_limit_s(1e6), 60);
}

TEST(Limits, ThrottlingByHeatOrHardwareDisturbsAndAPowerCapDoesNot) {
  EXPECT_EQ(throttle_text(0x0), "");
  EXPECT_EQ(throttle_text(0x1), "");  // idle
  EXPECT_EQ(throttle_text(0x4), "");  // power cap
  for (unsigned long long bit : {0x8, 0x20, 0x40, 0x80}) EXPECT_NE(throttle_text(bit), "");
}

}  // namespace
}  // namespace tenon::measure
