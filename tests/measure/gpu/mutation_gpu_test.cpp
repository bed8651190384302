// Wrong CUDA sources against numeric acceptance, on a GPU. Each mutant runs in a process of its
// own, which may hang, fault or corrupt its context; the table says what killed it.
//
//   TENON_MUTATION_TABLE  a file to which the rows are appended (tab-separated)
//   TENON_SANITIZER       compute-sanitizer: survivors run again under its tools
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "child_process.h"
#include "cubin_text.h"
#include "gpu.h"
#include "ir/family.h"
#include "ir/schedule.h"
#include "ir/sha256.h"
#include "source_mutants.h"

namespace tenon::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPerCandidate = 9;  // mutants of one fixture under one schedule
constexpr double kLimit = 40;             // seconds of one mutant; a right one takes about two
constexpr std::size_t kAtOnce = 4;
constexpr int kAccepted = 0, kRefused = 10, kNotRun = 11, kBadSetup = 12;

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Numbers of extents at which every family has a legal schedule, and ragged ones.
struct Shape {
  std::int64_t m, k, n;
};
ir::Workload workload_of(const Shape& s) {
  return ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                           {{"m", s.m}, {"k", s.k}, {"n", s.n}}, ir::DType::kBF16);
}

// Survivors whose reason is known: they change no result that is promised.
struct Known {
  const char* kind;
  const char* part;    // of the edit
  const char* where;   // the candidate's shape; empty: any
  const char* family;  // that the candidate's schedule must name; empty: any
  const char* why;
};
constexpr Known kKnown[] = {
    {"barrier", "prefetch", "", "", "a hint to the memory system"},
    {"barrier", "griddep", "", "", "without dependent launch there is nothing to wait for"},
    {"barrier", "dependents", "", "", "without dependent launch there is nobody to tell"},
    {"barrier", "cp_async_commit()", "17x101x37 ", "contraction(",
     "no row starts on 16 bytes: nothing is copied so"},
    {"barrier", "cp_async_wait<0>()", "17x101x37 ", "contraction(",
     "no row starts on 16 bytes: nothing is copied so"},
    {"mask", "k <= end; k += kLanes * V", "", "",
     "of the run at the end nothing exists: it adds nothing"},
    {"bound", "k <= end; k += kLanes * V", "", "",
     "of the run at the end nothing exists: it adds nothing"},
    {"function", "max(0, max(V, c_end - c))", "16x192x320 ", "",
     "all chunks are whole, and more than whole counts as whole"},
    {"mask", "c0 + kColumns <= c_end) {  ->  if (true)", "16x192x320 ", "", "all tiles are whole"},
    {"index", "p.y_stride / 2 == 0", "", "", "single stores in place of pairs: slower, the same"},
    {"index", "Op::kRowStride * sizeof(T) / 16 == 0", "", "",
     "plain loads in place of asynchronous copies: slower, the same"},
    {"function", "max(C::kEarlyStages, steps)", "16x192x320 ", "",
     "all three steps, which the sixteen stages hold, are requested early"},
    {"function", "max(Pass::kExtent, begin + kShare)", "16x192x320 ", "",
     "one share of three whole steps: both are the extent"},
};

// What a child is given: a folder with the shape, the plan and the cubins.
void write_folder(const fs::path& folder, const Shape& s, const measure::Candidate& candidate) {
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
  std::string candidate, kind, edit;
  Outcome outcome;
};

std::mutex table_mutex;
void write_row(const Row& r) {
  std::lock_guard lock(table_mutex);
  const std::string line = fmt::format("{}\t{}\t{}\t{}\t{}\n", r.outcome.means, r.kind, r.edit,
                                       r.outcome.detail.substr(0, 120), r.candidate);
  std::fputs(line.c_str(), stdout);
  if (const char* path = std::getenv("TENON_MUTATION_TABLE"))
    std::ofstream(path, std::ios::app) << line;
}

template <class F>
void in_parallel(std::size_t count, const F& f) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kAtOnce; ++t)
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < count; i = next++) f(i);
    });
  for (std::thread& t : threads) t.join();
}

struct CompiledMutant {
  SourceMutant mutant;
  std::string cubin;
};

// The kernels of a module that the plan launches.
std::vector<std::string> launched(const ir::LaunchPlan& plan, std::size_t module) {
  std::vector<std::string> entries;
  for (const auto* launches : {&plan.prepare, &plan.main})
    for (const ir::Launch& launch : *launches)
      if (launch.kind == ir::LaunchKind::kCubin && launch.module == static_cast<int>(module))
        entries.push_back(launch.entry);
  return entries;
}

