// Malformed µGraphs: one sentence with its place, never a crash.
#include <gtest/gtest.h>

#include "fixtures.h"
#include "ir/error.h"
#include "ir/mugraph.h"

namespace tenon::ir {
namespace {

std::string error(const std::string& text) {
  try {
    parse_mugraph(text);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

// Five lines; what follows begins on line 6.
constexpr const char* kHead =
    "mugraph p\ndims m, k\ninput x: T[m, k] activation\ninput g: T[k] parameter\noutput y: T[m, "
    "k]\n";

void expect_errors(const std::vector<std::pair<std::string, std::string>>& cases) {
  for (const auto& [text, message] : cases) {
    const std::string got = error(kHead + text);
    EXPECT_EQ(got.substr(0, message.size()), message) << "in:\n" << text << "got: " << got;
    EXPECT_EQ(got.find('\n'), std::string::npos);
  }
}

TEST(MuGraphErrors, Signature) {
  EXPECT_EQ(error("program p\n"), "line 1, column 1: expected 'mugraph', found 'program'");
  EXPECT_EQ(error("mugraph p\ndims m\ninput x: T[m] activation\noutput x: T[m]\n"),
            "line 4, column 8: 'x' is declared twice");
  EXPECT_EQ(error("mugraph p\ndims m\ninput x: T[m] activation\noutput y: T = x\n"),
            "line 4, column 13: expected '[', found '='");
  EXPECT_EQ(
      error("mugraph p\ndims m\nfoo\n"),
      "line 3, column 1: expected dims, attribute, input, output, prepare or kernel, found 'foo'");
}

TEST(MuGraphErrors, Tensors) {
  expect_errors({
      {"", "line 1, column 1: the µGraph has no kernel"},
      {"kernel a {\n  load t [m: full]\n",
       "line 7, column 8: tensor 't' is not a tensor that was written before"},
      {"kernel a {\n  load y [m: full, k: full]\n",
       "line 7, column 8: tensor 'y' is read before it is written"},
      {"kernel a {\n  load x [m: full, k: full]\n  store z = x\n",
       "line 8, column 9: tensor 'z' is no output; declare its type"},
      {"kernel a {\n  load x [m: full, k: full]\n  store x = x\n",
       "line 8, column 9: tensor 'x' is no output"},
      {"kernel a {\n  load x [m: full, k: full]\n  store x: T[m, k] = x\n",
       "line 8, column 9: tensor 'x' is declared twice"},
      {"kernel a {\n  load x [m: full, k: full]\n  store y = x\n  store y = x\n",
       "line 9, column 9: tensor 'y' is written twice"},
      {"kernel a {\n  load x [m: full, k: full]\n  store t: T[m, k] = x\n  store y = x\n}\n",
       "line 8, column 9: tensor t is never read"},
      {"kernel a {\n  load x [m: full, k: full]\n  store t: T[m, k] = x\n}\nkernel b {\n  load t "
       "[m, k]\n  store u: T[m, k] = t\n}\n"
       "kernel c {\n  load u [m, k]\n  store v: T[m, k] = u\n}\n",
       "line 5, column 8: tensor y is never written"},
      {"order t\nkernel a {\n  load x [m, k]\n  store y = x\n}\n",
       "line 6, column 7: tensor 't' is never written"},
      {"order t, t\n", "line 6, column 10: tensor 't' is declared twice"},
      {"order t\nkernel a {\n  load t [m, k]\n",
       "line 8, column 8: tensor 't' is read before it is written"},
  });
}

TEST(MuGraphErrors, Prepare) {
  expect_errors({
      {"prepare {\n  %0 = square(x)\n}\n", "line 7, column 15: 'x' is not a parameter"},
      {"prepare {\n  %0 = square(q)\n}\n", "line 7, column 15: 'q' is not a parameter"},
      {"prepare {\n  load x\n}\n", "line 7, column 8: 'x' is not a parameter"},
      {"prepare {\n  load g, g\n}\n", "line 7, column 11: 'g' is defined twice"},
      {"prepare {\n  %0 = square(%1)\n}\n", "line 7, column 15: '%1' is not defined"},
      {"prepare {\n  %1 = square(%0)\n  %0 = square(g)\n}\n",
       "line 7, column 15: '%0' is used before line 8 defines it"},
      {"prepare {\n  store y = g\n}\n",
       "line 7, column 9: tensor 'y' is an output, which prepare cannot store"},
      {"prepare {\n  store p: T[m] = g\n}\nkernel a {\n  load x [m, k]\n  store y = x\n}\n",
       "line 7, column 9: prepare stores a value with other axes"},
      {"prepare {\n  accumulate sum(g, k)\n}\n",
       "line 7, column 3: expected load, store, a value such as %0 or '}', found 'accumulate'"},
      {"prepare {\n  %0 = square(g)\n",
       "line 8, column 1: expected load, store, a value such as %0 or '}', found the end of the "
       "text"},
  });
}

TEST(MuGraphErrors, Blocks) {
  const std::string block = "kernel a {\n  grid m\n  loop k\n  load x [m: grid, k: loop]\n";
  expect_errors({
      {"kernel a {\n  grid m, m\n", "line 7, column 11: dim 'm' is in the grid twice"},
      {"kernel a {\n  grid q\n", "line 7, column 8: 'q' is not a dim; accepted: m, k"},
      {"kernel a {\n  grid split split\n", "line 7, column 14: 'split' is not a dim"},
      {"kernel a {\n  grid m\n  grid k\n", "line 8, column 3: the grid is given twice"},
      {"kernel a {\n  loop k, k\n", "line 7, column 11: dim 'k' is looped over twice"},
      {"kernel a {\n  load x [m, k]\n  grid m\n",
       "line 8, column 3: grid must come before the first load"},
      {"kernel a {\n  load x [k, m]\n",
       "line 7, column 11: the axes of x are [m, k], in this order"},
      {"kernel a {\n  load x [m]\n", "line 7, column 12: expected ',', found ']'"},
      {"kernel a {\n  load x [m: tile, k]\n",
       "line 7, column 14: expected grid, loop, grid+loop or full, found 'tile'"},
      {"kernel a {\n  load x [m: full shift 1, k]\n",
       "line 7, column 19: only a grid's share can be shifted"},
      {"kernel a {\n  grid m\n  load x [m: grid shift 99999999999, k]\n",
       "line 8, column 25: a shift is '99999999999'"},
      {"kernel a {\n  load x [m: grid, k]\n  store y = x\n}\n",
       "line 7, column 3: kernel a: load x: m is not in the grid"},
      {block + "  load g as x [k: loop]\n", "line 10, column 13: 'x' is defined twice"},
      {block + "  %0 = square(x)\n  load g [k: loop]\n",
       "line 11, column 3: loads must come before the first operator"},
      {block + "  %0 = square(x)\n  store y = %1\n", "line 11, column 13: '%1' is not defined"},
      {block + "  %0 = sum(x, m)\n  store y = %0\n}\n",
       "line 11, column 3: kernel a: store y: the value has other axes"},
      {block + "  %0 = broadcast(x, [m, k: loop])\n",
       "line 10, column 8: operands tile a dim differently"},
      {block + "  %0 = accumulate max(x, k)\n",
       "line 10, column 19: expected sum, matmul or custom, found 'max'"},
      {block + "  %0 = accumulate sum(x, q)\n", "line 10, column 26: 'q' is not a dim"},
      {block + "  %0 = accumulate matmul(x, k)\n", "line 10, column 29: 'k' is not defined"},
      {block + "  %0 = accumulate sum(x, k)\n  %1 = result(1, 0)\n",
       "line 11, column 8: there is no accumulator 1"},
      {block + "  %0 = accumulate sum(x, k)\n  %1 = result(0, 1)\n",
       "line 11, column 3: accumulator 0 has 1 results"},
      {block + "  %0 = accumulate[300] sum(x, k)\n",
       "line 10, column 19: an accumulator's number is '300'"},
      {block + "  %0 = accumulate[1] sum(x, k)\n  store y = x\n}\n",
       "line 12, column 1: the accumulators are not numbered"},
      {block + "  %0 = accumulate sum(x, k)\n  %1 = accumulate[0] sum(x, k)\n",
       "line 11, column 8: accumulator 0 is declared twice"},
      {block + "  %0 = accumulate sum(x, k)\n  %1 = mul(x, %0)\n  store y = %1\n}\n",
       "line 6, column 1: kernel a: a value of the loop body is combined"},
      {block + "  store y = x\n}\nkernel a {\n", "line 12, column 8: kernel 'a' is declared twice"},
      {block + "  store y = x\n} kernel b {\n", "line 11, column 3: expected the end of the line"},
      {block + "  store y = x\n}\n}\n", "line 12, column 1: expected kernel, found '}'"},
      {block + "  foo\n",
       "line 10, column 3: expected grid, loop, load, accumulate, store, a value such as %0 or "
       "'}', found 'foo'"},
      {block,
       "line 10, column 1: expected grid, loop, load, accumulate, store, a value such as %0 or "
       "'}', found the end"},
      {"kernel a library matmul(x, y, k) -> y\n",
       "line 6, column 28: tensor 'y' is read before it is written"},
      {"kernel a library sum(x, g, k) -> y\n", "line 6, column 18: expected 'matmul', found 'sum'"},
      {"kernel a library matmul(x, g, k) -> y\n",
       "line 6, column 1: kernel a: the product has other axes than its output"},
      {"kernel a library matmul(x, g, m) -> y\n", "line 6, column 18: matmul is over a dim"},
      {"kernel a library matmul(x, g, k) = y\n", "line 6, column 34: expected '->', found '='"},
  });
}

TEST(MuGraphErrors, CustomAccumulators) {
  const std::string head =
      "kernel a {\n  grid m\n  loop k\n  load x [m: grid, k: loop]\n  accumulate custom over k (x) "
      "{\n";
  const std::string state = head + "    state [m: grid]\n";
  const std::string init = state +
                           "    init {\n      %0 = const(0)\n      %1 = broadcast(%0, [m: grid])\n "
                           "     yield %1\n    }\n";
  expect_errors({
      {head + "    init {\n", "line 11, column 5: expected a state, found 'init'"},
      {state + "    update (s, x) {\n", "line 12, column 5: expected 'init', found 'update'"},
      {state + "    init (s) {\n", "line 12, column 10: expected '{', found '('"},
      {state + "    init {\n      %0 = const(0)\n      yield %0\n    }\n",
       "line 12, column 5: init yields [] for state 0, which is [m: grid]"},
      {state + "    init {\n      %0 = const(0)\n      yield %0, %0\n    }\n",
       "line 12, column 5: init yields 2 values; accepted: one for each of the 1 states"},
      {state + "    init {\n      %0 = const(0)\n    }\n",
       "line 14, column 5: expected a value such as %0, or yield, found '}'"},
      {init + "    update (s) {\n", "line 17, column 5: update names 1 values; accepted: 2"},
      {init + "    update (s, s) {\n", "line 17, column 16: 's' is defined twice"},
      {init + "    update (s, x, z) {\n", "line 17, column 17: expected ')', found ','"},
      {init + "    update (s, x) {\n      yield x\n    }\n",
       "line 17, column 5: update yields [m: grid, k: loop] for state 0"},
      {init + "    update (s, x) {\n      yield s\n    }\n    final (s) {\n",
       "line 20, column 5: expected 'merge', found 'final'"},
      {init + "    update (s, x) {\n      %0 = accumulate sum(x, k)\n",
       "line 18, column 12: 'accumulate' is not an operator"},
      {init + "    update (s, x) {\n      yield s\n      yield s\n",
       "line 19, column 7: expected '}', found 'yield'"},
      {init + "    update (s, x) {\n      yield s\n    }\n    merge (a, b) {\n      yield a\n    "
              "}\n    final (s) {\n      yield s\n    }\n  } -> %0, %1\n",
       "line 26, column 8: the accumulator has 1 results, not 2"},
  });
}

TEST(MuGraphErrors, HugeTextsAreRefused) {
  std::string kernels = kHead;
  for (int i = 0; i < 1000; ++i) {
    kernels += "kernel k" + std::to_string(i) + " {\n  load x [m, k]\n  store t" +
               std::to_string(i) + ": T[m, k] = x\n}\n";
  }
  EXPECT_NE(error(kernels).find("more than 64 kernels"), std::string::npos);
  std::string block =
      std::string(kHead) + "kernel a {\n  grid m\n  loop k\n  load x [m: grid, k: loop]\n";
  std::string accumulators = block;
  for (int i = 0; i < 1000; ++i)
    accumulators += "  %" + std::to_string(i) + " = accumulate sum(x, k)\n";
  EXPECT_NE(error(accumulators).find("more than 256 accumulators"), std::string::npos);
  std::string loads = "mugraph p\ndims m\ninput x: T[m] activation\noutput y: T[m]\nkernel a {\n";
  for (int i = 0; i < 1000; ++i) loads += "  load x as x" + std::to_string(i) + " [m]\n";
  EXPECT_NE(error(loads).find("more than 256 loads"), std::string::npos);
  std::string nodes = block;
  for (int i = 0; i < 10000; ++i) nodes += "  %" + std::to_string(i) + " = square(x)\n";
  EXPECT_NE(error(nodes).find("more than 4096 operators"), std::string::npos);
  EXPECT_NE(error("mugraph p\n" + std::string(1 << 20, '{')).find("at most 1048576"),
            std::string::npos);
  EXPECT_NE(error("mugraph p\n" + std::string(1000000, '{')).find("line 2, column 1"),
            std::string::npos);
  // A long chain: identity() walks it by recursion.
  std::string chain = block + "  %0 = square(x)\n";
  for (int i = 1; i < 4095; ++i)
    chain += "  %" + std::to_string(i) + " = square(%" + std::to_string(i - 1) + ")\n";
  const MuGraph graph = parse_mugraph(chain + "  store y = %4094\n}\n");
  EXPECT_EQ(parse_mugraph(print(graph)), graph);
  EXPECT_EQ(identity(graph).size(), 64u);
}

}  // namespace
}  // namespace tenon::ir
