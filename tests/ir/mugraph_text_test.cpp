// µGraphs in the text form: the fixtures parse, validate, mean their program and round-trip;
// so do the forms that only other text can show.
#include <gtest/gtest.h>

#include <random>

#include "fixtures.h"
#include "ir/domain.h"
#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/mugraph.h"
#include "rmsnorm.h"

namespace tenon::ir {
namespace {

using testing::fixture;
using testing::kRmsnormFixtures;

using Tensors = std::vector<Values<double>>;

Tensors random_inputs(const Signature& signature, const Extents& extents, double mean) {
  std::mt19937 engine(11);
  std::normal_distribution<double> normal(mean, 1.0);
  Tensors inputs;
  for (const ProgramInput& input : signature.inputs) {
    Values<double> v{input.axes, {}, {}};
    std::int64_t count = 1;
    for (const Axis& axis : input.axes) {
      v.extents.push_back(extents[axis.dim]);
      count *= extents[axis.dim];
    }
    for (std::int64_t i = 0; i < count; ++i) v.data.push_back(normal(engine));
    inputs.push_back(std::move(v));
  }
  return inputs;
}

void expect_equal(const Tensors& a, const Tensors& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t t = 0; t < a.size(); ++t) {
    ASSERT_EQ(a[t].extents, b[t].extents);
    ASSERT_EQ(a[t].data.size(), b[t].data.size());
    for (std::size_t i = 0; i < a[t].data.size(); ++i) {
      EXPECT_NEAR(a[t].data[i], b[t].data[i], tolerance) << "element " << i;
    }
  }
}

void expect_round_trip(const MuGraph& graph) {
  const std::string text = print(graph);
  MuGraph again;
  ASSERT_NO_THROW(again = parse_mugraph(text)) << text;
  EXPECT_EQ(again, graph) << text;
  EXPECT_EQ(print(again), text);
}

TEST(MuGraphText, FixturesRoundTrip) {
  for (const char* file : kRmsnormFixtures) {
    SCOPED_TRACE(file);
    const MuGraph graph = parse_mugraph(fixture(file));
    expect_round_trip(graph);
    expect_round_trip(canonical(graph));
    EXPECT_EQ(identity(parse_mugraph(print(canonical(graph)))), identity(graph));
  }
  expect_round_trip(parse_mugraph(fixture("layernorm_welford.mugraph")));
  expect_round_trip(canonical(parse_mugraph(fixture("layernorm_welford.mugraph"))));
}

TEST(MuGraphText, FixturesAreCanonicalTextButForTheComment) {
  // Printing gives back the file line for line.
  for (const char* file : kRmsnormFixtures) {
    const std::string text = fixture(file);
    EXPECT_EQ(print(parse_mugraph(text)), text.substr(text.find("mugraph"))) << file;
  }
  const std::string text = fixture("layernorm_welford.mugraph");
  EXPECT_EQ(print(parse_mugraph(text)), text.substr(text.find("\nmugraph") + 1));
}

TEST(MuGraphText, RmsnormFixturesMeanTheProgram) {
  const Program program = catalog_program("rmsnorm_linear");
  const Extents extents = {5, 13, 7};
  DoubleDomain domain({{"eps", 0.125}});
  const Tensors inputs = random_inputs(program.signature, extents, 0);
  const Tensors expected = evaluate(program, extents, domain, inputs);
  for (const char* file : kRmsnormFixtures) {
    SCOPED_TRACE(file);
    const MuGraph graph = parse_mugraph(fixture(file));
    // Ragged: 13 into 2 shares of 7 and 6, each into 3 steps of 3, 3 and 1 or 0.
    expect_equal(evaluate(graph, extents, Partition{{2, 2, 3}, {1, 3, 2}}, domain, inputs),
                 expected, 1e-12);
    expect_equal(evaluate(graph, extents, Partition{{1, 1, 1}, {1, 1, 1}}, domain, inputs),
                 expected, 1e-12);
  }
}

TEST(MuGraphText, WelfordFixtureMeansItsProgram) {
  const Program program = parse_program(fixture("layernorm_linear.program"));
  const MuGraph graph = parse_mugraph(fixture("layernorm_welford.mugraph"));
  const Extents extents = {3, 11, 4};
  DoubleDomain domain({{"eps", 1e-5}});
  const Tensors inputs = random_inputs(program.signature, extents, 100);
  const Tensors expected = evaluate(program, extents, domain, inputs);
  for (std::int64_t splits : {1, 2, 3}) {
    for (std::int64_t steps : {1, 2, 4}) {
      expect_equal(
          evaluate(graph, extents, Partition{{2, splits, 2}, {1, steps, 1}}, domain, inputs),
          expected, 1e-7);
    }
  }
}

TEST(MuGraphText, TextAndFactoriesMakeTheSameGraph) {
  MuGraph one_pass = parse_mugraph(fixture("rmsnorm_one_pass.mugraph"));
  EXPECT_EQ(identity(one_pass), identity(testing::one_pass(false)));
  EXPECT_EQ(identity(parse_mugraph(fixture("rmsnorm_split_k.mugraph"))),
            identity(testing::one_pass(true)));
  expect_round_trip(testing::one_pass(false));
  expect_round_trip(testing::one_pass(true));
}

constexpr const char* kHead =
    "mugraph p\ndims m, k\ninput x: T[m, k] activation\ninput g: T[k] parameter\ninput h: T[k] "
    "parameter\n"
    "output y: fp32[m]\noutput z: T[m, k]\n";

TEST(MuGraphText, PrepareInputsFollowFirstUseOrTheLoadLine) {
  const std::string rest =
      "kernel main {\n  grid m\n  load x [m: grid, k: full]\n  load p [k: full]\n  load q [k: "
      "full]\n"
      "  %0 = mul(x, p)\n  %1 = add(%0, q)\n  %2 = sum(%1, k)\n  store y = %2\n  store z = %1\n}\n";
  const std::string stores = "  store p: fp32[k] = %0\n  store q: T[k] = g\n}\n";
  const MuGraph implied =
      parse_mugraph(std::string(kHead) + "prepare {\n  %0 = sub(h, g)\n" + stores + rest);
  EXPECT_EQ(implied.prepare.graph.inputs()[0].name, "h");
  expect_round_trip(implied);
  EXPECT_EQ(print(implied).find("load g, h"), std::string::npos);
  const MuGraph listed = parse_mugraph(
      std::string(kHead) + "prepare {\n  load g, h\n  %0 = sub(h, g)\n" + stores + rest);
  EXPECT_EQ(listed.prepare.graph.inputs()[0].name, "g");
  EXPECT_NE(print(listed).find("  load g, h\n"), std::string::npos);
  expect_round_trip(listed);
  // An input of the graph that nothing uses.
  const MuGraph unused = parse_mugraph(
      std::string(kHead) + "prepare {\n  load g, h\n  %0 = square(g)\n" + stores + rest);
  EXPECT_EQ(unused.prepare.graph.inputs().size(), 2u);
  expect_round_trip(unused);
  EXPECT_EQ(identity(implied), identity(listed));
}

TEST(MuGraphText, OneTensorMayBeLoadedTwiceWithOtherMaps) {
  const std::string text = std::string(kHead) +
                           "kernel main {\n  grid m\n  loop k\n  load x [m: grid, k: loop]\n  load "
                           "x as x.2 [m: grid, k: full]\n"
                           "  load x as x.3 [m: grid shift 1, k: full]\n"
                           "  %0 = accumulate sum(x, k)\n  %1 = sum(x.2, k)\n  %2 = add(%0, %1)\n  "
                           "%3 = sum(x.3, k)\n  %4 = add(%2, %3)\n"
                           "  store y = %4\n  store z = x\n}\n";
  const MuGraph graph = parse_mugraph(text);
  expect_round_trip(graph);
  EXPECT_EQ(print(graph), text);
  const BlockGraph& block = *graph.kernels[0].block();
  EXPECT_EQ(block.graph.inputs()[1].name, "x");
  EXPECT_EQ(block.inputs[2].maps[0], (AxisMap{kGrid, 1}));
}

TEST(MuGraphText, AliasesAreAnyName) {
  const MuGraph graph = parse_mugraph(std::string(kHead) +
                                      "kernel main {\n  load x as left [m: full, k]\n  %0 = "
                                      "sum(left, k)\n  store y = %0\n  store z = left\n}\n");
  EXPECT_EQ(graph.kernels[0].block()->graph.inputs()[0].name, "x");
  expect_round_trip(graph);
}

TEST(MuGraphText, AccumulatorsOutOfOrderAndResultsApart) {
  const std::string custom =
      " custom over k (x) {\n    state [m: grid]\n    state [m: grid]\n"
      "    init {\n      %0 = const(0)\n      %1 = broadcast(%0, [m: grid])\n      yield %1, %1\n  "
      "  }\n"
      "    update (a, b, x) {\n      %0 = sum(x, k)\n      %1 = add(a, %0)\n      %2 = square(x)\n "
      "     %3 = sum(%2, k)\n      %4 = add(b, %3)\n      yield %1, %4\n    }\n"
      "    merge (a1, b1, a2, b2) {\n      %0 = add(a1, a2)\n      %1 = add(b1, b2)\n      yield "
      "%0, %1\n    }\n"
      "    final (a, b) {\n      yield a, b\n    }\n  }";
  const std::string head =
      std::string(kHead) + "kernel main {\n  grid m\n  loop k\n  load x [m: grid, k: loop]\n";
  const std::string tail = "  store y = %4\n  store z = x\n}\n";
  // The usual form.
  const std::string together =
      head + "  accumulate" + custom +
      " -> %0, %1\n  %2 = accumulate sum(x, k)\n  %3 = add(%0, %1)\n  %4 = add(%2, %3)\n" + tail;
  EXPECT_EQ(print(parse_mugraph(together)), together);
  expect_round_trip(parse_mugraph(together));
  // Results in another order and apart; the sum has index 0 and comes later.
  const std::string apart = head + "  accumulate[1]" + custom +
                            "\n  %0 = result(1, 1)\n  %1 = accumulate[0] sum(x, k)\n  %2 = "
                            "result(1, 0)\n  %3 = add(%2, %0)\n  %4 = add(%1, %3)\n" +
                            tail;
  const MuGraph graph = parse_mugraph(apart);
  EXPECT_EQ(graph.kernels[0].block()->accumulators[0].kind, "sum");
  EXPECT_EQ(print(graph), apart);
  expect_round_trip(graph);
  // Only one of the results is used.
  const std::string one = head + "  accumulate" + custom +
                          "\n  %0 = result(0, 1)\n  %1 = add(%0, %0)\n  %2 = add(%1, %1)\n  %3 = "
                          "add(%2, %2)\n  %4 = add(%3, %3)\n" +
                          tail;
  EXPECT_EQ(print(parse_mugraph(one)), one);
  expect_round_trip(canonical(parse_mugraph(together)));
  expect_round_trip(canonical(parse_mugraph(apart)));
  EXPECT_EQ(identity(parse_mugraph(together)), identity(parse_mugraph(apart)));
}

TEST(MuGraphText, OrderOfTensorsIsKept) {
  const std::string body =
      "kernel first {\n  load x [m: full, k: full]\n  %0 = square(x)\n  store a: fp32[m, k] = %0\n "
      " store b: T[k, m] = x\n}\n"
      "kernel second {\n  load a [m: full, k: full]\n  load b [k: full, m: full]\n  %0 = mul(a, "
      "b)\n  %1 = sum(%0, k)\n  store z = %0\n  store y = %1\n}\n";
  const MuGraph plain = parse_mugraph(std::string(kHead) + body);
  const MuGraph ordered = parse_mugraph(std::string(kHead) + "order b, a\n" + body);
  EXPECT_EQ(plain.tensors[5].name, "a");
  EXPECT_EQ(ordered.tensors[5].name, "b");
  EXPECT_EQ(print(ordered), std::string(kHead) + "order b, a\n" + body);
  expect_round_trip(plain);
  expect_round_trip(ordered);
  EXPECT_EQ(identity(plain), identity(ordered));
}

TEST(MuGraphText, LibraryProductsOfIntermediates) {
  const std::string text =
      "mugraph p\ndims m, k, n, o\ninput x: T[m, k] activation\ninput w: T[k, n] parameter\ninput "
      "v: T[n, o] parameter\n"
      "output y: T[m, o]\n"
      "kernel one library matmul(x, w, k) -> t: fp32[m, n]\nkernel two library matmul(t, v, n) -> "
      "y\n";
  const MuGraph graph = parse_mugraph(text);
  EXPECT_EQ(print(graph), text);
  EXPECT_EQ(graph.kernels[1].library()->dim, 2);
  EXPECT_EQ(graph.tensors[4].kind, TensorKind::kIntermediate);
  expect_round_trip(graph);
}

TEST(MuGraphText, ADimMayBeNamedSplit) {
  const std::string text =
      "mugraph p\ndims split, m\ninput x: T[split, m] activation\noutput y: T[split, m]\n"
      "kernel main {\n  grid m, split\n  load x [split: grid, m: grid]\n  store y = x\n}\n";
  const MuGraph graph = parse_mugraph(text);
  EXPECT_FALSE(graph.kernels[0].block()->grid[1].split);
  EXPECT_EQ(print(graph), text);
}

}  // namespace
}  // namespace tenon::ir
