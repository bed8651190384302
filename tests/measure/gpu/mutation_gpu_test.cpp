// Wrong CUDA sources against numeric acceptance, on a GPU. Each mutant runs in a process of its
// own, which may hang, fault or corrupt its context; the table says what killed it. One that
// survives is tried in the other kernels that have the edited line, then with delays that right
// synchronization bears (delays.h), and where there is a compute-sanitizer under its tools.
//
//   TENON_MUTATION_TABLE  a file to which the rows are appended (tab-separated)
//   TENON_MUTATION_LIST   a file for the list of all mutants, made without a GPU
//   TENON_GPU_SOAK        the mutants run (make gpu-soak)
//   TENON_SANITIZER       compute-sanitizer
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include "child_process.h"
#include "cubin_text.h"
#include "gpu.h"
#include "ir/family.h"
#include "ir/schedule.h"
#include "known_survivors.h"
#include "mutation_build.h"
#include "mutation_cases.h"

namespace tenon::test {
namespace {

namespace fs = std::filesystem;

// Seconds since the test began: no further mutant is begun, and what is not finished is left.
constexpr double kLastStart = 100, kLastEnd = 112;
constexpr double kLimit = 20;  // seconds of one child; an original takes about two
constexpr double kSanitizedLimit = 200;
constexpr int kAccepted = 0, kRefused = 10, kNotRun = 11, kBadSetup = 12;

// Children at once, and compilations: each child also computes on the host.
std::size_t at_once() {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency() * 3 / 4, 2, 12);
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// What a child is given: a folder with the shape, the plan and the cubins.
void write_folder(const fs::path& folder, const MutationCase& s,
                  const measure::Candidate& candidate) {
  fs::create_directories(folder);
  write_text(folder / "shape", fmt::format("{} {} {}", s.m, s.k, s.n));
  write_text(folder / "plan", ir::print(candidate.plan));
  for (std::size_t i = 0; i < candidate.cubins.size(); ++i)
    write_text(folder / fmt::format("cubin.{}", i), candidate.cubins[i]);
}

struct Outcome {
  std::string means;  // "numeric", "guard", "repeat" …; "survived"
  std::string detail;
};

Outcome outcome_of(const ChildResult& child, const fs::path& folder) {
  const std::string reason = read_text(folder / "reason");
  if (child.end == ChildResult::kTimedOut) return {"hang", "ran past the limit"};
  if (child.end == ChildResult::kSignalled) return {"crash", fmt::format("signal {}", child.code)};
  if (child.code == kAccepted) return {"survived", ""};
  if (child.code == kNotRun) return {"launch error", reason};
  if (child.code != kRefused) return {"crash", fmt::format("exit code {}", child.code)};
  if (reason.find("stray write") != std::string::npos) return {"guard zone", reason};
  if (reason.find("overwritten") != std::string::npos) return {"input changed", reason};
  if (reason.find("between two launches") != std::string::npos) return {"repeat", reason};
  if (reason.find("was not written") != std::string::npos) return {"poison", reason};
  return {"numeric", reason};
}

const char* sanitizer() {
  const char* path = std::getenv("TENON_SANITIZER");
  return path == nullptr || *path == '\0' ? nullptr : path;
}

// Under the sanitizer a survivor may still show a race or an access out of bounds.
Outcome sanitize(const fs::path& folder) {
  if (sanitizer() == nullptr) return {"survived", ""};
  for (const char* tool : {"memcheck", "racecheck", "synccheck", "initcheck"}) {
    const ChildResult child =
        run_child({sanitizer(), "--tool", tool, "--error-exitcode", "86"}, "MutantChild.Run",
                  "TENON_MUTANT=" + folder.string(), (folder / tool).string(), kSanitizedLimit);
    if (child.code == 86) return {fmt::format("sanitizer: {}", tool), ""};
  }
  return {"survived", ""};
}

struct Row {
  const MutationCase* of = nullptr;  // null: it was not begun
  const BuiltMutant* mutant = nullptr;
  Outcome outcome;
};

std::string table_line(const std::string& means, const SourceMutant& m, const std::string& detail,
                       const MutationCase& c) {
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{}\n", means, m.kind, m.place, described(m),
                     detail.substr(0, 120), name(c));
}

void write_row(const Row& r) {
  const std::string line = table_line(r.outcome.means, r.mutant->mutant, r.outcome.detail, *r.of);
  std::fputs(line.c_str(), stdout);
  if (const char* path = std::getenv("TENON_MUTATION_TABLE"))
    std::ofstream(path, std::ios::app) << line;
}

// All cases with their mutants. What is not made within `limit_s` seconds is left out.
struct Built {
  std::vector<BuiltCase> cases;
  std::vector<std::vector<BuiltMutant>> mutants;  // of each case
};
Built build_all(const ir::Target& target, std::size_t threads, double limit_s) {
  const auto start = std::chrono::steady_clock::now();
  Built built;
  built.cases.resize(mutation_cases().size());
  in_parallel(built.cases.size(), threads, [&](std::size_t i) {
    const MutationCase& c = mutation_cases()[i];
    try {
      built.cases[i] = build(c, target);
    } catch (const std::exception& e) {
      ADD_FAILURE() << name(c) << ": " << e.what();
    }
  });
  if (testing::Test::HasFailure()) return {};
  std::set<std::string> used;
  for (const BuiltCase& c : built.cases) {
    const bool late =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > limit_s;
    built.mutants.push_back(
        late ? std::vector<BuiltMutant>{}
             : build_mutants(c, c.mutation_case->mutants, built.mutants.size(), used, threads));
  }
  return built;
}

class mutation_on_gpu : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tenon-mutants-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  bool late() const { return sanitizer() == nullptr && seconds() > kLastEnd - 1; }