// Mutants that compile to other instructions of the kernels `entries` than the original does;
// what does not is no mutant.
std::vector<CompiledMutant> compiled_mutants(const codegen::Source& source,
                                             const std::string& original,
                                             const std::vector<std::string>& entries,
                                             const ir::Target& target, std::size_t wanted) {
  const std::vector<SourceMutant> tried = spread(source_mutants(flatten(source.text)), 5 * wanted);
  std::vector<std::string> cubins(tried.size());
  const std::string original_text = cubin_text(original, entries);
  std::atomic<std::size_t> good = 0;
  in_parallel(tried.size(), [&](std::size_t i) {
    if (good >= wanted) return;
    const codegen::Compiled c = codegen::compile({tried[i].text, source.entries}, target);
    if (!c.ok || cubin_text(c.cubin, entries) == original_text) return;
    cubins[i] = c.cubin;
    ++good;
  });
  std::vector<CompiledMutant> out;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < tried.size(); ++i)
    if (!cubins[i].empty() && seen.insert(cubin_text(cubins[i], entries)).second)
      out.push_back({tried[i], cubins[i]});
  return out;
}

class mutation_on_gpu : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tenon-mutants-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // All mutants of one candidate; how many there were.
  std::size_t run(const std::string& name, const Shape& shape, const ir::MuGraph& graph,
                  const ir::Schedule& schedule, const ir::Target& target) {
    const ir::Workload workload = workload_of(shape);
    codegen::Generated generated = codegen::generate(graph, schedule, workload, target);
    measure::Candidate right{generated.plan, {}};
    std::size_t largest = 0;
    for (std::size_t i = 0; i < generated.sources.size(); ++i) {
      // The flattened source is the base, so that only the edit makes a difference.
      codegen::Source flat{flatten(generated.sources[i].text), generated.sources[i].entries};
      codegen::Compiled c = codegen::compile(flat, target);
      EXPECT_TRUE(c.ok) << c.log;
      right.plan.modules[i].cubin_sha256 = c.sha256;
      right.cubins.push_back(c.cubin);
      if (generated.sources[i].text.size() > generated.sources[largest].text.size()) largest = i;
    }
    const fs::path base = folder_ / fmt::format("{}-base", count_++);
    write_folder(base, shape, right);
    const ChildResult child = start(base);
    if (outcome_of(child, base).means != "survived") {
      ADD_FAILURE() << name << ": the original is not accepted: " << read_text(base / "reason")
                    << read_text(base / "log");
      return 0;
    }
    const std::vector<CompiledMutant> mutants =
        compiled_mutants(generated.sources[largest], right.cubins[largest],
                         launched(generated.plan, largest), target, kPerCandidate);
    std::vector<Row> rows(mutants.size());
    in_parallel(mutants.size(), [&](std::size_t i) {
      measure::Candidate wrong = right;
      wrong.cubins[largest] = mutants[i].cubin;
      wrong.plan.modules[largest].cubin_sha256 = ir::sha256_hex(mutants[i].cubin);
      const fs::path folder = base.string() + fmt::format("-{}", i);
      write_folder(folder, shape, wrong);
      Outcome outcome = outcome_of(start(folder), folder);
      if (outcome.means == "survived") outcome = sanitize(folder);
      rows[i] = {name, mutants[i].mutant.kind, mutants[i].mutant.edit, outcome};
    });
    for (Row& row : rows) judge(row);
    return rows.size();
  }

  static ChildResult start(const fs::path& folder) {
    return run_child({}, "MutantChild.Run", "TENON_MUTANT=" + folder.string(),
                     (folder / "log").string(), kLimit);
  }

  void judge(Row& row) {
    if (row.outcome.means == "survived") {
      for (const Known& known : kKnown)
        if (row.kind == known.kind && row.edit.find(known.part) != std::string::npos &&
            row.candidate.find(known.where) != std::string::npos &&
            row.candidate.find(known.family) != std::string::npos)
          row.outcome = {"survived, explained", known.why};
      if (row.outcome.means == "survived")
        ADD_FAILURE() << "survived: " << row.candidate << ": " << row.edit;
    }
    ++means_[row.outcome.means];
    write_row(row);
  }

  fs::path folder_;
  std::size_t count_ = 0;
  std::map<std::string, int> means_;
};

