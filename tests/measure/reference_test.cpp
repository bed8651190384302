// The fast evaluation of programs against the IR's evaluator.
#include "measure/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "host_plan.h"
#include "ir/evaluate.h"

namespace tenon::measure {
namespace {

std::vector<Tensor> random_inputs(const ir::Workload& w, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Tensor> inputs;
  for (const ir::ProgramInput& in : w.program.signature.inputs) {
    Tensor t;
    t.axes = in.axes;
    std::size_t count = 1;
    for (const ir::Axis& a : in.axes) {
      t.extents.push_back(w.extents[a.dim]);
      count *= static_cast<std::size_t>(w.extents[a.dim]);
    }
    t.data.resize(count);
    for (float& x : t.data) x = ir::round_to(ir::bind(in.dtype, w.dtype), normal(random));
    inputs.push_back(std::move(t));
  }
  return inputs;
}

std::vector<const Tensor*> pointers(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> p;
  for (const Tensor& t : tensors) p.push_back(&t);
  return p;
}

ir::Program layernorm() {
  return ir::parse_program(
      test::read_file(std::string(TENON_FIXTURES) + "/layernorm_linear.program"));
}

TEST(Reference, EqualsTheEvaluator) {
  for (const ir::Program& program : {ir::catalog_program("rmsnorm_linear"), layernorm()})
    for (auto [m, k, n] : {std::array{3, 100, 7}, std::array{1, 2, 1}, std::array{19, 77, 300}}) {
      ir::Workload w = ir::make_workload(program, {{"m", m}, {"k", k}, {"n", n}}, ir::DType::kBF16);
      std::vector<Tensor> inputs = random_inputs(w, 5);
      ir::DoubleDomain exact_domain(w.attributes);
      ir::RoundedDomain rounded_domain(w.attributes, w.dtype);
      auto exact = ir::evaluate(program, w.extents, exact_domain, test::widen(inputs));
      auto rounded = ir::evaluate(program, w.extents, rounded_domain, inputs);
      auto got_exact = evaluate_exact(w, w.extents, pointers(inputs));
      auto got_rounded = evaluate_rounded(w, w.extents, pointers(inputs));
      ASSERT_EQ(got_exact.size(), 1u);
      ASSERT_EQ(got_exact[0].size(), exact[0].data.size());
      for (std::size_t i = 0; i < exact[0].data.size(); ++i)
        ASSERT_NEAR(got_exact[0][i], exact[0].data[i], 1e-12 * (1 + std::abs(exact[0].data[i])))
            << i;
      // Orders of summation differ, so a few roundings may fall the other way.
      double e = test::row_error(rounded[0].data, exact[0].data, n);
      EXPECT_LE(test::row_error(got_rounded[0], exact[0].data, n), 1.3 * e + 1e-3);
    }
}

TEST(Reference, SomeRowsEqualTheSameRowsOfAll) {
  ir::Workload w = ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                                     {{"m", 9}, {"k", 40}, {"n", 6}}, ir::DType::kF32);
  ASSERT_TRUE(rows_independent(w.program, 0));
  std::vector<Tensor> inputs = random_inputs(w, 2);
  auto all = evaluate_exact(w, w.extents, pointers(inputs));
  std::vector<std::int64_t> rows = {1, 4, 8};
  Tensor some = gather_rows(inputs[0], 0, rows);
  EXPECT_EQ(some.extents, (std::vector<std::int64_t>{3, 40}));
  ir::Extents extents = w.extents;
  extents[0] = 3;
  auto few = evaluate_exact(w, extents, {&some, &inputs[1], &inputs[2]});
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t j = 0; j < 6; ++j)
      EXPECT_EQ(few[0][r * 6 + j], all[0][static_cast<std::size_t>(rows[r]) * 6 + j]);
}

TEST(Reference, SeesWhenRowsDependOnEachOther) {
  ir::Program program = ir::parse_program(R"(
program columns
dims m, k
input x: T[m, k] activation
%s = sum(x, m)
%y = sub(x, %s)
output y: fp32 = %y
)");
  EXPECT_FALSE(rows_independent(program, 0));
  ir::Program mean = ir::parse_program(R"(
program scaled
dims m, k
input x: T[m, k] activation
%c = const(1/m)
%y = mul(x, %c)
output y: fp32 = %y
)");
  EXPECT_FALSE(rows_independent(mean, 0));
}

TEST(Reference, KeepsNaNInItsRow) {
  ir::Workload w = ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                                     {{"m", 12}, {"k", 33}, {"n", 20}}, ir::DType::kBF16);
  std::vector<Tensor> inputs = random_inputs(w, 9);
  inputs[0].data[5 * 33 + 2] = std::nanf("");
  auto y = evaluate_exact(w, w.extents, pointers(inputs));
  for (std::size_t i = 0; i < y[0].size(); ++i) EXPECT_EQ(std::isnan(y[0][i]), i / 20 == 5) << i;
}

}  // namespace
}  // namespace tenon::measure
