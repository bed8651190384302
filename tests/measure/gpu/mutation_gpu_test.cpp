// Wrong CUDA sources against numeric acceptance, on a GPU. Each mutant runs in a process of its
// own, which may hang, fault or corrupt its context; the table says what killed it. One that
// survives runs again with delays that right synchronization bears (delays.h), and where there is
// a compute-sanitizer under its tools.
//
//   TENON_MUTATION_TABLE  a file to which the rows are appended (tab-separated)
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
#include "gpu.h"
#include "ir/family.h"
#include "ir/schedule.h"
#include "known_survivors.h"
#include "mutation_build.h"
#include "mutation_cases.h"

namespace tenon::test {
namespace {

namespace fs = std::filesystem;

constexpr double kLimit = 20;    // seconds of one mutant; a right one takes about two
constexpr double kBudget = 100;  // seconds after which no further mutant is begun
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

// Under the sanitizer a survivor may still show a race or an access out of bounds.
Outcome sanitize(const fs::path& folder) {
  const char* sanitizer = std::getenv("TENON_SANITIZER");
  if (sanitizer == nullptr || *sanitizer == '\0') return {"survived", ""};
  for (const char* tool : {"memcheck", "racecheck", "synccheck", "initcheck"}) {
    const ChildResult child =
        run_child({sanitizer, "--tool", tool, "--error-exitcode", "86"}, "MutantChild.Run",
                  "TENON_MUTANT=" + folder.string(), (folder / tool).string(), 10 * kLimit);
    if (child.code == 86) return {fmt::format("sanitizer: {}", tool), ""};
  }
  return {"survived", ""};
}

struct Row {
  const MutationCase* of = nullptr;  // null: there was no time for it
  const BuiltMutant* mutant = nullptr;
  Outcome outcome;
};

void write_row(const Row& r) {
  const SourceMutant& m = r.mutant->mutant;
  const std::string line = fmt::format("{}\t{}\t{}\t{}\t{}\t{}\n", r.outcome.means, m.kind, m.place,
                                       m.edit, r.outcome.detail.substr(0, 120), name(*r.of));
  std::fputs(line.c_str(), stdout);
  if (const char* path = std::getenv("TENON_MUTATION_TABLE"))
    std::ofstream(path, std::ios::app) << line;
}

class mutation_on_gpu : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tenon-mutants-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Accepts or refuses a candidate in a child.
  Outcome judge(const MutationCase& c, const measure::Candidate& candidate,
                fs::path* at = nullptr) {
    const fs::path folder = folder_ / std::to_string(count_++);
    write_folder(folder, c, candidate);
    const ChildResult child = run_child({}, "MutantChild.Run", "TENON_MUTANT=" + folder.string(),
                                        (folder / "log").string(), kLimit);
    if (at) *at = folder;
    return outcome_of(child, folder);
  }

  // The original must be accepted, or its mutants' ends would say nothing.
  bool original_is_right(const MutationCase& c, const measure::Candidate& candidate,
                         const char* how) {
    const Outcome outcome = judge(c, candidate);
    if (outcome.means == "survived") return true;
    ADD_FAILURE() << name(c) << ", the original" << how << " is not accepted: " << outcome.means
                  << ": " << outcome.detail;
    return false;
  }

  Outcome end_of(const BuiltCase& built, const BuiltMutant& mutant,
                 const std::map<Delay, bool>& bears) {
    const MutationCase& c = *built.mutation_case;
    fs::path folder;
    Outcome outcome = judge(c, mutant.wrong, &folder);
    for (Delay delay : kDelays) {
      if (outcome.means != "survived" || !bears.at(delay)) continue;
      outcome = judge(c, build_delayed(built, mutant, delay));
      if (outcome.means != "survived")
        outcome.means = fmt::format("{}: {}", name(delay), outcome.means);
    }
    return outcome.means == "survived" ? sanitize(folder) : outcome;
  }

