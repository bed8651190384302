// What a method cannot decide comes back as a verdict with its reason: never a crash, never a pass.
#include <gtest/gtest.h>
#include <z3++.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "ir/error.h"
#include "tests/verifier/fixtures.h"
#include "verifier/verifier.h"

namespace tenon::verifier {
namespace {

const std::string kRight = std::string(TENON_FIXTURES) + "/right";
const std::string kWrong = std::string(TENON_FIXTURES) + "/wrong";

ir::Program rmsnorm() { return ir::catalog_program("rmsnorm_linear"); }
ir::MuGraph online() { return testing::read_mugraph(kRight, "online"); }

TEST(Limits, NoTimeIsATimeout) {
  Z3Options options;
  options.timeout_ms = 0;
  const Evidence e = z3_check(rmsnorm(), online(), options);
  EXPECT_EQ(e.verdict, Verdict::kTimeout);
  EXPECT_NE(e.reason.find("0 ms"), std::string::npos) << e.reason;
}

TEST(Limits, NoMemoryIsUnknown) {
  Z3Options options;
  options.memory_mb = 0;
  const Evidence e = z3_check(rmsnorm(), online(), options);
  EXPECT_EQ(e.verdict, Verdict::kUnknown);
  EXPECT_NE(e.reason.find("0 MB"), std::string::npos) << e.reason;
}

TEST(Limits, ExceptionsAreVerdicts) {
  Z3Options options;
  options.before_query = [] { throw z3::exception("injected failure"); };
  for (const Evidence& e :
       {z3_check(rmsnorm(), online(), options), induction_check(rmsnorm(), online(), options)}) {
    EXPECT_EQ(e.verdict, Verdict::kUnknown);
    EXPECT_NE(e.reason.find("injected failure"), std::string::npos) << e.reason;
    EXPECT_TRUE(nlohmann::json::accept(e.figures));
  }
  options.before_query = [] { throw std::bad_alloc(); };
  for (const Evidence& e :
       {z3_check(rmsnorm(), online(), options), induction_check(rmsnorm(), online(), options)}) {
    EXPECT_EQ(e.verdict, Verdict::kUnknown);
    EXPECT_NE(e.reason.find("memory"), std::string::npos) << e.reason;
    EXPECT_TRUE(nlohmann::json::accept(e.figures));
  }
  options.before_query = [] { throw std::logic_error("injected mistake"); };
  for (const Evidence& e :
       {z3_check(rmsnorm(), online(), options), induction_check(rmsnorm(), online(), options)}) {
    EXPECT_EQ(e.verdict, Verdict::kUnknown);
    EXPECT_NE(e.reason.find("injected mistake"), std::string::npos) << e.reason;
    EXPECT_TRUE(nlohmann::json::accept(e.figures));
  }
}

// Time that runs out when the terms are there and Z3 is about to be asked.
TEST(Limits, TimeThatRunsOutBeforeTheQueryIsATimeout) {
  Z3Options options;
  options.timeout_ms = 2000;
  options.before_query = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2100)); };
  for (const Evidence& e :
       {z3_check(rmsnorm(), online(), options), induction_check(rmsnorm(), online(), options)}) {
    EXPECT_EQ(e.verdict, Verdict::kTimeout) << e.method << ": " << e.reason;
    EXPECT_NE(e.reason.find("2000 ms"), std::string::npos) << e.reason;
  }
}

TEST(Limits, InductionHasLimitsToo) {
  Z3Options options;
  options.timeout_ms = 0;
  EXPECT_EQ(induction_check(rmsnorm(), online(), options).verdict, Verdict::kTimeout);
  options.timeout_ms = 10000;
  options.memory_mb = 0;
  EXPECT_EQ(induction_check(rmsnorm(), online(), options).verdict, Verdict::kUnknown);
}

// Sum of 4th powers against a form that agrees with it only by a hard inequality: equality of
// √(p²) and p for a p that is never negative, which nonlinear arithmetic cannot settle quickly.
ir::Program hard_program() {
  return ir::parse_program(
      "program hard\ndims m, k\ninput x: T[m, k] activation\ninput z: T[m, k] activation\n"
      "%0 = square(x)\n%1 = square(z)\n%2 = mul(%0, %1)\n%3 = add(%0, %1)\n%4 = square(%3)\n%5 = "
      "sub(%4, %2)\n"
      "%6 = sum(%5, k)\noutput y: fp32 = %6\n");
}
ir::MuGraph hard_graph() {
  return ir::parse_mugraph(
      "mugraph hard\ndims m, k\ninput x: T[m, k] activation\ninput z: T[m, k] activation\n"
      "output y: fp32[m]\n"
      "kernel main {\n  grid m\n  load x [m: grid, k: full]\n  load z [m: grid, k: full]\n"
      "  %0 = square(x)\n  %1 = square(z)\n  %2 = mul(%0, %1)\n  %3 = add(%0, %1)\n  %4 = "
      "square(%3)\n"
      "  %5 = sub(%4, %2)\n  %6 = sum(%5, k)\n  %7 = square(%6)\n  %8 = sqrt(%7)\n  store y = "
      "%8\n}\n");
}

