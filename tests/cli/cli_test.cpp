// The command as a user meets it: exit codes, one-sentence errors, and the whole way from a
// shape to a launched kernel on the host device.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

struct Outcome {
  int code = -1;
  std::string out, err;
};

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Cli : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tenon-cli-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    database_ = folder_ / "tuning.db";
  }
  void TearDown() override { fs::remove_all(folder_); }

  Outcome shell(const std::string& command) const {
    const fs::path out = folder_ / "out", err = folder_ / "err";
    const int status = std::system((command + " >" + out.string() + " 2>" + err.string()).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(out), slurp(err)};
  }
  Outcome tenon(const std::string& arguments) const {
    return shell(std::string(TENON_COMMAND) + " " + arguments);
  }
  std::string db() const { return " --db " + database_.string(); }

  // Bad input: exit code 2, one sentence that names what is wrong, nothing created.
  void expect_bad_input(const std::string& arguments, const std::string& named) const {
    Outcome o = tenon(arguments);
    EXPECT_EQ(o.code, 2) << arguments << "\n" << o.err;
    EXPECT_NE(o.err.find(named), std::string::npos) << arguments << "\n" << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_EQ(o.out, "");
    EXPECT_FALSE(fs::exists(database_)) << "the database was touched by: " << arguments;
  }

  fs::path folder_, database_;
};

const std::string kSmall = "rmsnorm_linear --m 3 --k 100 --n 7 --dtype fp32 --device host";
// Machines that run tests are rarely quiet.
const std::string kOptimize = "optimize --force ";

TEST_F(Cli, BadInputIsOneSentenceAndExitCodeTwo) {
  expect_bad_input("optimize no_such_program --m 1 --k 1 --n 1 --device host" + db(),
                   "no_such_program");
  expect_bad_input("optimize rmsnorm_linear --m 0 --k 8 --n 8 --device host" + db(), "--m is '0'");
  expect_bad_input("optimize rmsnorm_linear --m 4 --k -5 --n 8 --device host" + db(), "--k");
  expect_bad_input(
      "optimize rmsnorm_linear --m 4 --k 8 --n 99999999999999999999 --device host" + db(), "--n");
  expect_bad_input("optimize rmsnorm_linear --m 4 --k 8 --n eight --device host" + db(), "eight");
  expect_bad_input("optimize rmsnorm_linear --m 4 --k 8 --device host" + db(), "n");
  expect_bad_input("optimize rmsnorm_linear --m 4 --k 8 --n 8 --dim q=3 --device host" + db(), "q");
  expect_bad_input("optimize rmsnorm_linear --m 4 --k 8 --n 8 --dtype int7 --device host" + db(),
                   "int7");
  expect_bad_input("optimize rmsnorm_linear --m 4 --k 8 --n 8 --device tpu" + db(), "tpu");
  expect_bad_input("optimize rmsnorm_linear --m 4 --k 8 --n 8 --device compile:sm_1" + db(),
                   "sm_1");
  expect_bad_input("optimize rmsnorm_linear --m 4 --k 8 --n 8 --device host --budget soon" + db(),
                   "soon");
  expect_bad_input(
      "optimize rmsnorm_linear --m 4 --k 8 --n 8 --device host --attribute eps=nan" + db(), "nan");
  // A double makes 0 of it.
  expect_bad_input(
      "optimize rmsnorm_linear --m 4 --k 8 --n 8 --device host --attribute eps=1e-400" + db(),
      "eps is '1e-400'");
  expect_bad_input(
      "optimize rmsnorm_linear --m 4 --k 8 --n 8 --device host --row-stride w=640" + db(),
      "tensor of a row stride is 'w'; accepted: x, y");
  expect_bad_input("optimize rmsnorm_linear --m 4 --k 8 --n 8 --device host --launch never" + db(),
                   "never");
  expect_bad_input("optimize rmsnorm_linear --m 4 --k 8 --n 8 --frobnicate" + db(), "frobnicate");
  expect_bad_input("frobnicate", "frobnicate");
  expect_bad_input("db frobnicate", "command is 'frobnicate'; accepted: ls");
  expect_bad_input("db", "tenon db --help");
  expect_bad_input("optimize rmsnorm_linear --m 4 --k 8 --n 8 --dim m=5 --device host" + db(),
                   "m=5");
  expect_bad_input("optimize rmsnorm_linear --m 4 --k 8 --n 8 --device host --top -3" + db(), "-3");
  expect_bad_input("", "subcommand");
  // An empty value is no value, and never takes the next argument for it.
  const std::string good = "optimize rmsnorm_linear --m 4 --k 8 --n 8 --device host";
  expect_bad_input(good + " --budget= 3s" + db(), "--budget is empty");
  expect_bad_input(good + " --seed=" + db(), "--seed is empty");
  expect_bad_input(good + " --json=" + db(), "--json is empty");
  expect_bad_input(good + " --top=" + db(), "--top is empty");
  expect_bad_input("optimize rmsnorm_linear --m= --k 8 --n 8 --device host" + db(), "--m is empty");
  expect_bad_input(good + db() + " --budget ''", "--budget is empty");
  expect_bad_input("db ls --sort=" + db(), "--sort is empty");
  expect_bad_input("db ls --db ''", "--db is empty");
  expect_bad_input("db report --html=" + db(), "--html is empty");
  expect_bad_input("optimize '' --m 4 --k 8 --n 8 --device host" + db(), "program is empty");
}

