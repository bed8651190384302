// Every mutant that differs from the program in float64 is refuted by the random test and proved
// by neither Z3 nor induction; one that does not differ is shown to be equivalent.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <iostream>

#include "ir/domain.h"
#include "ir/error.h"
#include "ir/roots.h"
#include "tests/verifier/fixtures.h"
#include "tests/verifier/mutants.h"
#include "tests/verifier/programs.h"
#include "verifier/verifier.h"

namespace tenon::verifier {
namespace {

using testing::Mutant;

// As many mutants of each µGraph are tried, evenly over all edits, so that a run takes a minute
// or two and the total over all fixtures stays above a thousand; TENON_MUTANTS changes it.
std::size_t per_graph() {
  const char* wanted = std::getenv("TENON_MUTANTS");
  return wanted ? std::strtoull(wanted, nullptr, 10) : 40;
}

std::vector<Mutant> sample(const ir::MuGraph& graph) {
  std::vector<Mutant> all = testing::mutants(graph);
  const std::size_t wanted = per_graph();
  if (all.size() <= wanted) return all;
  std::vector<Mutant> out;
  for (std::size_t i = 0; i < wanted; ++i) out.push_back(std::move(all[i * all.size() / wanted]));
  return out;
}

// Float64 at dims and parts that no verifier uses, inputs from a generator of this test.
enum class Oracle { kEqual, kDifferent, kUndefined };
Oracle in_float64(const ir::Program& program, const ir::MuGraph& graph) {
  const std::size_t dims = program.signature.dims.size();
  std::uint64_t state = 88172645463325252ULL;
  auto uniform = [&] {  // xorshift, in (−1, 1)
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<double>(state >> 11) * 0x1p-52 - 1;
  };
  for (int round = 0; round < 3; ++round) {
    ir::Extents extents;
    ir::Partition partition;
    for (std::size_t d = 0; d < dims; ++d) {
      extents.push_back(
          4 + 3 * static_cast<std::int64_t>((d + static_cast<std::size_t>(round)) % dims) + round);
      partition.grid.push_back(2 +
                               static_cast<std::int64_t>(d + static_cast<std::size_t>(round)) % 2);
      partition.loop.push_back(3 -
                               static_cast<std::int64_t>(d + static_cast<std::size_t>(round)) % 2);
    }
    ir::AttributeValues attributes;
    for (const auto& [name, value] : program.signature.attributes)
      attributes[name] = 1.3 + uniform();
    std::vector<ir::Values<double>> inputs;
    const std::vector<bool> under_root = ir::inputs_under_roots(program);
    for (const ir::ProgramInput& in : program.signature.inputs) {
      const bool positive = under_root[inputs.size()];
      ir::Values<double> v{in.axes, {}, {}};
      for (const ir::Axis& axis : in.axes) v.extents.push_back(extents[axis.dim]);
      for (std::int64_t e = ir::element_count(in.axes, extents); e > 0; --e)
        v.data.push_back(positive ? 1.1 + uniform() : 2 * uniform());
      inputs.push_back(std::move(v));
    }
    ir::DoubleDomain domain(attributes);
    const auto expected = ir::evaluate(program, extents, domain, inputs);
    const auto actual = ir::evaluate(graph, extents, partition, domain, inputs);
    for (std::size_t o = 0; o < expected.size(); ++o) {
      double scale = 0;
      for (double y : expected[o].data) {
        if (!std::isfinite(y)) return Oracle::kUndefined;
        scale = std::max(scale, std::fabs(y));
      }
      for (std::size_t e = 0; e < expected[o].data.size(); ++e)
        if (!(std::fabs(expected[o].data[e] - actual[o].data[e]) <= 1e-6 * scale))
          return Oracle::kDifferent;
    }
  }
  return Oracle::kEqual;
}

std::string show(const ::testing::TestParamInfo<std::string>& info) {
  return std::filesystem::path(info.param).stem().string();
}

class mutation : public ::testing::TestWithParam<std::string> {};  // ctest names begin with it

TEST_P(mutation, IsRefutedAndNeverProved) {
  const ir::MuGraph original = ir::parse_mugraph(testing::read_text(GetParam()));
  const ir::Program program = testing::program_of(original);
  Z3Options options;
  options.timeout_ms = 1500;
  int different = 0, equivalent = 0, not_refuted_by_z3 = 0;
  for (const Mutant& m : sample(original)) {
    const Oracle oracle = in_float64(program, m.graph);
    ASSERT_NE(oracle, Oracle::kUndefined);
    const Evidence random = random_test(program, m.graph, {});
    const Evidence z3 = z3_check(program, m.graph, options);
    const Evidence induction = induction_check(program, m.graph, options);
    if (oracle == Oracle::kDifferent) {
      ++different;
      EXPECT_EQ(random.verdict, Verdict::kRefuted) << m.edit << "\n"
                                                   << random.reason << "\n"
                                                   << m.text;
      EXPECT_NE(z3.verdict, Verdict::kProved) << m.edit << "\n" << m.text;
      EXPECT_NE(induction.verdict, Verdict::kProved) << m.edit << "\n" << m.text;
      if (z3.verdict != Verdict::kRefuted) {
        ++not_refuted_by_z3;
        std::cout << "Z3 did not refute: " << m.edit << " [" << name(z3.verdict) << ": "
                  << z3.reason << "]\n";
      }
      continue;
    }
    ++equivalent;
    EXPECT_NE(random.verdict, Verdict::kRefuted) << m.edit << "\n"
                                                 << random.reason << "\n"
                                                 << m.text;
    EXPECT_NE(z3.verdict, Verdict::kRefuted) << m.edit << "\n"
                                             << z3.counterexample << "\n"
                                             << m.text;
    EXPECT_TRUE(z3.verdict == Verdict::kProved || induction.verdict == Verdict::kProved)
        << "looks equivalent, and is not shown to be: " << m.edit << "\n"
        << z3.reason << "\n"
        << induction.reason << "\n"
        << m.text;
    std::cout << "equivalent: " << m.edit << " [z3 " << name(z3.verdict) << ", induction "
              << name(induction.verdict) << "]\n";
  }
  std::cout << different << " differ and are refuted (Z3 gave up on " << not_refuted_by_z3 << "), "
            << equivalent << " are equivalent\n";
  EXPECT_GT(different, 0);
  EXPECT_LE(not_refuted_by_z3 * 50, different);  // the rest timed out, and was not proved
}

INSTANTIATE_TEST_SUITE_P(, mutation, ::testing::ValuesIn(testing::right_fixtures()), show);

TEST(mutation_count, IsMoreThanAThousandOverTheWholeCatalog) {
  std::set<std::string> identities, programs;
  for (const std::string& path : testing::right_fixtures())
    for (const Mutant& m : sample(ir::parse_mugraph(testing::read_text(path))))
      identities.insert(ir::identity(m.graph)), programs.insert(m.graph.signature.program);
  for (const ir::CatalogEntry& entry : ir::catalog())
    EXPECT_TRUE(programs.count(entry.name)) << entry.name;
  EXPECT_GE(identities.size(), 1000U);
  std::cout << identities.size() << " distinct mutants\n";
}

}  // namespace
}  // namespace tenon::verifier