// Either the solver settles it or it says that it did not; it ends soon after its limit.
TEST(Limits, HardQueriesEndInTimeAndAreNotProved) {
  Z3Options options;
  options.timeout_ms = 300;
  const Evidence e = z3_check(hard_program(), hard_graph(), options);
  EXPECT_TRUE(e.verdict == Verdict::kTimeout || e.verdict == Verdict::kUnknown ||
              e.verdict == Verdict::kProved)
      << name(e.verdict) << e.reason;
  EXPECT_FALSE(e.reason.empty());
  EXPECT_LT(e.seconds, 30);
}

TEST(Limits, AnotherSignatureIsUnsupported) {
  ir::MuGraph graph = hard_graph();
  EXPECT_EQ(random_test(rmsnorm(), graph, {}).verdict, Verdict::kUnsupported);
  EXPECT_EQ(z3_check(rmsnorm(), graph, {}).verdict, Verdict::kUnsupported);
}

TEST(Limits, MalformedGraphsAreUnsupported) {
  ir::MuGraph graph = online();
  graph.kernels.clear();
  EXPECT_EQ(random_test(rmsnorm(), graph, {}).verdict, Verdict::kUnsupported);
  const Evidence e = z3_check(rmsnorm(), graph, {});
  EXPECT_EQ(e.verdict, Verdict::kUnsupported);
  EXPECT_FALSE(e.reason.empty());
}

// A tensor over so many dims that no distinct scaled extents have a small product.
TEST(Limits, OverflowOfDimsIsAVerdict) {
  for (int dims : {8, 14, 40}) {
    std::string names, axes, grid;
    for (int d = 0; d < dims; ++d) {
      names += (d ? ", d" : "d") + std::to_string(d);
      grid += (d ? ", d" : "d") + std::to_string(d) + ": full";
    }
    const ir::Program program =
        ir::parse_program("program wide\ndims " + names + "\ninput x: T[" + names +
                          "] activation\n%0 = square(x)\noutput y: T = %0\n");
    const ir::MuGraph graph = ir::parse_mugraph(
        "mugraph wide\ndims " + names + "\ninput x: T[" + names + "] activation\noutput y: T[" +
        names + "]\nkernel main {\n  load x [" + grid + "]\n  %0 = square(x)\n  store y = %0\n}\n");
    for (const Evidence& e : {random_test(program, graph, {}), z3_check(program, graph, {})}) {
      EXPECT_EQ(e.verdict, Verdict::kUnknown) << dims << " " << e.reason;
      EXPECT_FALSE(e.reason.empty());
    }
    // Extents are symbols there, which have no product.
    EXPECT_EQ(induction_check(program, graph, {}).verdict, Verdict::kProved) << dims;
  }
}

// No square root of −1 − x²: no inputs are left over a field where −1 is a non-square and the
// program has no value over the reals.
TEST(Limits, NoDefinedInputsIsUnknown) {
  const ir::Program program = ir::parse_program(
      "program p\ndims m\ninput x: T[m] activation\n%0 = const(-1)\n%1 = sqrt(%0)\n%2 = mul(x, "
      "%1)\noutput y: T = %2\n");
  const ir::MuGraph graph = ir::parse_mugraph(
      "mugraph p\ndims m\ninput x: T[m] activation\noutput y: T[m]\n"
      "kernel main {\n  grid m\n  load x [m: grid]\n  %0 = const(-1)\n  %1 = sqrt(%0)\n  %2 = "
      "mul(x, %1)\n"
      "  store y = %2\n}\n");
  const Evidence e = random_test(program, graph, {});
  EXPECT_EQ(e.verdict, Verdict::kUnknown);
  EXPECT_FALSE(e.reason.empty());
}

// x/x is 1 except where x = 0: the µGraph is undefined where the program is not.
TEST(Limits, DivisionThatTheProgramDoesNotMakeIsRefuted) {
  const ir::Program program = ir::parse_program(
      "program p\ndims m\ninput x: T[m] activation\n%0 = const(2)\n%1 = add(x, %0)\noutput y: T = "
      "%1\n");
  const ir::MuGraph graph = ir::parse_mugraph(
      "mugraph p\ndims m\ninput x: T[m] activation\noutput y: T[m]\n"
      "kernel main {\n  grid m\n  load x [m: grid]\n  %0 = div(x, x)\n  %1 = add(x, %0)\n  %2 = "
      "add(%1, %0)\n"
      "  store y = %2\n}\n");
  const Evidence e = z3_check(program, graph, {});
  EXPECT_EQ(e.verdict, Verdict::kRefuted) << e.reason;
}