TEST_F(Cli, MissingCudaDeviceIsExitCodeThree) {
  Outcome o = tenon("optimize rmsnorm_linear --m 4 --k 8 --n 8 --device cuda:99" + db());
  EXPECT_EQ(o.code, 3) << o.err;
  EXPECT_NE(o.err.find("cuda:99"), std::string::npos) << o.err;
  EXPECT_FALSE(fs::exists(database_));
}

TEST_F(Cli, MalformedTextIsNamedWithItsPlace) {
  const fs::path file = folder_ / "bad.mugraph";
  std::ofstream(file)
      << "mugraph rmsnorm_linear\ndims m, k, n\nattribute eps = 1e-6\nnonsense here\n";
  expect_bad_input("verify rmsnorm_linear " + file.string(), "line 4");
  expect_bad_input("verify rmsnorm_linear " + (folder_ / "missing.mugraph").string(),
                   "missing.mugraph");
  expect_bad_input("verify rmsnorm_linear " TENON_FIXTURES
                   "/rmsnorm_one_pass.mugraph --save-query /proc/no/such/folder/query",
                   "/proc/no/such/folder/query");
  // A µGraph of another program.
  expect_bad_input("verify layernorm_linear " TENON_FIXTURES "/rmsnorm_one_pass.mugraph",
                   "rmsnorm_one_pass.mugraph");
  // Of the same signature, but for another program: the name decides.
  const std::string sound = slurp(TENON_FIXTURES "/rmsnorm_one_pass.mugraph");
  std::string renamed = sound;
  renamed.replace(renamed.find("rmsnorm_linear"), std::string("rmsnorm_linear").size(), "another");
  std::ofstream(file, std::ios::trunc) << renamed;
  expect_bad_input("verify rmsnorm_linear " + file.string(),
                   "is a µGraph of another, not of rmsnorm_linear");
  // A byte 0 would end the text early; a byte order mark is none of it.
  std::ofstream(file, std::ios::trunc) << sound << '\0' << "more";
  expect_bad_input("verify rmsnorm_linear " + file.string(),
                   "it is no text: byte " + std::to_string(sound.size()) + " is 0");
  std::ofstream(file, std::ios::trunc) << "\xef\xbb\xbf" << sound;
  EXPECT_EQ(tenon("verify rmsnorm_linear " + file.string()).code, 0);
  const fs::path program = folder_ / "bad.program";
  std::ofstream(program)
      << "program p\ndims m\ninput x: T[m] activation\n%0 = frob(x)\noutput y: T = %0\n";
  expect_bad_input("optimize " + program.string() + " --m 4 --device host" + db(), "frob");
}