  // Accepts or refuses a candidate in a child; "unfinished" where the test's own time ends first.
  Outcome judge(const MutationCase& c, const measure::Candidate& candidate, double limit,
                fs::path* at = nullptr) {
    if (late()) return {"unfinished", ""};
    const double left = sanitizer() == nullptr ? kLastEnd - seconds() : limit;
    const fs::path folder = folder_ / std::to_string(count_++);
    write_folder(folder, c, candidate);
    const ChildResult child = run_child({}, "MutantChild.Run", "TENON_MUTANT=" + folder.string(),
                                        (folder / "log").string(), std::min(limit, left));
    if (at) *at = folder;
    if (child.end == ChildResult::kTimedOut && left < limit) return {"unfinished", ""};
    return outcome_of(child, folder);
  }

  // The original must be accepted, or its mutants' ends would say nothing.
  bool original_is_right(const MutationCase& c, const measure::Candidate& candidate,
                         const std::string& how) {
    const Outcome outcome = judge(c, candidate, kLimit);
    if (outcome.means == "survived") return true;
    if (outcome.means == "unfinished") return false;
    ADD_FAILURE() << name(c) << ", the original" << how << " is not accepted: " << outcome.means
                  << ": " << outcome.detail;
    return false;
  }

  // Is the original right with the delay? Asked once, where a survivor needs to know.
  bool bears(const BuiltCase& built, Delay delay) {
    Answer& answer = answers_.at({&built, delay});
    std::call_once(answer.asked, [&] {
      answer.yes = original_is_right(*built.mutation_case, build_delayed(built, delay),
                                     std::string(" with ") + name(delay));
    });
    return answer.yes;
  }

  Outcome end_of(const std::vector<BuiltCase>& cases, const BuiltCase& built,
                 const BuiltMutant& mutant, double limit) {
    const MutationCase& c = *built.mutation_case;
    fs::path folder;
    Outcome outcome = judge(c, mutant.wrong, limit, &folder);
    if (outcome.means != "survived") return outcome;
    if (const char* why = known_survivor(c, mutant.mutant)) return {"survived, explained", why};
    // A missing wait shows with delays first, other edits in other kernels.
    const bool wait = mutant.mutant.kind == "barrier";
    for (const bool delays : {wait, !wait}) {
      outcome = delays ? with_delays(built, mutant, limit) : elsewhere(cases, built, mutant, limit);
      if (outcome.means != "survived") return outcome;
    }
    if (const char* why = known_survivor(c, mutant.mutant, true))
      return {"survived, explained", why};
    return sanitize(folder);
  }

  Outcome with_delays(const BuiltCase& built, const BuiltMutant& mutant, double limit) {
    for (Delay delay : kDelays) {
      if (late()) return {"unfinished", ""};
      if (!bears(built, delay)) continue;
      Outcome outcome = judge(*built.mutation_case, build_delayed(built, mutant, delay), 2 * limit);
      if (outcome.means == "survived") continue;
      if (outcome.means != "unfinished")
        outcome.means = fmt::format("{}: {}", name(delay), outcome.means);
      return outcome;
    }
    return {"survived", ""};
  }

