// Long checks of the tuning database: tenon_cache_soak [scale|screened|full|kills|contention] …
//
//   scale       100,000 workloads and 2 million measurements; lookups stay under 1 ms
//   screened    a workload with 1,300 plans that were only screened; lookups stay under 1 ms
//   full        a disk that is full or a file-size limit: one sentence, and nothing is lost
//   kills       1,000 kills at random moments lose no committed measurement
//   contention  16 processes writing and 16 reading for a minute: no error, no lost row, no
//               reader blocked for 100 ms
//
// Without arguments all of them. Exit code 1 when one does not hold.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ir/error.h"
#include "tests/cache/sample.h"

namespace tenon::cache {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double processor_milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

bool hold(bool condition, const std::string& what) {
  fmt::print("{}: {}\n", condition ? "holds" : "FAILS", what);
  std::fflush(stdout);
  return condition;
}

std::int64_t count(Database& database, const std::string& table) {
  for (const auto& [name, rows] : database.table_counts()) {
    if (name == table) return rows;
  }
  return -1;
}

// Workload i of the large database: 100 values of m for each of 1,000 (k, n).
Sample workload_of(int i) {
  Sample sample;
  sample.m = 1 + i % 100;
  sample.k = 64 * (1 + i / 100 % 40);
  sample.n = 64 * (1 + i / 4000);
  sample.m_min = 1;
  sample.m_max = 128;  // the intervals of all 100 overlap
  return sample;
}

constexpr int kPlansEach = 10, kMeasurementsEach = 2;

// Stores the workload with its plans and their measurements. `shared` are the rows that a first
// workload, stored by add(), has in common with this one.
void store_workload(Database& database, int i, const std::vector<Stored>& shared) {
  Sample sample = workload_of(i);
  WorkloadRow workload = shared[0].workload;
  workload.key = key_of(sample);
  workload.m = sample.m;
  const std::int64_t workload_id = database.put(workload);
  for (int number = 0; number < kPlansEach; ++number) {
    const Stored& like = shared[static_cast<std::size_t>(number)];
    PlanRow plan = like.plan;
    plan.workload = workload_id;
    plan.m_min = sample.m_min;
    plan.m_max = sample.m_max;
    plan.text += fmt::format(" for {}", workload_id);
    plan.sha256.clear();
    const std::int64_t plan_id = database.put(plan);
    EvidenceRow evidence = like.evidence.back();
    evidence.plan = plan_id;
    database.put(evidence);
    MeasurementRow measurement = like.measurement;
    measurement.plan = plan_id;
    measurement.created.clear();
    for (int repeat = 0; repeat < kMeasurementsEach; ++repeat) {
      measurement.time_us = 10 + (number * 7 + i) % 10 + 0.1 * repeat;
      measurement.samples_us.assign(20, measurement.time_us);
      database.put(measurement);
    }
  }
}

bool check_scale() {
  constexpr int kWorkloads = 100000;
  TemporaryFolder folder;
  const std::string path = folder.file("large.db");
  auto start = Clock::now();
  auto database = Database::open(path);
  std::vector<Stored> shared;
  for (int number = 0; number < kPlansEach; ++number) {
    Sample sample;
    sample.k = 1;
    sample.mugraph = fmt::format("mugraph {}\n", number);
    sample.schedule = fmt::format("tile({})", number);
    sample.cubin = std::string(30000, static_cast<char>('a' + number));
    shared.push_back(*database->by_plan(add(*database, sample)));
  }
  for (int first = 0; first < kWorkloads; first += 1000) {
    database->transaction([&] {
      for (int i = first; i < first + 1000; ++i) store_workload(*database, i, shared);
    });
  }
  fmt::print("stored {} workloads and {} measurements in {:.0f} s, {:.0f} MB\n",
             count(*database, "workload"), count(*database, "measurement"),
             milliseconds_since(start) / 1000,
             static_cast<double>(std::filesystem::file_size(path)) / 1e6);
  database = Database::open(path, true);
  std::mt19937 random(5);
  std::vector<double> times, processor;
  for (int i = 0; i < 2000; ++i) {
    Query query = query_for(workload_of(static_cast<int>(random() % kWorkloads)));
    start = Clock::now();
    const double used = processor_milliseconds();
    if (!database->best(query)) return hold(false, "every workload has a winner");
    processor.push_back(processor_milliseconds() - used);
    times.push_back(milliseconds_since(start));
  }
  fmt::print("first lookup {:.3f} ms\n", times.front());
  auto quantile = [](std::vector<double>& values, double q) {
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
  };
  // Other processes delay some lookups; what a lookup itself takes is its processor time.
  bool good = hold(quantile(times, 0.5) <= 1 && quantile(processor, 0.99) <= 1,
                   fmt::format("best within 1 ms: median {:.3f} ms, 99% {:.3f} ms; processor time "
                               "median {:.3f} ms, 99% {:.3f} ms",
                               quantile(times, 0.5), quantile(times, 0.99),
                               quantile(processor, 0.5), quantile(processor, 0.99)));
  Query miss = query_for(workload_of(0));
  miss.device_class = "sm_80";
  std::string why;
  start = Clock::now();
  database->best(miss, &why);
  fmt::print("a miss explained in {:.1f} ms: {}\n", milliseconds_since(start), why);
  start = Clock::now();
  auto lines = database->list(true).size();
  fmt::print("listed {} winners in {:.1f} s\n", lines, milliseconds_since(start) / 1000);
  return good;
}

bool check_screened() {
  TemporaryFolder folder;
  const std::string path = folder.file("screened.db");
  {
    auto database = Database::open(path);
    database->transaction([&] {
      for (int i = 0; i < 1300; ++i) {
        Sample sample;
        sample.mugraph = fmt::format("mugraph {}\n", i % 50);
        sample.schedule = fmt::format("tile({})", i);
        sample.cubin =
            "\x7f"
            "ELF" +
            std::string(20000, static_cast<char>('a' + i % 26));
        sample.time_us = 5 + i % 100;
        if (i >= 10) sample.numeric = "";
        add(*database, sample);
      }
    });
  }
  auto database = Database::open(path, true);
  std::vector<double> processor;
  for (int i = 0; i < 1000; ++i) {
    const double used = processor_milliseconds();
    if (!database->best(query_for({}))) return hold(false, "the workload has a winner");
    processor.push_back(processor_milliseconds() - used);
  }
  std::sort(processor.begin(), processor.end());
  return hold(
      processor[990] <= 1,
      fmt::format("best among 1,300 plans of one workload: processor time median {:.3f} ms, "
                  "99% {:.3f} ms",
                  processor[500], processor[990]));
}

// Writers under a limit on the size of files, which SQLite meets as it meets a full disk: each
// fails in one sentence, and what was committed stays.
bool check_full() {
  TemporaryFolder folder;
  const std::string path = folder.file("full.db");
  add(*Database::open(path), {});
  std::int64_t promised = 1;
  bool sentences = true;
  for (rlim_t limit : {400000, 500000, 700000, 1000000}) {
    int ends[2];
    if (pipe(ends) != 0) return hold(false, "pipes can be made");
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit bound{limit, limit};
      setrlimit(RLIMIT_FSIZE, &bound);
      try {
        auto database = Database::open(path);
        for (int i = 0;; ++i) {
          Sample sample;
          sample.schedule = fmt::format("{}.{}", limit, i);
          sample.cubin = std::string(20000, static_cast<char>('a' + i % 26));
          add(*database, sample);
          char done = 1;
          if (write(ends[1], &done, 1) != 1) _exit(2);
        }
      } catch (const UserError& error) {
        const std::string what = error.what();
        std::fprintf(stderr, "%s\n", error.what());
        _exit(what.find(path) != std::string::npos && what.find('\n') == std::string::npos ? 0 : 3);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        _exit(4);
      }
    }
    close(ends[1]);
    char done = 0;
    while (read(ends[0], &done, 1) == 1) ++promised;
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    sentences = sentences && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  auto database = Database::open(path);
  return hold(
      sentences && count(*database, "measurement") == promised && database->check().empty(),
      fmt::format("a full disk is one sentence, and none of {} measurements is lost", promised));
}

bool check_kills() {
  constexpr int kKills = 1000;
  TemporaryFolder folder;
  const std::string path = folder.file("killed.db");
  Database::open(path);
  std::mt19937_64 random(6);
  std::int64_t promised = 0;
  bool lost = false, sound = true;
  for (int kill_number = 0; kill_number < kKills; ++kill_number) {
    int ends[2];
    if (pipe(ends) != 0) return hold(false, "pipes can be made");
    pid_t child = fork();
    if (child == 0) {
      auto database = Database::open(path);
      for (int i = 0;; ++i) {
        Sample sample;
        sample.schedule = fmt::format("{}.{}", kill_number, i);
        add(*database, sample);
        char done = 1;
        if (write(ends[1], &done, 1) != 1) _exit(1);
      }
    }
    close(ends[1]);
    char done = 0;
    // Every other one is killed while it opens the database, the rest while they write.
    if (kill_number % 2 == 0 && read(ends[0], &done, 1) == 1) ++promised;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 40000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    while (read(ends[0], &done, 1) == 1) ++promised;
    close(ends[0]);
    auto database = Database::open(path);
    std::int64_t stored = count(*database, "measurement");
    lost = lost || stored < promised || stored > promised + 1;
    promised = stored;
    if (kill_number % 50 == 49) sound = sound && database->check().empty();
  }
  return hold(!lost && sound,
              fmt::format("{} kills lost none of {} measurements", kKills, promised));
}

bool check_contention() {
  constexpr int kWriters = 16, kReaders = 16;
  constexpr auto kTime = std::chrono::seconds(60);
  TemporaryFolder folder;
  const std::string path = folder.file("busy.db");
  add(*Database::open(path), {});
  struct Result {
    std::int64_t done = 0;
    double slowest_ms = 0;
    int failed = 0;
  };
  int ends[2];
  if (pipe(ends) != 0) return hold(false, "pipes can be made");
  const auto end = Clock::now() + kTime;
  for (int worker = 0; worker < kWriters + kReaders; ++worker) {
    if (fork() != 0) continue;
    Result result;
    try {
      auto database = Database::open(path, worker >= kWriters);
      while (Clock::now() < end) {
        auto start = Clock::now();
        if (worker < kWriters) {
          Sample sample;
          sample.schedule = fmt::format("{}.{}", worker, result.done);
          // Twenty candidates a workload, none of them the one that is looked up.
          sample.k = 1000 + worker;
          sample.m = sample.m_min = sample.m_max = 1 + result.done / 20;
          add(*database, sample);
        } else if (!database->best(query_for({}))) {
          ++result.failed;
        }
        result.slowest_ms = std::max(result.slowest_ms, milliseconds_since(start));
        ++result.done;
        std::this_thread::sleep_for(std::chrono::milliseconds(worker < kWriters ? 50 : 5));
      }
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      ++result.failed;
    }
    // Smaller than PIPE_BUF: whole. Negative counts are readers'.
    if (worker >= kWriters) result.done = -result.done;
    _exit(write(ends[1], &result, sizeof result) == sizeof result ? 0 : 1);
  }
  close(ends[1]);
  std::int64_t written = 1, looked_up = 0;
  int failed = 0, reported = 0;
  double slowest_write = 0, slowest_read = 0;
  Result result;
  while (read(ends[0], &result, sizeof result) == sizeof result) {
    ++reported;
    failed += result.failed;
    (result.done < 0 ? slowest_read : slowest_write) =
        std::max(result.done < 0 ? slowest_read : slowest_write, result.slowest_ms);
    (result.done < 0 ? looked_up : written) += std::abs(result.done);
  }
  while (wait(nullptr) > 0) {
  }
  auto database = Database::open(path);
  bool good = hold(failed == 0 && reported == kWriters + kReaders, "no process met an error");
  good =
      hold(count(*database, "measurement") == written,
           fmt::format("none of {} writes is lost (slowest {:.0f} ms)", written, slowest_write)) &&
      good;
  good = hold(database->check().empty(), "the database passes its check") && good;
  return hold(slowest_read < 100,
              fmt::format("none of {} lookups was blocked for 100 ms (slowest {:.1f} ms)",
                          looked_up, slowest_read)) &&
         good;
}

}  // namespace
}  // namespace tenon::cache

int main(int argc, char** argv) {
  const std::map<std::string, std::function<bool()>> checks{
      {"scale", tenon::cache::check_scale},
      {"screened", tenon::cache::check_screened},
      {"full", tenon::cache::check_full},
      {"kills", tenon::cache::check_kills},
      {"contention", tenon::cache::check_contention}};
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty()) names = {"screened", "full", "contention", "kills", "scale"};
  bool good = true;
  for (const std::string& name : names) {
    auto found = checks.find(name);
    if (found == checks.end()) {
      fmt::print(stderr, "check is '{}'; accepted: scale, screened, full, kills, contention\n",
                 name);
      return 2;
    }
    good = found->second() && good;
  }
  return good ? 0 : 1;
}