// Every kind of malformed program, through each command that reads one: the sentence begins with
// the file, the line and the column.
TEST_F(Cli, MalformedProgramsAreNamedWithTheirPlaceByEveryCommand) {
  const std::string head = "program p\ndims m, k\ninput x: T[m, k] activation\n";
  const std::pair<const char*, std::string> cases[] = {
      {"line 4, column 10: '%1' is used before line 5", head + "%0 = add(%1, x)\n%1 = square(%0)\n"
                                                               "output y: T = %1\n"},
      {"line 4, column 6: 'frob' is not an operator", head + "%0 = frob(x)\noutput y: T = %0\n"},
      {"line 5, column 6", head + "%0 = sum(x, k)\n%1 = sum(%0, k)\noutput y: T = %1\n"},
      {"line 5, column 1: value %1 (sqrt) is not used",
       head + "%0 = square(x)\n%1 = sqrt(x)\noutput y: T = %0\n"},
      {"line 6, column 8: 'y' is declared twice",
       head + "%0 = square(x)\noutput y: T = %0\noutput y: T = %0\n"},
      {"line 4, column 14: an exponent is '1099511627776'",
       head + "%0 = const(k^1099511627776)\n%1 = mul(x, %0)\noutput y: T = %1\n"},
  };
  const fs::path file = folder_ / "bad.program";
  for (const auto& [place, text] : cases) {
    std::ofstream(file) << text;
    const std::string named = file.string() + ": " + place;
    expect_bad_input("optimize " + file.string() + " --m 4 --k 8 --device host" + db(), named);
    expect_bad_input("verify " + file.string() + " " TENON_FIXTURES "/rmsnorm_one_pass.mugraph",
                     named);
  }
  // Programs that have a meaning, but no kernel: also where two outputs are spelled differently.
  const std::pair<const char*, std::string> outputs[] = {
      {"line 6, column 8: output is 'z', the same value as 'y'",
       head + "%0 = square(x)\noutput y: T = %0\noutput z: T = %0\n"},
      {"line 7, column 8: output is 'z', the same value as 'y'",
       head + "%0 = square(x)\n%1 = mul(x, x)\noutput y: T = %0\noutput z: T = %1\n"},
      {"line 6, column 8: output is 'z'",
       head + "%0 = square(x)\noutput y: T = %0\noutput z: T = x\n"},
  };
  for (const auto& [place, text] : outputs) {
    std::ofstream(file) << text;
    expect_bad_input("optimize " + file.string() + " --m 4 --k 8 --device host" + db(),
                     file.string() + ": " + place);
  }
}

// 2 TB of x: no search for what no device can hold.
TEST_F(Cli, WhatTheDeviceCannotHoldIsRefusedBeforeTheSearch) {
  for (const char* device : {"host", "compile:sm_80", "compile:sm_90a"})
    expect_bad_input(
        std::string("optimize rmsnorm_linear --m 1000000 --k 1000000 --n 8 --device ") + device +
            db(),
        "these have 2000.0 GB");
  expect_bad_input("optimize rmsnorm_linear --m 1099511627776 --k 8 --n 8 --device host" + db(),
                   "--m is '1099511627776'");
}

TEST_F(Cli, CorruptAndUnwritableDatabasesAreRefusedUnchanged) {
  std::ofstream(database_) << "this is not a database, it is a diary of more than one page of text";
  const std::string before = slurp(database_);
  for (const char* command : {"optimize rmsnorm_linear --m 4 --k 8 --n 8 --device host", "db ls",
                              "explain 1", "run rmsnorm_linear --m 4 --k 8 --n 8 --device host"}) {
    Outcome o = tenon(command + db());
    EXPECT_EQ(o.code, 2) << command << o.err;
    EXPECT_NE(o.err.find(database_.string()), std::string::npos) << o.err;
    EXPECT_EQ(slurp(database_), before);
  }
  Outcome o = tenon(std::string("optimize ") + kSmall + " --db /proc/no/such/folder/tuning.db");
  EXPECT_EQ(o.code, 2) << o.err;
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
}