  Outcome elsewhere(const std::vector<BuiltCase>& cases, const BuiltCase& built,
                    const BuiltMutant& mutant, double limit) {
    for (const BuiltCase& other : cases) {
      if (&other == &built) continue;
      if (late()) return {"unfinished", ""};
      const std::optional<BuiltMutant> same = build_same(other, mutant.mutant);
      if (!same) continue;
      Outcome outcome = judge(*other.mutation_case, same->wrong, limit);
      if (outcome.means == "survived") continue;
      if (outcome.means != "unfinished")
        outcome = {"elsewhere: " + outcome.means,
                   fmt::format("{}: {}", name(*other.mutation_case), outcome.detail)};
      return outcome;
    }
    return {"survived", ""};
  }

  struct Answer {
    std::once_flag asked;
    bool yes = false;
  };
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::map<std::pair<const BuiltCase*, Delay>, Answer> answers_;
  fs::path folder_;
  std::atomic<std::size_t> count_ = 0;
};

// Which mutants the sample holds follows from the text of the sources: after a change of those new
// survivors may have to be looked at. So this is asked for by name (make gpu-soak).
TEST_F(mutation_on_gpu, WrongSourcesAreKilled) {
  if (std::getenv("TENON_GPU_SOAK") == nullptr) GTEST_SKIP() << "part of make gpu-soak";
  TENON_REQUIRE_GPU(device);
  const ir::Target target = device->info().target;
  device.reset();  // the children have it
  const Built built = build_all(target, std::max(2U, std::thread::hardware_concurrency()), 60);
  ASSERT_FALSE(HasFailure());
  const std::vector<BuiltCase>& cases = built.cases;
  for (const BuiltCase& c : cases)
    for (Delay delay : kDelays) answers_[{&c, delay}];
  std::printf("compiled after %.0f s\n", seconds());

  std::atomic<double> slowest = 0;
  std::vector<char> right(cases.size());
  in_parallel(cases.size(), at_once(), [&](std::size_t i) {
    const double began = seconds();
    right[i] = original_is_right(*cases[i].mutation_case, cases[i].right, "");
    const double took = seconds() - began;
    for (double seen = slowest; took > seen && !slowest.compare_exchange_weak(seen, took);) {
    }
  });
  // What takes much longer than every original hangs.
  const double limit = std::clamp(4 * slowest, 8.0, kLimit);
  std::printf("originals after %.0f s; a mutant's limit is %.0f s\n", seconds(), limit);

  // Every case's first mutants first, so that all have some when the time is over.
  std::vector<std::pair<std::size_t, const BuiltMutant*>> all;
  for (std::size_t i = 0, before = 1; before != all.size(); ++i) {
    before = all.size();
    for (std::size_t c = 0; c < cases.size(); ++c)
      if (right[c] != 0 && i < built.mutants[c].size()) all.emplace_back(c, &built.mutants[c][i]);
  }
  std::vector<Row> rows(all.size());
  in_parallel(all.size(), at_once(), [&](std::size_t i) {
    if (sanitizer() == nullptr && seconds() > kLastStart) return;
    const auto [c, mutant] = all[i];
    rows[i] = {cases[c].mutation_case, mutant, {}};
    try {
      rows[i].outcome = end_of(cases, cases[c], *mutant, limit);
    } catch (const std::exception& e) {
      ADD_FAILURE() << name(*rows[i].of) << ": " << e.what();
    }
  });

  std::map<std::string, int> means, fixtures;
  int counted = 0;
  for (const Row& row : rows) {
    if (row.of == nullptr) continue;
    if (row.outcome.means == "survived")
      ADD_FAILURE() << "survived: " << name(*row.of) << ": " << row.mutant->mutant.place << ": "
                    << described(row.mutant->mutant);
    ++means[row.outcome.means];
    write_row(row);
    if (row.outcome.means == "unfinished") continue;
    ++counted;
    ++fixtures[row.of->fixture];
  }
  EXPECT_GE(counted, 100);
  for (const std::string& fixture : embedded_fixtures())
    EXPECT_GE(fixtures[fixture], 12) << fixture;
  std::string summary;
  for (const auto& [mean, count] : means) summary += fmt::format("{} {}; ", mean, count);
  std::printf("%d of %zu mutants in %.0f s: %s\n", counted, all.size(), seconds(), summary.c_str());
}

