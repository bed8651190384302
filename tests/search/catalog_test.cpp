// Every program of the catalog: the forms that the search must find by itself, each by name.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <map>

#include "ir/family.h"
#include "tests/search/catalog_forms.h"
#include "verifier/verifier.h"

namespace tenon::search::test {
namespace {

// Processor time of each search, all threads together: what other work the machine does is not in
// it.
std::map<std::string, double>& cpu_seconds() {
  static std::map<std::string, double> seconds;
  return seconds;
}

const Result& found(const std::string& name) {
  static std::map<std::string, Result> results;
  auto it = results.find(name);
  if (it == results.end()) {
    Options options;
    options.threads = 2;
    std::clock_t begin = std::clock();
    it = results.emplace(name, enumerate(ir::catalog_program(name), options)).first;
    cpu_seconds()[name] = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  }
  return it->second;
}

using Form = std::function<bool(const ir::MuGraph&)>;

int count(const std::string& program, const Form& form) {
  const Result& r = found(program);
  return static_cast<int>(std::count_if(r.graphs.begin(), r.graphs.end(), form));
}

Form both(const Form& a, const Form& b) {
  return [=](const ir::MuGraph& g) { return a(g) && b(g); };
}
Form folded(std::size_t matrices, const std::vector<std::string>& parameters) {
  return [=](const ir::MuGraph& g) {
    return prepared(g, 2) == static_cast<int>(matrices) &&
           std::none_of(parameters.begin(), parameters.end(),
                        [&](const std::string& p) { return any_loads(g, p); });
  };
}

// Programs with a norm of rows before their products, the parameters that fold, and how many
// matrices they fold into.
struct NormFirst {
  const char* program;
  std::vector<std::string> folds;
  std::size_t matrices;
};
const std::vector<NormFirst>& norm_first() {
  static const std::vector<NormFirst> list = {
      {"rmsnorm_linear", {"g"}, 1},
      {"layernorm_linear", {"g", "b", "c"}, 1},
      {"add_rmsnorm_linear", {"g"}, 1},
      {"rmsnorm_gated_mlp_in", {"g"}, 2},
      {"rmsnorm_gated_mlp_in_gelu", {"g"}, 2},
      {"rmsnorm_qkv", {"g"}, 3},
      {"rmsnorm_linear_bias_gelu", {"g"}, 1},
      {"gemma_rmsnorm_linear", {"g"}, 1},
  };
  return list;
}

TEST(Catalog, EveryProgramHasItsUnfusedForm) {
  for (const ir::CatalogEntry& entry : ir::catalog()) {
    int i = find_unfused(found(entry.name).graphs);
    ASSERT_GE(i, 0) << entry.name;
    EXPECT_TRUE(found(entry.name).graphs[static_cast<std::size_t>(i)].prepare.outputs.empty());
  }
}

TEST(Catalog, ParametersFoldedInPrepare) {
  for (const NormFirst& p : norm_first())
    EXPECT_GE(count(p.program, both(is_one_kernel, folded(p.matrices, p.folds))), 1) << p.program;
  // A batch norm folds whole: one product and a vector.
  EXPECT_GE(count("batchnorm_linear", both(folded(1, {"mean", "var", "g", "b", "c"}),
                                           [](const ir::MuGraph& g) {
                                             return is_one_kernel(g) && prepared(g, 1) == 1;
                                           })),
            1);
  EXPECT_GE(count("dyt_linear", both(is_one_kernel, folded(1, {"g", "b"}))), 1);
}

TEST(Catalog, ScaleDeferredToTheEpilogueAfterAStatisticsKernel) {
  for (const NormFirst& p : norm_first()) {
    if (std::string(p.program) == "add_rmsnorm_linear") continue;  // below
    EXPECT_GE(count(p.program, both(is_deferred, folded(p.matrices, p.folds))), 1) << p.program;
  }
  // The statistics kernel of a residual also stores the sum.
  EXPECT_GE(count("add_rmsnorm_linear", is_deferred), 1);
}

// LayerNorm's mean correction: s = Wᵀg and t = Wᵀb + c are prepared, one vector each.
TEST(Catalog, LayernormsMeanCorrectionIsPrepared) {
  EXPECT_GE(count("layernorm_linear",
                  both(folded(1, {"g", "b", "c"}),
                       [](const ir::MuGraph& g) { return is_deferred(g) && prepared(g, 1) == 2; })),
            1);
}

TEST(Catalog, OnePassOnline) {
  for (const NormFirst& p : norm_first()) {
    EXPECT_GE(count(p.program, both(is_one_pass, folded(p.matrices, p.folds))), 1) << p.program;
    EXPECT_GE(count(p.program, is_split_one_pass), 1) << p.program;
  }
}

TEST(Catalog, NormAsPrologue) {
  for (const NormFirst& p : norm_first())
    EXPECT_GE(count(p.program, is_norm_as_prologue), 1) << p.program;
}

TEST(Catalog, LayernormByTwoSumsAndByARunningMean) {
  for (bool split : {false, true}) {
    auto cut = [split](const ir::MuGraph& g) { return is_split_one_pass(g) == split; };
    EXPECT_GE(count("layernorm_linear", both(is_two_sums, cut)), 1) << split;
    EXPECT_GE(count("layernorm_linear", both(is_running_mean, cut)), 1) << split;
  }
}

// One pass over X feeds both products; statistics are shared, the activation is in the epilogue.
TEST(Catalog, GatedMlpIsOneKernel) {
  for (const auto& [program, activation] :
       {std::pair("rmsnorm_gated_mlp_in", ir::OpKind::kSilu),
        std::pair("rmsnorm_gated_mlp_in_gelu", ir::OpKind::kGeluTanh)})
    EXPECT_GE(count(program,
                    [act = activation](const ir::MuGraph& g) {
                      if (!is_one_pass(g)) return false;
                      const ir::BlockGraph& block = *g.kernels[0].block();
                      return count_accumulators(block, "matmul") == 2 &&
                             count_accumulators(block, "sum") == 1 && block.inputs.size() == 3 &&
                             count_nodes(block.graph, act) == 1;
                    }),
              1)
        << program;
}

TEST(Catalog, OneKernelForThreeWeights) {
  EXPECT_GE(count("rmsnorm_qkv",
                  [](const ir::MuGraph& g) {
                    if (!is_one_pass(g)) return false;
                    const ir::BlockGraph& block = *g.kernels[0].block();
                    return count_accumulators(block, "matmul") == 3 && block.outputs.size() == 3 &&
                           block.grid.size() == 4;
                  }),
            1);
}

// The residual is added in the loop and the sum is written by it.
TEST(Catalog, ResidualSumIsWrittenOnceFromTheLoop) {
  EXPECT_GE(count("add_rmsnorm_linear",
                  [](const ir::MuGraph& g) {
                    if (!is_one_pass(g) || g.kernels[0].block()->outputs.size() != 2) return false;
                    const ir::BlockGraph& block = *g.kernels[0].block();
                    std::vector<ir::Stage> stages = ir::stages(block);
                    for (ir::ValueId v = 0; v < block.graph.value_count(); ++v)
                      if (!block.graph.is_input(v) && block.graph.node(v).op == ir::OpKind::kAdd &&
                          stages[static_cast<std::size_t>(v)] == ir::Stage::kBody)
                        return true;
                    return false;
                  }),
            1);
}

// Norms after the product: the sums over heads or rows of the product are taken where it is made.
TEST(Catalog, NormAfterTheProductInOneKernel) {
  for (const char* program : {"linear_headnorm", "linear_head_layernorm", "linear_rmsnorm"})
    EXPECT_GE(count(program,
                    [](const ir::MuGraph& g) {
                      return is_one_kernel(g) && products(*g.kernels[0].block()) == 1;
                    }),
              1)
        << program;
}

TEST(Catalog, SearchesAreExhausted) {
  const char* timed = std::getenv("TENON_TIMED");  // make soak
  for (const ir::CatalogEntry& entry : ir::catalog()) {
    const Counters& c = found(entry.name).counters;
    EXPECT_EQ(c.stop_reason, "exhausted") << entry.name;
    if (timed && *timed) {
      EXPECT_LE(cpu_seconds().at(entry.name), entry.name == "rmsnorm_linear" ? 5.0 : 20.0)
          << entry.name;
    }
  }
}

// Every custom kernel has a dataflow that the lowerings know, but for sums over what a product
// makes (docs/search.md).
TEST(Catalog, AreLowerable) {
  std::map<std::string, int> reasons;
  for (const ir::CatalogEntry& entry : ir::catalog())
    for (const ir::MuGraph& g : found(entry.name).graphs)
      for (std::size_t k = 0; k < g.kernels.size(); ++k) {
        ir::KernelView view = ir::view(g, k);
        if (!view.library && !view.facts) ++reasons[view.reason + " (" + entry.name + ")"];
      }
  for (const auto& [reason, n] : reasons)
    EXPECT_TRUE(reason.find("a sum over a product's result") == 0) << reason << ": " << n;
}

// Extents and parts of each dim; of each list the first as many as the program has dims.
verifier::ScaledDims shape(const ir::Program& program, const std::vector<std::int64_t>& extents,
                           const std::vector<std::int64_t>& grid,
                           const std::vector<std::int64_t>& loop) {
  auto first = [&](const std::vector<std::int64_t>& v) {
    return std::vector<std::int64_t>(
        v.begin(), v.begin() + static_cast<std::ptrdiff_t>(program.signature.dims.size()));
  };
  return {first(extents), {first(grid), first(loop)}};
}

// At two shapes and partitions that the search did not use, to the bound that what it finds is held
// to. The first is ragged in every dim; the second has dims of equal extents, parts of one element
// and loops of one step, which neither the search's samples nor the random test's own dims have.
TEST(Catalog, EveryGraphPassesTheVerifierAtTwoOtherShapes) {
  for (const ir::CatalogEntry& entry : ir::catalog()) {
    const ir::Program program = ir::catalog_program(entry.name);
    verifier::RandomOptions options;
    options.seed = 11;
    options.at = {shape(program, {3, 11, 7, 5, 9}, {2, 2, 2, 2, 2}, {2, 3, 2, 3, 2}),
                  shape(program, {2, 8, 3, 3, 8}, {2, 3, 2, 2, 3}, {1, 8, 1, 2, 3})};
    ASSERT_FALSE(found(entry.name).graphs.empty()) << entry.name;
    for (const ir::MuGraph& g : found(entry.name).graphs) {
      const verifier::Evidence e = verifier::random_test(program, g, options);
      EXPECT_EQ(e.verdict, verifier::Verdict::kPass) << entry.name << ": " << e.reason << "\n"
                                                     << ir::print(g);
    }
  }
}

}  // namespace
}  // namespace tenon::search::test