TEST_F(Cli, InformationCommandsWorkWithoutADevice) {
  EXPECT_EQ(tenon("version").code, 0);
  EXPECT_EQ(tenon("--help").code, 0);
  EXPECT_EQ(tenon("optimize --help").code, 0);
  Outcome devices = tenon("devices --json");
  EXPECT_EQ(devices.code, 0);
  bool host = false;
  const json found = json::parse(devices.out);
  for (const json& d : found["devices"]) host = host || d["id"] == "host";
  EXPECT_TRUE(host);
  const json programs = json::parse(tenon("programs --json").out)["programs"];
  EXPECT_EQ(programs[0]["name"], "rmsnorm_linear");
  EXPECT_EQ(programs.size(), 13U);
  const json one = json::parse(tenon("programs rmsnorm_linear --json").out);
  EXPECT_EQ(one["text"].get<std::string>(), tenon("programs rmsnorm_linear").out);
  const std::string listed = tenon("programs").out;
  for (const json& entry : programs)
    EXPECT_NE(listed.find(entry["name"].get<std::string>() + " "), std::string::npos);
  const Outcome missing = tenon("optimize linear_headnorm --m 2 --k 8 --dim h=2 --device host");
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("dim d has no extent; linear_headnorm needs m, k, h, d"),
            std::string::npos)
      << missing.err;
  const fs::path file = folder_ / "copy.program";
  std::ofstream(file) << tenon("programs rmsnorm_linear").out;
  EXPECT_EQ(tenon("programs " + file.string()).out, slurp(file));
}

TEST_F(Cli, OptimizeStoresAWinnerThatRunsAndAnswersAtOnce) {
  Outcome first = tenon(kOptimize + kSmall + " --budget 30s --json" + db());
  ASSERT_EQ(first.code, 0) << first.err;
  json report = json::parse(first.out);
  EXPECT_EQ(report["workload"]["program"], "rmsnorm_linear");
  EXPECT_EQ(report["workload"]["m"], 3);
  EXPECT_EQ(report["workload"]["k"], 100);
  EXPECT_EQ(report["workload"]["n"], 7);
  EXPECT_EQ(report["workload"]["dtype"], "fp32");
  EXPECT_EQ(report["device"], "host");
  EXPECT_EQ(report["database"], database_.string());
  const json& best = report["best"];
  EXPECT_EQ(best["evidence"]["random"]["verdict"], "pass");
  EXPECT_EQ(best["evidence"]["z3"]["verdict"], "proved");
  EXPECT_EQ(best["evidence"]["numeric"]["verdict"], "pass");
  EXPECT_EQ(best["kind"], "measured");
  EXPECT_GT(best["time_us"].get<double>(), 0);
  EXPECT_GT(best["reference_time_us"].get<double>(), 0);
  for (const char* counter :
       {"enumerated", "pruned", "distinct", "verified", "compiled", "measured", "seconds"})
    EXPECT_TRUE(report["search"].contains(counter)) << counter;
  EXPECT_GE(report["search"]["distinct"].get<int>(), 4);

  Outcome second = tenon(kOptimize + kSmall + " --json" + db());
  ASSERT_EQ(second.code, 0);
  EXPECT_TRUE(json::parse(second.out)["from_database"].get<bool>());
  EXPECT_EQ(json::parse(second.out)["best"]["id"], best["id"]);

  Outcome run = tenon("run " + kSmall + " --json" + db());
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(json::parse(run.out)["numeric"]["verdict"], "pass");
  // Two rows, of a plan for three: what is asked for is checked.
  run = tenon("run rmsnorm_linear --m 2 --k 100 --n 7 --dtype fp32 --device host --json" + db());
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(json::parse(run.out)["tuned_m"], 3);
  EXPECT_EQ(json::parse(run.out)["numeric"]["figures"]["m"], 2);

  const std::string id = std::to_string(best["id"].get<int>());
  EXPECT_EQ(tenon("db ls" + db()).code, 0);
  EXPECT_EQ(tenon("db stats" + db()).code, 0);
  EXPECT_EQ(json::parse(tenon("db show " + id + " --json" + db()).out)["usable"], true);
  EXPECT_EQ(json::parse(tenon("db best " + kSmall + " --json" + db()).out)["plan"], best["id"]);
  Outcome explain = tenon("explain " + id + db());
  EXPECT_EQ(explain.code, 0);
  EXPECT_NE(explain.out.find("kernel k0"), std::string::npos);
  const json explained = json::parse(tenon("explain " + id + " --json" + db()).out);
  EXPECT_EQ(explained["plan"], best["id"]);
  EXPECT_EQ(explained["mugraph_text"], best["mugraph_text"]);
  EXPECT_NE(explained["program_text"].get<std::string>().find("program rmsnorm_linear"),
            std::string::npos);
  ASSERT_FALSE(explained["rivals"].empty());
  for (const json& rival : explained["rivals"])
    EXPECT_NEAR(rival["gap_us"].get<double>(),
                rival["time_us"].get<double>() - explained["time_us"].get<double>(), 1e-6);

  Outcome none = tenon("run rmsnorm_linear --m 3 --k 101 --n 7 --dtype fp32 --device host" + db());
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(std::count(none.err.begin(), none.err.end(), '\n'), 1) << none.err;
  EXPECT_EQ(tenon("explain 999999" + db()).code, 1);
}

