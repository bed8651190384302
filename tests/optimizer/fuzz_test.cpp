// A few hundred random programs; fuzz_soak runs ten thousand. TENON_FUZZ_SEED=N replays one.
#include "fuzz.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "ir/program.h"
#include "random_program.h"

namespace tenon::test {
namespace {

TEST(Fuzz, SearchAndHostAgreeWithTheProgram) {
  std::uint64_t first = 0, count = 300;
  if (const char* seed = std::getenv("TENON_FUZZ_SEED"))
    first = std::strtoull(seed, nullptr, 10), count = 1;
  std::uint64_t found = 0, compared = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const FuzzCase c = fuzz(seed);
    EXPECT_TRUE(c.ok) << c.problem;
    found += c.graphs > 0;
    compared += c.compared;
  }
  if (count == 1) return;
  EXPECT_GE(found, count * 95 / 100) << "programs that the search found a form for";
  EXPECT_GE(compared, count * 85 / 100) << "programs whose result was compared";
}

// Seeds that once ended in an error: the square of a root, whose argument prepare makes too.
TEST(Fuzz, SeedsThatFailedOnce) {
  for (const std::uint64_t seed : {6788U}) {
    const FuzzCase c = fuzz(seed);
    EXPECT_TRUE(c.ok) << c.problem;
    EXPECT_GT(c.graphs, 0) << seed;
    EXPECT_TRUE(c.compared) << seed;
  }
}

// The generator says what it promises: valid, all different, every operator among them.
TEST(Fuzz, ProgramsCoverTheTable) {
  std::set<std::string> identities, operators;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const ir::Program program = ir::parse_program(random_program(seed));
    EXPECT_EQ(random_program(seed), random_program(seed));
    identities.insert(ir::identity(program));
    for (const ir::Node& node : program.graph.nodes())
      operators.insert(std::string(ir::info(node.op).name));
    for (const ir::Axes& axes : program.signature.output_axes)
      EXPECT_EQ(program.signature.dims[axes.at(0).dim], "m");
  }
  EXPECT_GE(identities.size(), 280U);
  for (const char* op :
       {"const", "add", "sub", "mul", "div", "square", "sqrt", "rsqrt", "sum", "matmul", "cast",
        "exp", "tanh", "erf", "sigmoid", "silu", "gelu", "gelu_tanh"})
    EXPECT_TRUE(operators.count(op)) << op;
}

}  // namespace
}  // namespace tenon::test