// Equal only where sign(x) is +: the field's root follows the real one by squares, float64 decides.
TEST(Limits, AbsoluteValueIsNotTheIdentity) {
  const ir::Program program = ir::parse_program(
      "program p\ndims m\ninput x: T[m] activation\n%0 = square(x)\n%1 = sqrt(%0)\noutput y: T = "
      "%1\n");
  const ir::MuGraph graph = ir::parse_mugraph(
      "mugraph p\ndims m\ninput x: T[m] activation\noutput y: T[m]\n"
      "kernel main {\n  grid m\n  load x [m: grid]\n  %0 = const(1)\n  %1 = mul(x, %0)\n  store y "
      "= %1\n}\n");
  EXPECT_EQ(random_test(program, graph, {}).verdict, Verdict::kRefuted);
  EXPECT_EQ(z3_check(program, graph, {}).verdict, Verdict::kRefuted);
}

// 1/2 is 1/k where k = 2, and only there: the test is made at the dims that it is told.
TEST(Limits, DimsOfTheRandomTestCanBeNamed) {
  const ir::Program program = ir::parse_program(
      "program p\ndims m, k\ninput x: T[m, k] activation\n%0 = const(1/k)\n%1 = mul(x, %0)\n"
      "output y: T = %1\n");
  const ir::MuGraph graph = ir::parse_mugraph(
      "mugraph p\ndims m, k\ninput x: T[m, k] activation\noutput y: T[m, k]\n"
      "kernel main {\n  grid m\n  load x [m: grid, k]\n  %0 = const(1/2)\n  %1 = mul(x, %0)\n"
      "  store y = %1\n}\n");
  RandomOptions options;
  options.at = {{{5, 2}, {{2, 1}, {1, 1}}}};
  const Evidence equal = random_test(program, graph, options);
  EXPECT_EQ(equal.verdict, Verdict::kPass) << equal.reason;
  const nlohmann::json dims = nlohmann::json::parse(equal.figures)["dims"];
  EXPECT_EQ(dims, nlohmann::json::parse(R"([{"m": 5, "k": 2}])"));
  options.at.push_back({{5, 3}, {{2, 1}, {1, 1}}});
  EXPECT_EQ(random_test(program, graph, options).verdict, Verdict::kRefuted);
  // A dim too few, no part at all, an extent beyond what the field's square roots serve.
  for (const ScaledDims& wrong :
       {ScaledDims{{5}, {{2, 1}, {1, 1}}}, ScaledDims{{5, 2}, {{0, 1}, {1, 1}}},
        ScaledDims{{5, 37}, {{2, 1}, {1, 1}}}}) {
    options.at = {wrong};
    EXPECT_EQ(random_test(program, graph, options).verdict, Verdict::kUnsupported);
  }
}

// A constant that agrees modulo nothing but one prime is still caught.
TEST(Limits, ConstantThatAPrimeHides) {
  const ir::Program program = ir::parse_program(
      "program p\ndims m\ninput x: T[m] activation\n%0 = square(x)\noutput y: T = %0\n");
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const ir::MuGraph graph = ir::parse_mugraph(
        "mugraph p\ndims m\ninput x: T[m] activation\noutput y: T[m]\n"
        "kernel main {\n  grid m\n  load x [m: grid]\n  %0 = square(x)\n  %1 = const(2147481312)\n"
        "  %2 = mul(%0, %1)\n  store y = %2\n}\n");
    EXPECT_EQ(random_test(program, graph, {seed, 3, -60}).verdict, Verdict::kRefuted);
  }
}

TEST(Limits, QueryIsSavedOnRequest) {
  Z3Options options;
  options.dump_file = ::testing::TempDir() + "tenon_query.smt2";
  EXPECT_EQ(z3_check(rmsnorm(), online(), options).verdict, Verdict::kProved);
  const std::string text = testing::read_text(options.dump_file);
  EXPECT_NE(text.find("(check-sat)"), std::string::npos);
  EXPECT_NE(text.find("rsqrt!"), std::string::npos);
  std::remove(options.dump_file.c_str());
  options.dump_file = "/nonexistent/query.smt2";
  const Evidence e = z3_check(rmsnorm(), online(), options);
  EXPECT_NE(e.verdict, Verdict::kProved);
  EXPECT_NE(e.reason.find("/nonexistent/query.smt2"), std::string::npos) << e.reason;
}

TEST(Limits, SameSeedSameEvidence) {
  const Evidence a = random_test(rmsnorm(), online(), {5, 3, -60});
  const Evidence b = random_test(rmsnorm(), online(), {5, 3, -60});
  EXPECT_EQ(a.figures, b.figures);
  EXPECT_NE(a.figures, random_test(rmsnorm(), online(), {6, 3, -60}).figures);
}

}  // namespace
}  // namespace tenon::verifier