TEST_F(Cli, CompileDeviceStoresEstimatesThatRunRefusesToCallMeasured) {
  const std::string shape = "rmsnorm_linear --m 16 --k 576 --n 960 --device compile:sm_80";
  Outcome o = tenon("optimize " + shape + " --budget 15s --json" + db());
  if (o.code == 3) GTEST_SKIP() << "NVRTC is not here: " << o.err;
  ASSERT_EQ(o.code, 0) << o.err;
  json report = json::parse(o.out);
  EXPECT_EQ(report["best"]["kind"], "estimated");
  EXPECT_EQ(report["search"]["lowerable"], report["search"]["verified"]);
  EXPECT_FALSE(report["search"]["failed"].contains("compile_error"));
  EXPECT_TRUE(report["search"].contains("rank_correlation"));
  // Every distinct µGraph compiled, though the budget does not last for every schedule.
  std::set<std::string> compiled;
  for (const json& c : report["candidates"])
    if (c["status"] == "estimated") compiled.insert(c["mugraph"].get<std::string>());
  EXPECT_EQ(compiled.size(), report["search"]["distinct"].get<std::size_t>());
  EXPECT_EQ(report["stop_reason"], "budget");
  EXPECT_EQ(report["best"]["evidence"]["numeric"]["verdict"], "unknown");
  Outcome run = tenon("run " + shape + db());
  EXPECT_EQ(run.code, 1);
  EXPECT_NE(run.err.find("not measured"), std::string::npos) << run.err;
}

TEST_F(Cli, ExampleRunsTheStoredKernelWithinTheContract) {
  ASSERT_EQ(
      tenon(kOptimize + "rmsnorm_linear --m 16 --k 576 --n 960 --device host --budget 20s" + db())
          .code,
      0);
  Outcome o = shell(std::string(TENON_EXAMPLE) + " " + database_.string() + " host");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("within the contract"), std::string::npos) << o.out;
}

TEST_F(Cli, VerifyAcceptsTheFixturesAndRefutesASabotagedOne) {
  for (const auto& entry : fs::directory_iterator(TENON_FIXTURES))
    if (entry.path().filename().string().rfind("rmsnorm_", 0) == 0) {
      Outcome o = tenon("verify rmsnorm_linear " + entry.path().string());
      EXPECT_EQ(o.code, 0) << entry.path() << o.out << o.err;
    }
  std::string text = slurp(fs::path(TENON_FIXTURES) / "rmsnorm_one_pass.mugraph");
  std::size_t at = text.find("rsqrt");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 5, "sqrt");
  const fs::path wrong = folder_ / "wrong.mugraph";
  std::ofstream(wrong) << text;
  Outcome o = tenon("verify rmsnorm_linear " + wrong.string() + " --json");
  EXPECT_EQ(o.code, 1);
  json evidence = json::parse(o.out)["evidence"];
  EXPECT_EQ(evidence["random"]["verdict"], "refuted");
  EXPECT_TRUE(evidence["random"].contains("counterexample"));
  EXPECT_EQ(evidence["z3"]["verdict"], "refuted");
  // The inputs are shown to a reader too: x has five rows of three at the dims of the test.
  o = tenon("verify rmsnorm_linear " + wrong.string());
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.out.find("y[0, 0]: the program has"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("x [5,3]\n"), std::string::npos) << o.out;
}