// Right kernels bear every delay: what is refused with one lacks a wait.
using delays_on_gpu = mutation_on_gpu;
TEST_F(delays_on_gpu, OriginalsAreAccepted) {
  TENON_REQUIRE_GPU(device);
  const ir::Target target = device->info().target;
  device.reset();
  const std::size_t ways = std::size(kDelays);
  in_parallel(mutation_cases().size() * ways, at_once(), [&](std::size_t i) {
    const MutationCase& c = mutation_cases()[i / ways];
    const Delay delay = kDelays[i % ways];
    try {
      EXPECT_TRUE(original_is_right(c, build_delayed(build(c, target), delay),
                                    std::string(" with ") + name(delay)))
          << name(c);
    } catch (const std::exception& e) {
      ADD_FAILURE() << name(c) << ", " << name(delay) << ": " << e.what();
    }
  });
}

// The child: accepts or refuses the candidate of $TENON_MUTANT, writes why, and leaves at once.
TEST(MutantChild, Run) {
  const char* given = std::getenv("TENON_MUTANT");
  if (given == nullptr) GTEST_SKIP() << "started by mutation tests only";
  // The parent may be a sanitizer, which does not look after us when it is killed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const fs::path folder = given;
  const std::string order = read_text(folder / "order");
  if (order == "hang") {
    write_text(folder / "pid", std::to_string(getpid()));
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
  if (order == "crash") std::abort();
  if (order == "exit") std::_Exit(kRefused);
  int code = kBadSetup;
  std::string reason;
  try {
    MutationCase s{};
    std::istringstream(read_text(folder / "shape")) >> s.m >> s.k >> s.n;
    measure::Candidate candidate{ir::parse_plan(read_text(folder / "plan")), {}};
    for (std::size_t i = 0; i < candidate.plan.modules.size(); ++i)
      candidate.cubins.push_back(read_text(folder / fmt::format("cubin.{}", i)));
    auto runner = measure::make_local_runner("cuda:0", workload_of(s));
    const verifier::Evidence e = runner->accept(candidate, 1);
    reason = e.reason;
    code = e.verdict == verifier::Verdict::kPass      ? kAccepted
           : e.verdict == verifier::Verdict::kRefuted ? kRefused
           : e.verdict == verifier::Verdict::kUnknown ? kNotRun
                                                      : kBadSetup;
  } catch (const std::exception& e) {
    reason = e.what();
    code = kNotRun;
  }
  write_text(folder / "reason", reason);
  std::_Exit(code);  // a broken context must not be torn down
}

// The machinery itself, without a GPU: what a child can do to its parent is nothing.
TEST(mutation_children, EndsOfEveryKindAreSeen) {
  std::string pattern = (fs::temp_directory_path() / "tenon-children-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const fs::path folder = pattern;
  auto run = [&](const std::string& order, double limit) {
    write_text(folder / "order", order);
    return run_child({}, "MutantChild.Run", "TENON_MUTANT=" + folder.string(),
                     (folder / "log").string(), limit);
  };
  const ChildResult hang = run("hang", 1);
  EXPECT_EQ(hang.end, ChildResult::kTimedOut);
  EXPECT_LT(hang.seconds, 20);
  EXPECT_EQ(outcome_of(hang, folder).means, "hang");
  EXPECT_EQ(outcome_of(run("crash", 60), folder).means, "crash");
  write_text(folder / "reason", "a stray write at byte 4 of tensor y");
  EXPECT_EQ(outcome_of(run("exit", 60), folder).means, "guard zone");
  fs::remove_all(folder);
}

// Between a test and its child: what is killed together with neither.
TEST(MutantChild, Parent) {
  const char* given = std::getenv("TENON_MUTANT_PARENT");
  if (given == nullptr) GTEST_SKIP() << "started by mutation tests only";
  const fs::path folder = given;
  run_child({}, "MutantChild.Run", "TENON_MUTANT=" + folder.string(), (folder / "log").string(),
            3600);
}

// A child that would run for ever ends with the process that started it.
TEST(mutation_children, DieWithTheirParent) {
  std::string pattern = (fs::temp_directory_path() / "tenon-children-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const fs::path folder = pattern;
  write_text(folder / "order", "hang");
  const ChildResult parent =
      run_child({}, "MutantChild.Parent", "TENON_MUTANT_PARENT=" + folder.string(),
                (folder / "parent").string(), 3);
  EXPECT_EQ(parent.end, ChildResult::kTimedOut);
  const std::string pid = read_text(folder / "pid");
  ASSERT_FALSE(pid.empty()) << "the child was not started";
  auto runs = [&] {  // a zombie does not
    const std::string stat = read_text("/proc/" + pid + "/stat");
    const std::size_t name_end = stat.rfind(')');
    return name_end != std::string::npos && stat.size() > name_end + 2 &&
           stat[name_end + 2] != 'Z' && stat[name_end + 2] != 'X';
  };
  for (int i = 0; i < 500 && runs(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(runs());
  fs::remove_all(folder);
}

// Every case is legal, is made of what its schedule says, and has mutants enough; all of it
// compiles with every delay.
TEST(mutation_sources, CasesCompile) {
  std::string why;
  if (!codegen::nvrtc_available(&why)) GTEST_SKIP() << why;
  const ir::Target target = ir::target_from_name("sm_90a");
  std::map<std::string, std::size_t> wanted;
  std::set<std::string> families;
  std::set<std::int64_t> statistics;  // of gemm: device/gemm/config.cuh
  for (const MutationCase& c : mutation_cases()) {
    const ir::MuGraph graph = embedded_fixture(c.fixture);
    const ir::Schedule schedule = ir::parse_schedule(c.schedule);
    ASSERT_EQ(schedule.kernels.size(), graph.kernels.size()) << name(c);
    for (std::size_t k = 0; k < graph.kernels.size(); ++k) {
      const auto reason =
          ir::illegal(ir::view(graph, k), schedule.kernels[k], workload_of(c), target);
      EXPECT_FALSE(reason) << name(c) << ": " << reason.value_or("");
      families.insert(schedule.kernels[k].family);
      for (const auto& [parameter, value] : schedule.kernels[k].params)
        if (parameter == "statistics") statistics.insert(value);
    }
    wanted[c.fixture] += c.mutants;
    // A few are enough here: the GPU's machine compiles all of them.
    if (c.n != 301 && std::string(c.schedule).find("ping_pong") == std::string::npos) continue;
    try {
      const BuiltCase built = build(c, target);
      for (const codegen::Source& source : built.sources)
        EXPECT_EQ(source.text.find("#include \"device"), std::string::npos);
      for (Delay delay : kDelays) {
        const measure::Candidate slow = build_delayed(built, delay);
        EXPECT_EQ(slow.cubins.size(), built.right.cubins.size());
      }
    } catch (const std::exception& e) {
      ADD_FAILURE() << name(c) << ": " << e.what();
    }
  }
  for (const char* family : {"rows", "contraction", "small_m", "multicast", "gemm", "library"})
    EXPECT_TRUE(families.count(family)) << family;
  EXPECT_EQ(statistics, (std::set<std::int64_t>{2, 3, 4, 5}));
  for (const std::string& fixture : embedded_fixtures()) EXPECT_GE(wanted[fixture], 18U) << fixture;
}

// Edits are found in functions, of every kind, and enough of them make other code.
TEST(mutation_sources, CompileToOtherCode) {
  std::string why;
  if (!codegen::nvrtc_available(&why)) GTEST_SKIP() << why;
  const MutationCase& c = mutation_cases()[1];
  const BuiltCase built = build(c, ir::target_from_name("sm_80"));
  std::vector<SourceMutant> all;
  for (const codegen::Source& source : built.sources)
    for (SourceMutant& m : source_mutants(source.text)) all.push_back(std::move(m));
  std::set<std::string> kinds, places;
  for (const SourceMutant& m : all) {
    kinds.insert(m.kind);
    places.insert(m.place);
  }
  EXPECT_GE(all.size(), 100U);
  for (const char* kind : {"barrier", "mask", "accumulator", "stride", "extent", "bound"})
    EXPECT_TRUE(kinds.count(kind)) << kind;
  EXPECT_TRUE(places.count("device/portable/contraction.cuh loop"));
  EXPECT_TRUE(places.count("device/portable/split.cuh last_to_arrive") ||
              places.count("device/portable/run.cuh store_run"));
  std::set<std::string> used;
  EXPECT_EQ(build_mutants(built, 6, 0, used, 2).size(), 6U);
  EXPECT_EQ(used.size(), 6U);
}

// What the GPU test will run, made without a GPU: enough mutants of every fixture, and each of them
// other instructions than its original. All cases take minutes on few cores, so only with
// TENON_MUTATION_LIST; else one of each family.
TEST(mutation_sources, EveryCaseHasItsMutants) {
  std::string why;
  if (!codegen::nvrtc_available(&why)) GTEST_SKIP() << why;
  const ir::Target target = ir::target_from_name("sm_90a");
  const std::size_t threads = std::max(2U, std::thread::hardware_concurrency());
  auto check = [](const BuiltCase& c, const std::vector<BuiltMutant>& mutants) {
    for (const BuiltMutant& m : mutants)
      EXPECT_NE(cubin_text(m.wrong.cubins[m.module], c.launched[m.module]),
                cubin_text(c.right.cubins[m.module], c.launched[m.module]))
          << described(m.mutant);
  };
  const char* list = std::getenv("TENON_MUTATION_LIST");
  if (list == nullptr) {
    std::set<std::string> used, families;
    for (const MutationCase& c : mutation_cases()) {
      const ir::Schedule schedule = ir::parse_schedule(c.schedule);
      if (!families.insert(schedule.kernels.back().family).second) continue;
      const BuiltCase built = build(c, target);
      const std::vector<BuiltMutant> mutants = build_mutants(built, 2, 0, used, threads);
      EXPECT_EQ(mutants.size(), 2U) << name(c);
      check(built, mutants);
    }
    return;
  }
  const Built built = build_all(target, threads, 3600);
  std::ofstream out(list);
  std::map<std::string, std::size_t> fixtures;
  std::size_t all = 0;
  for (std::size_t i = 0; i < built.mutants.size(); ++i) {
    const BuiltCase& c = built.cases[i];
    check(c, built.mutants[i]);
    EXPECT_EQ(built.mutants[i].size(), c.mutation_case->mutants) << name(*c.mutation_case);
    all += built.mutants[i].size();
    fixtures[c.mutation_case->fixture] += built.mutants[i].size();
    for (const BuiltMutant& m : built.mutants[i]) {
      const char* known = known_survivor(*c.mutation_case, m.mutant);
      out << table_line(known ? "explained" : "", m.mutant, known ? known : "", *c.mutation_case);
    }
  }
  EXPECT_GE(all, 120U);
  for (const std::string& fixture : embedded_fixtures()) EXPECT_GE(fixtures[fixture], 18U);
}

// A delay is put into the text.
TEST(mutation_sources, DelaysChangeTheText) {
  const std::string flat =
      "__device__ void tma_load_2d(int a,\n    int b) {\n  copy();\n}\n"
      "__device__ void mbarrier_wait(int b) {\n  while (b) {\n  }\n}\n"
      "__device__ void f() { __syncthreads(); }\n";
  const std::string late = delayed(flat, Delay::kLateCopies);
  EXPECT_NE(late.find("int b) { tenon_long_rest();\n  copy();"), std::string::npos) << late;
  const std::string slow = delayed(flat, Delay::kSlowWarps);
  EXPECT_NE(slow.find("  }\ntenon_rest();\n}"), std::string::npos) << slow;
  EXPECT_NE(slow.find("__syncthreads(), tenon_rest();"), std::string::npos) << slow;
  EXPECT_NE(delayed("__device__ bool merge_parts(int a) { return a; }\n", Delay::kSlowWarps)
                .find("{ tenon_late_share(); return a; }"),
            std::string::npos);
}

// Equal lines of a function are told apart, and an edit is found again in another source.
TEST(mutation_sources, EditsAreFoundAgain) {
  const std::string one =
      "__device__ void f() {\n  __syncthreads();\n  g();\n  __syncthreads();\n}\n";
  const std::string two = "__device__ void h() {\n  __syncthreads();\n}\n" + one;
  std::vector<SourceMutant> barriers;
  for (SourceMutant& m : source_mutants(one))
    if (m.kind == "barrier") barriers.push_back(std::move(m));
  ASSERT_EQ(barriers.size(), 2U);
  EXPECT_EQ(described(barriers[0]), "__syncthreads();  ->  ;");
  EXPECT_EQ(described(barriers[1]), "[2] __syncthreads();  ->  ;");
  const std::optional<SourceMutant> same = same_edit(two, barriers[1]);
  ASSERT_TRUE(same.has_value());
  EXPECT_EQ(same->text,
            "__device__ void h() {\n  __syncthreads();\n}\n"
            "__device__ void f() {\n  __syncthreads();\n  g();\n;\n}\n");
  EXPECT_FALSE(same_edit("__device__ void f() {\n  __syncthreads();\n}\n", barriers[1]));
}

}  // namespace
}  // namespace tenon::test