  fs::path folder_;
  std::atomic<std::size_t> count_ = 0;
};

TEST_F(mutation_on_gpu, WrongSourcesAreKilled) {
  TENON_REQUIRE_GPU(device);
  const ir::Target target = device->info().target;
  device.reset();  // the children have it
  const auto start = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<BuiltCase> cases(mutation_cases().size());
  in_parallel(cases.size(), at_once(), [&](std::size_t i) {
    const MutationCase& c = mutation_cases()[i];
    try {
      cases[i] = build(c, target);
    } catch (const std::exception& e) {
      ADD_FAILURE() << name(c) << ": " << e.what();
    }
  });
  ASSERT_FALSE(HasFailure());
  std::vector<std::vector<BuiltMutant>> mutants;
  std::set<std::string> used;
  for (const BuiltCase& built : cases)
    mutants.push_back(
        build_mutants(built, built.mutation_case->mutants, mutants.size(), used, at_once()));
  std::printf("compiled after %.0f s\n", seconds());

  // Whether the originals are accepted, as they are and with each delay.
  std::vector<std::map<Delay, bool>> bears(cases.size());
  for (auto& b : bears)
    for (Delay delay : kDelays) b[delay] = false;
  const std::size_t ways = 1 + std::size(kDelays);
  in_parallel(cases.size() * ways, at_once(), [&](std::size_t i) {
    const BuiltCase& built = cases[i / ways];
    const MutationCase& c = *built.mutation_case;
    if (i % ways == 0) {
      original_is_right(c, built.right, "");
      return;
    }
    const Delay delay = kDelays[i % ways - 1];
    try {
      bears[i / ways].at(delay) = original_is_right(c, build_delayed(built, delay), name(delay));
    } catch (const std::exception& e) {
      ADD_FAILURE() << name(c) << ", " << name(delay) << ": " << e.what();
    }
  });
  std::printf("originals after %.0f s\n", seconds());

  // Every case's first mutants first, so that all have some when the time is over.
  std::vector<std::pair<std::size_t, const BuiltMutant*>> all;
  for (std::size_t i = 0, before = 1; before != all.size(); ++i) {
    before = all.size();
    for (std::size_t c = 0; c < cases.size(); ++c)
      if (i < mutants[c].size()) all.emplace_back(c, &mutants[c][i]);
  }
  std::vector<Row> rows(all.size());
  in_parallel(all.size(), at_once(), [&](std::size_t i) {
    if (seconds() > kBudget) return;
    const auto [c, mutant] = all[i];
    rows[i] = {cases[c].mutation_case, mutant, {}};
    try {
      rows[i].outcome = end_of(cases[c], *mutant, bears[c]);
    } catch (const std::exception& e) {
      ADD_FAILURE() << name(*rows[i].of) << ": " << e.what();
    }
  });

  std::erase_if(rows, [](const Row& row) { return row.of == nullptr; });
  std::map<std::string, int> means, fixtures;
  for (Row& row : rows) {
    if (row.outcome.means == "survived") {
      if (const char* why = known_survivor(*row.of, row.mutant->mutant))
        row.outcome = {"survived, explained", why};
      else
        ADD_FAILURE() << "survived: " << name(*row.of) << ": " << row.mutant->mutant.place << ": "
                      << row.mutant->mutant.edit;
    }
    ++means[row.outcome.means];
    ++fixtures[row.of->fixture];
    write_row(row);
  }
  EXPECT_GE(rows.size(), 100U);
  for (const std::string& fixture : embedded_fixtures())
    EXPECT_GE(fixtures[fixture], 15) << fixture;
  std::string summary;
  for (const auto& [mean, count] : means) summary += fmt::format("{} {}; ", mean, count);
  std::printf("%zu of %zu mutants in %.0f s: %s\n", rows.size(), all.size(), seconds(),
              summary.c_str());
}

// The child: accepts or refuses the candidate of $TENON_MUTANT, writes why, and leaves at once.
TEST(MutantChild, Run) {
  const char* given = std::getenv("TENON_MUTANT");
  if (given == nullptr) GTEST_SKIP() << "started by mutation tests only";
  // The parent may be a sanitizer, which does not look after us when it is killed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const fs::path folder = given;
  const std::string order = read_text(folder / "order");
  if (order == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
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

// Every case is legal, is made of what its schedule says, and has mutants enough; all of it
// compiles with every delay.
TEST(mutation_sources, CasesCompile) {
  std::string why;
  if (!codegen::nvrtc_available(&why)) GTEST_SKIP() << why;
  const ir::Target target = ir::target_from_name("sm_90a");
  std::map<std::string, std::size_t> wanted;
  std::set<std::string> families;
  for (const MutationCase& c : mutation_cases()) {
    const ir::MuGraph graph = embedded_fixture(c.fixture);
    const ir::Schedule schedule = ir::parse_schedule(c.schedule);
    ASSERT_EQ(schedule.kernels.size(), graph.kernels.size()) << name(c);
    for (std::size_t k = 0; k < graph.kernels.size(); ++k) {
      const auto reason =
          ir::illegal(ir::view(graph, k), schedule.kernels[k], workload_of(c), target);
      EXPECT_FALSE(reason) << name(c) << ": " << reason.value_or("");
      families.insert(schedule.kernels[k].family);
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
}

}  // namespace
}  // namespace tenon::test