TEST_F(Cli, TheDatabaseIsListedMovedJoinedPackedAndChecked) {
  ASSERT_EQ(
      tenon(kOptimize + kSmall + " --budget 60s --schedules 1 --strategy estimate" + db()).code, 0);
  const std::string copy = " --db " + (folder_ / "copy.db").string();
  json lines = json::parse(tenon("db ls --json" + db()).out)["plans"];
  ASSERT_EQ(lines.size(), 1u);  // one workload, one launch mode
  EXPECT_TRUE(lines[0]["best"].get<bool>());
  const std::size_t all = json::parse(tenon("db ls --all --json" + db()).out)["plans"].size();
  EXPECT_GT(all, 1u);
  EXPECT_EQ(
      json::parse(tenon("db ls --all --limit 1 --sort time --json" + db()).out)["plans"].size(),
      1u);
  EXPECT_EQ(
      json::parse(tenon("db ls --json --range m=1:3 --range k=100" + db()).out)["plans"].size(),
      1u);
  EXPECT_EQ(json::parse(tenon("db ls --json --range m=4:" + db()).out)["plans"].size(), 0u);
  EXPECT_EQ(json::parse(tenon("db ls --json --program other" + db()).out)["plans"].size(), 0u);
  EXPECT_EQ(json::parse(tenon("db ls --json --older-than 1d" + db()).out)["plans"].size(), 0u);
  EXPECT_EQ(json::parse(tenon("db ls --json --newer-than 1d --on host" + db()).out)["plans"].size(),
            1u);
  std::string csv = tenon("db ls --all --csv" + db()).out;
  EXPECT_EQ(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')), all + 1);
  for (const char* bad :
       {"db ls --status good", "db ls --dtype int8", "db ls --json --csv", "db stats --range m",
        "db ls --sort up", "db ls --range m", "db ls --range m=3:1", "db ls --limit 0", "db prune",
        "db prune --keep -3", "db ls --older-than soon"}) {
    Outcome o = tenon(bad + db());
    EXPECT_EQ(o.code, 2) << bad;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << bad << o.err;
  }

  const std::string plan = lines[0]["plan"].dump();
  json shown = json::parse(tenon("db show " + plan + " --json" + db()).out);
  EXPECT_TRUE(shown.contains("second"));
  EXPECT_FALSE(shown["evidence"].empty());
  EXPECT_EQ(shown["dims"], json({{"m", 3}, {"k", 100}, {"n", 7}}));
  EXPECT_EQ(shown["attributes"], json({{"eps", 1e-6}}));
  for (const json& evidence : shown["evidence"]) EXPECT_TRUE(evidence["figures"].is_object());
  EXPECT_EQ(lines[0]["dims"], shown["dims"]);
  // What is at fault is named: the range, not one of its bounds; days, where days are taken.
  EXPECT_NE(tenon("db ls --range m=20:5" + db()).err.find("--range is 'm=20:5'"),
            std::string::npos);
  for (const char* days : {"3x", "xd", "40000d", "4000h"}) {
    Outcome o = tenon(std::string("db ls --newer-than ") + days + db());
    EXPECT_EQ(o.code, 2) << days;
    EXPECT_NE(o.err.find("--newer-than is '" + std::string(days) + "'; accepted: whole days"),
              std::string::npos)
        << o.err;
  }

  const std::string file = (folder_ / "a.export").string(), again = (folder_ / "b.export").string();
  ASSERT_EQ(tenon("db export " + file + db()).code, 0);
  ASSERT_EQ(tenon("db import " + file + copy).code, 0);
  ASSERT_EQ(tenon("db merge " + database_.string() + copy).code, 0);
  ASSERT_EQ(tenon("db export " + again + copy).code, 0);
  EXPECT_EQ(slurp(file), slurp(again));
  std::ofstream(folder_ / "bad.export") << slurp(file) << "x";
  Outcome bad = tenon("db import " + (folder_ / "bad.export").string() + copy);
  EXPECT_EQ(bad.code, 2);
  EXPECT_EQ(std::count(bad.err.begin(), bad.err.end(), '\n'), 1) << bad.err;

  EXPECT_EQ(json::parse(tenon("db check --json" + copy).out)["problems"].size(), 0u);
  EXPECT_EQ(tenon("db check --reverify --device host" + copy).code, 0);
  EXPECT_EQ(tenon("db prune --keep 1" + copy).code, 0);
  EXPECT_EQ(json::parse(tenon("db ls --all --json" + copy).out)["plans"].size(), all);
  EXPECT_EQ(tenon("db prune --keep 1 --apply" + copy).code, 0);
  EXPECT_LT(json::parse(tenon("db ls --all --json" + copy).out)["plans"].size(), all);

  const std::string pack = (folder_ / "pack.db").string();
  ASSERT_EQ(tenon("db pack " + pack + db()).code, 0);
  EXPECT_EQ(tenon("run " + kSmall + " --db " + pack).code, 0);
  EXPECT_EQ(tenon(kOptimize + kSmall + " --db " + pack).code, 2);  // read-only
  EXPECT_EQ(tenon("db report --html " + (folder_ / "r.html").string() + db()).code, 0);
  EXPECT_EQ(tenon("db stats --csv" + db()).code, 0);
  EXPECT_EQ(json::parse(tenon("db stats --json --range m=1:3" + db()).out)["winners"], 1);
  EXPECT_EQ(json::parse(tenon("db stats --json --range m=4:" + db()).out)["winners"], 0);
  // show and best print the line of ls.
  const std::string line = tenon("db ls --csv" + db()).out;
  EXPECT_EQ(tenon("db show " + plan + " --csv" + db()).out, line);
  EXPECT_EQ(tenon("db best " + kSmall + " --csv" + db()).out, line);
  // Another attribute is another workload.
  Outcome eps = tenon("db best " + kSmall + " --attribute eps=0.5" + db());
  EXPECT_EQ(eps.code, 1);
  EXPECT_EQ(eps.err, "tenon: no such workload is stored; of the nearest eps is 1e-06, not 0.5\n");
  // Another layout of the weights is another program, and named as what it is.
  Outcome other = tenon("db best " + kSmall + " --layout w=n,k" + db());
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find(
                "the program has 'input w: T[k, n] parameter', not 'input w: T[n, k] parameter'"),
            std::string::npos)
      << other.err;
}

