// Nothing that the search emits computes anything but the program.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/domain.h"
#include "ir/evaluate.h"
#include "tests/search/programs.h"

namespace tenon::search::test {
namespace {

using Doubles = ir::Values<double>;

Doubles random_tensor(const ir::Axes& axes, const ir::Extents& extents, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Doubles v{axes, {}, {}};
  std::int64_t count = 1;
  for (const ir::Axis& axis : axes) {
    v.extents.push_back(extents[axis.dim]);
    count *= extents[axis.dim];
  }
  for (std::int64_t i = 0; i < count; ++i) v.data.push_back(normal(random));
  return v;
}

std::vector<Doubles> random_inputs(const ir::Program& program, const ir::Extents& extents,
                                   unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Doubles> inputs;
  for (const ir::ProgramInput& in : program.signature.inputs)
    inputs.push_back(random_tensor(in.axes, extents, random));
  return inputs;
}

void expect_close(const std::vector<double>& got, const std::vector<double>& want,
                  const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  double scale = 0;
  for (double x : want) scale = std::max(scale, std::abs(x));
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(std::abs(got[i] - want[i]) <= 1e-9 * scale) << "element " << i << " of " << what;
}

// Ragged extents: no partition below divides them.
const std::vector<ir::Extents> kExtents = {{3, 7, 5}, {5, 11, 2}};

TEST(Equality, EveryRmsnormLinearAgainstAHandWrittenReference) {
  ir::Program program = rmsnorm_linear();
  Result r = enumerate(program, Options{});
  for (const ir::Extents& extents : kExtents) {
    std::vector<Doubles> inputs = random_inputs(program, extents, 7);
    auto [m, k, n] = std::tuple(extents[0], extents[1], extents[2]);
    std::vector<double> want;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double ss = 0;
        double y = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          double x = inputs[0].data[static_cast<std::size_t>(i * k + l)];
          ss += x * x;
          y += x * inputs[1].data[static_cast<std::size_t>(l)] *
               inputs[2].data[static_cast<std::size_t>(l * n + j)];
        }
        want.push_back(y / std::sqrt(ss / static_cast<double>(k) + 1e-6));
      }
    for (const ir::MuGraph& g : r.graphs)
      for (std::int64_t parts : {2, 3}) {
        ir::DoubleDomain domain({{"eps", 1e-6}});
        std::vector<std::int64_t> cut(extents.size(), parts);
        auto out = ir::evaluate(g, extents, ir::Partition{cut, cut}, domain, inputs);
        expect_close(out[0].data, want, ir::print(g));
      }
  }
}

TEST(Equality, EveryGraphOfOtherProgramsAgainstTheProgram) {
  for (const ir::Program& program :
       {linear(), two_linears(), scaled_linear(), add_linear(), rmsnorm(), unit_rows()}) {
    Result r = enumerate(program, Options{});
    ASSERT_FALSE(r.graphs.empty()) << program.signature.program;
    for (ir::Extents extents : kExtents) {
      extents.resize(program.signature.dims.size());
      std::vector<Doubles> inputs = random_inputs(program, extents, 11);
      ir::DoubleDomain domain({{"eps", 1e-6}});
      auto want = ir::evaluate(program, extents, domain, inputs);
      std::vector<std::int64_t> cut(extents.size(), 2);
      for (const ir::MuGraph& g : r.graphs) {
        auto got = ir::evaluate(g, extents, ir::Partition{cut, cut}, domain, inputs);
        ASSERT_EQ(got.size(), want.size());
        for (std::size_t o = 0; o < want.size(); ++o)
          expect_close(got[o].data, want[o].data, ir::print(g));
      }
    }
  }
}

// The rounding policy gives the unfused form the program's own casts: bit for bit the same in
// bf16 when no loop is cut (a cut loop adds in another order).
TEST(Equality, UnfusedFormRoundsAsTheProgramDoes) {
  ir::Program program = rmsnorm_linear();
  Result r = enumerate(program, Options{});
  ir::Extents extents = {5, 33, 6};
  ir::RoundedDomain domain({{"eps", 1e-6}}, ir::DType::kBF16);
  std::vector<ir::Values<float>> inputs;
  for (const Doubles& d : random_inputs(program, extents, 3)) {
    ir::Values<float> v{d.axes, d.extents, {}};
    for (double x : d.data) v.data.push_back(ir::round_to(ir::DType::kBF16, static_cast<float>(x)));
    inputs.push_back(std::move(v));
  }
  auto want = ir::evaluate(program, extents, domain, inputs);
  std::vector<std::int64_t> whole(extents.size(), 1);
  for (int i : {find_unfused(r.graphs), find_unfused_library(r.graphs)}) {
    ASSERT_GE(i, 0);
    auto got = ir::evaluate(r.graphs[static_cast<std::size_t>(i)], extents,
                            ir::Partition{whole, whole}, domain, inputs);
    EXPECT_EQ(got[0].data, want[0].data);
  }
}

TEST(Equality, TensorsBetweenKernelsFollowTheRoundingPolicy) {
  for (const ir::MuGraph& g : enumerate(rmsnorm_linear(), Options{}).graphs)
    for (const ir::Tensor& t : g.tensors)
      if (t.kind == ir::TensorKind::kIntermediate || t.kind == ir::TensorKind::kPrepared) {
        EXPECT_EQ(t.dtype, t.axes.size() >= 2 ? ir::DType::kElem : ir::DType::kF32) << t.name;
      }
}

// Operands of products are the workload's dtype: loads of it, or casts to it.
TEST(Equality, ProductOperandsAreRounded) {
  for (const ir::MuGraph& g : enumerate(rmsnorm_linear(), Options{}).graphs)
    for (const ir::Kernel& kernel : g.kernels) {
      const ir::BlockGraph* block = kernel.block();
      if (!block) continue;
      auto rounded = [&](ir::ValueId v) {
        if (block->graph.is_input(v))
          return g.tensors[static_cast<std::size_t>(
                               block->inputs[static_cast<std::size_t>(v)].tensor)]
                     .dtype == ir::DType::kElem;
        const ir::Node& n = block->graph.node(v);
        return n.op == ir::OpKind::kCast && n.dtype == ir::DType::kElem;
      };
      for (const ir::Node& n : block->graph.nodes())
        if (n.op == ir::OpKind::kMatmul) {
          EXPECT_TRUE(rounded(n.a) && rounded(n.b));
        }
      for (const ir::Accumulator& acc : block->accumulators) {
        if (acc.kind != "matmul") continue;
        for (ir::ValueId v : acc.operands) EXPECT_TRUE(rounded(v)) << ir::print(g);
      }
    }
}

// v = square(sqrt(v)): the root is made of v, and v of the root. That must not leave the root,
// which prepare makes, without a way to it.
TEST(Equality, ClassesThatAreMadeOfEachOther) {
  const ir::Program program = ir::parse_program(R"(program root_squared
dims m, k
input e: T[m, k] activation
input g: T[k] parameter
%gg = square(g)
%v = sum(%gg, k)
%r = sqrt(%v)
%s = sum(e, k)
%rs = mul(%r, %s)
%q = mul(%rs, %rs)
%out = cast(%q, T)
output y: T = %out
)");
  const Result result = enumerate(program, Options{});
  EXPECT_EQ(result.counters.stop_reason, "exhausted");
  int with_root = 0;
  for (const ir::MuGraph& g : result.graphs)
    with_root += count_nodes(g.prepare.graph, ir::OpKind::kSqrt) == 1;
  EXPECT_GE(with_root, 1);
}

}  // namespace
}  // namespace tenon::search::test