TEST_P(mutation_on_gpu, WrongSourcesAreKilled) {
  TENON_REQUIRE_GPU(device);
  const ir::Target target = device->info().target;
  const ir::MuGraph graph = embedded_fixture(GetParam());
  std::size_t total = 0;
  std::set<std::string> families;  // one schedule of each combination of families
  for (const Shape& shape : {Shape{16, 192, 320}, Shape{17, 101, 37}})
    for (const ir::Schedule& schedule : sample_schedules(graph, workload_of(shape), target)) {
      std::string combination;
      for (const ir::KernelSchedule& k : schedule.kernels) combination += k.family + " ";
      if (!families.insert(combination + (shape.m == 16 ? "" : "ragged")).second) continue;
      try {
        total += run(fmt::format("{} {}x{}x{} {}", GetParam(), shape.m, shape.k, shape.n,
                                 ir::print(schedule)),
                     shape, graph, schedule, target);
      } catch (const codegen::Rejected&) {
        continue;
      }
    }
  EXPECT_GE(total, 17U) << "six fixtures make at least a hundred";
  std::string summary;
  for (const auto& [means, count] : means_) summary += fmt::format("{} {}; ", means, count);
  std::printf("%s: %zu mutants: %s\n", GetParam().c_str(), total, summary.c_str());
}

INSTANTIATE_TEST_SUITE_P(, mutation_on_gpu, testing::ValuesIn(embedded_fixtures()),
                         [](const auto& test) { return test.param; });

// The child: accepts or refuses the candidate of $TENON_MUTANT, writes why, and leaves at once.
TEST(MutantChild, Run) {
  const char* given = std::getenv("TENON_MUTANT");
  if (given == nullptr) GTEST_SKIP() << "started by mutation tests only";
  const fs::path folder = given;
  const std::string order = read_text(folder / "order");
  if (order == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
  if (order == "crash") std::abort();
  if (order == "exit") std::_Exit(kRefused);
  int code = kBadSetup;
  std::string reason;
  try {
    Shape s{};
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

// Without its includes a source of every family is still the same program.
TEST(mutation_sources, FlattenedSourcesCompile) {
  std::string why;
  if (!codegen::nvrtc_available(&why)) GTEST_SKIP() << why;
  const ir::Target target = ir::target_from_name("sm_90a");
  const ir::MuGraph graph = embedded_fixture("rmsnorm_one_pass");
  const ir::Workload workload = workload_of({16, 192, 320});
  std::set<std::string> families;
  for (const ir::Schedule& schedule : sample_schedules(graph, workload, target)) {
    if (!families.insert(schedule.kernels[0].family).second) continue;
    try {
      const codegen::Generated generated = codegen::generate(graph, schedule, workload, target);
      for (const codegen::Source& source : generated.sources) {
        const codegen::Compiled c =
            codegen::compile({flatten(source.text), source.entries}, target);
        EXPECT_TRUE(c.ok) << ir::print(schedule) << "\n" << c.log;
        EXPECT_EQ(flatten(source.text).find("#include \"device"), std::string::npos);
      }
    } catch (const codegen::Rejected&) {
      continue;
    }
  }
  EXPECT_GE(families.size(), 2U);
}

// Enough of them compile, to code that differs.
TEST(mutation_sources, CompileToOtherCode) {
  std::string why;
  if (!codegen::nvrtc_available(&why)) GTEST_SKIP() << why;
  const ir::Target target = ir::target_from_name("sm_80");
  const ir::MuGraph graph = embedded_fixture("rmsnorm_one_pass");
  const ir::Workload workload = workload_of({17, 101, 37});
  ir::Schedule schedule;
  schedule.kernels.push_back(ir::default_schedule(ir::view(graph, 0), workload, target));
  const codegen::Generated generated = codegen::generate(graph, schedule, workload, target);
  const codegen::Source& source = generated.sources.back();
  const codegen::Compiled base = codegen::compile({flatten(source.text), source.entries}, target);
  ASSERT_TRUE(base.ok) << base.log;
  const std::vector<SourceMutant> all = source_mutants(flatten(source.text));
  std::set<std::string> kinds;
  for (const SourceMutant& m : all) kinds.insert(m.kind);
  EXPECT_GE(all.size(), 100U);
  for (const char* kind : {"barrier", "mask", "accumulator", "stride", "extent", "bound"})
    EXPECT_TRUE(kinds.count(kind)) << kind;
  const auto mutants = compiled_mutants(
      source, base.cubin, launched(generated.plan, generated.sources.size() - 1), target, 6);
  EXPECT_GE(mutants.size(), 6U);
}

}  // namespace
}  // namespace tenon::test
