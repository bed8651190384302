// Bounds, threads, seeds, interruption and bad input.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "ir/error.h"
#include "tests/search/programs.h"

namespace tenon::search::test {
namespace {

bool names(const std::vector<std::string>& cuts, const std::string& what) {
  return std::find(cuts.begin(), cuts.end(), what) != cuts.end();
}

TEST(Bounds, SameResultAndCountersForAnyNumberOfThreads) {
  for (const char* name : {"rmsnorm_linear", "add_rmsnorm_linear", "rmsnorm_gated_mlp_in",
                           "linear_head_layernorm", "layernorm_linear"}) {
    const ir::Program program = ir::catalog_program(name);
    Options one;
    one.threads = 1;
    Result a = enumerate(program, one);
    for (int threads : {2, 64}) {
      Options many;
      many.threads = threads;
      Result b = enumerate(program, many);
      EXPECT_EQ(a.graphs, b.graphs) << name;
      EXPECT_EQ(a.counters.enumerated, b.counters.enumerated) << name;
      EXPECT_EQ(a.counters.pruned, b.counters.pruned) << name;
      EXPECT_EQ(a.counters.cuts, b.counters.cuts) << name;
    }
  }
}

TEST(Bounds, SameResultForAnySeed) {
  Options options;
  Result a = enumerate(rmsnorm_linear(), options);
  for (std::uint64_t seed : {1u, 12345u}) {
    options.seed = seed;
    EXPECT_EQ(a.graphs, enumerate(rmsnorm_linear(), options).graphs);
  }
}

TEST(Bounds, SmallerBoundsFindASubsetAndSaySo) {
  Result all = enumerate(rmsnorm_linear(), Options{});
  std::set<std::string> every = identities(all);
  Options fewer;
  fewer.max_kernels = 1;
  Result kernels = enumerate(rmsnorm_linear(), fewer);
  EXPECT_LT(kernels.graphs.size(), all.graphs.size());
  EXPECT_FALSE(kernels.graphs.empty());
  for (const ir::MuGraph& g : kernels.graphs) EXPECT_EQ(g.kernels.size(), 1u);
  for (const std::string& id : identities(kernels)) EXPECT_TRUE(every.count(id));
  EXPECT_TRUE(names(kernels.counters.cuts, "max_kernels"));

  Options smaller;
  smaller.max_block_ops = 7;
  Result ops = enumerate(rmsnorm_linear(), smaller);
  EXPECT_TRUE(names(ops.counters.cuts, "max_block_ops"));
  EXPECT_TRUE(ops.counters.cut_off);
  for (const ir::MuGraph& g : ops.graphs)
    for (const ir::Kernel& kernel : g.kernels) {
      if (!kernel.block()) continue;
      int count = 0;
      for (const ir::Node& n : kernel.block()->graph.nodes())
        count += n.op != ir::OpKind::kConst && n.op != ir::OpKind::kCast;
      EXPECT_LE(count, 7);
    }
}

TEST(Bounds, NothingToPrepareWhenNotAllowed) {
  Options options;
  options.max_prepare_ops = 0;
  Result r = enumerate(rmsnorm_linear(), options);
  EXPECT_FALSE(r.graphs.empty());
  for (const ir::MuGraph& g : r.graphs) EXPECT_TRUE(g.prepare.outputs.empty());
  EXPECT_TRUE(names(r.counters.cuts, "max_prepare_ops"));
}

TEST(Bounds, ExpressionBoundIsReported) {
  Options options;
  options.max_expressions = 14;
  Result r = enumerate(rmsnorm_linear(), options);
  EXPECT_TRUE(names(r.counters.cuts, "max_expressions"));
  EXPECT_GE(find_unfused(r.graphs), 0);  // the program's own expressions are always there
}

TEST(Bounds, StoppedBeforeItBeganIsEmptyAndSaysSo) {
  std::stop_source source;
  source.request_stop();
  Result r = enumerate(rmsnorm_linear(), Options{}, source.get_token());
  EXPECT_EQ(r.counters.stop_reason, "interrupted");
  EXPECT_TRUE(r.counters.cut_off);
  EXPECT_EQ(r.counters.distinct, r.graphs.size());
}

// A search without its strongest rule would run for minutes; what it found by then is kept, and
// is part of what the whole search finds.
TEST(Bounds, InterruptedKeepsWhatWasFound) {
  Options options;
  options.max_block_ops = 6;
  options.max_kernels = 2;
  options.rules_off = {"expression"};
  auto begin = std::chrono::steady_clock::now();
  std::stop_source source;
  std::jthread timer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    source.request_stop();
  });
  Result r = enumerate(unit_rows(), options, source.get_token());
  EXPECT_EQ(r.counters.stop_reason, "interrupted");
  EXPECT_TRUE(names(r.counters.cuts, "interrupted"));
  EXPECT_FALSE(r.graphs.empty());
  for (const ir::MuGraph& g : r.graphs) ir::validate(g);
  // Far below what the whole would take; generous, for it is no measurement.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(Bounds, BudgetKeepsWhatWasFound) {
  Options options;
  options.max_block_ops = 6;
  options.max_kernels = 2;
  options.rules_off = {"expression"};
  options.budget_seconds = 2.5;
  Result r = enumerate(unit_rows(), options);
  EXPECT_EQ(r.counters.stop_reason, "budget");
  EXPECT_TRUE(names(r.counters.cuts, "budget"));
  EXPECT_FALSE(r.graphs.empty());
}

TEST(Bounds, BadOptionsAreUserErrors) {
  auto fails = [](Options options) { EXPECT_THROW(enumerate(linear(), options), UserError); };
  Options o;
  o.max_kernels = -1;
  fails(o);
  o = {};
  o.max_block_ops = -1;
  fails(o);
  o = {};
  o.threads = -2;
  fails(o);
  o = {};
  o.max_prepare_ops = -1;
  fails(o);
}

TEST(Bounds, OutputsWithoutAKernelOfTheirOwnAreUserErrors) {
  EXPECT_THROW(enumerate(ir::parse_program(R"(program copy
dims m
input x: T[m] activation
%c = cast(x, T)
output y: T = %c
)"),
                         Options{}),
               UserError);
  EXPECT_THROW(enumerate(ir::parse_program(R"(program twice
dims m
input x: T[m] activation
%a = square(x)
%b = mul(x, x)
output y: T = %a
output z: T = %b
)"),
                         Options{}),
               UserError);
}

}  // namespace
}  // namespace tenon::search::test