TEST_F(Cli, AnInterruptionEndsWithinTwoSecondsAndTheNextRunGoesOn) {
  const std::string shape = "rmsnorm_linear --m 16 --k 576 --n 960 --device host --budget 60s";
  const auto start = std::chrono::steady_clock::now();
  Outcome o =
      shell("timeout -s INT 4 " + std::string(TENON_COMMAND) + " " + kOptimize + shape + db());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(seconds, 4 + 2.5) << o.out << o.err;
  EXPECT_EQ(json::parse(tenon("db check --json" + db()).out)["problems"].size(), 0u);
  Outcome next = tenon(
      "optimize --force rmsnorm_linear --m 16 --k 576 --n 960 --device host "
      "--budget 4s" +
      db());
  EXPECT_EQ(next.code, 0) << next.err;
  EXPECT_NE(next.err.find("going on with the session"), std::string::npos) << next.err;
}

TEST_F(Cli, AListOfWorkloadsHasAResultForEachAndASummary) {
  const fs::path list = folder_ / "list.csv";
  std::ofstream(list)
      << "program,m,k,n,dtype\nrmsnorm_linear,2,16,8,fp32\nrmsnorm_linear,3,16,8,fp32\n";
  const std::string command = kOptimize +
                              "--device host --strategy estimate --schedules 1 "
                              "--budget 6s --workloads " +
                              list.string() + db();
  Outcome o = tenon(command);
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_NE(o.out.find("2 of 2 have a winner"), std::string::npos) << o.out;
  json again = json::parse(tenon(command + " --json").out);
  EXPECT_EQ(again["found"], 2);
  for (const json& w : again["workloads"]) EXPECT_TRUE(w["from_database"].get<bool>());
  std::ofstream(list) << "program,m\nrmsnorm_linear,2\n";
  Outcome bad = tenon(command);
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("entry 1"), std::string::npos) << bad.err;
}

}  // namespace
