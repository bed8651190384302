// What the pruning rules may and may not remove.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "ir/error.h"
#include "tests/search/programs.h"

namespace tenon::search::test {
namespace {

struct Case {
  const char* name;
  ir::Program program;
  int max_block_ops;
};

// Small enough for the search without its strongest rule.
std::vector<Case> small_cases() {
  return {{"unit_rows", unit_rows(), 4},
          {"scaled_linear", scaled_linear(), 3},
          {"linear", linear(), 3}};
}

Result search(const Case& c, const std::vector<std::string>& off) {
  Options options;
  options.max_kernels = 2;
  options.max_block_ops = c.max_block_ops;
  options.rules_off = off;
  return enumerate(c.program, options);
}

TEST(Rules, EachHasAnArgument) {
  for (const Rule& rule : rules()) {
    EXPECT_GT(rule.argument.size(), 80u) << rule.name;
    EXPECT_EQ(rule.argument.rfind(rule.exact ? "Exact" : "Dominance", 0), 0u) << rule.name;
  }
}

TEST(Rules, ExactRulesRemoveNothing) {
  for (const Case& c : small_cases()) {
    Result on = search(c, {});
    // The walk from stores to loads takes the other exact rules for granted: what they save is seen
    // against the forward walk.
    Result forward = search(c, {"goal"});
    ASSERT_FALSE(on.graphs.empty());
    for (const Rule& rule : rules()) {
      if (!rule.exact) continue;
      Result off = search(c, {rule.name});
      EXPECT_EQ(identities(on), identities(off)) << c.name << " without " << rule.name;
      EXPECT_GE(off.counters.enumerated, forward.counters.enumerated)
          << c.name << ", " << rule.name;
      EXPECT_EQ(off.counters.pruned.at(rule.name), 0u);
    }
  }
}

// Rules cover for each other: maps and loose ends are known to the expression rule too.
TEST(Rules, ExactRulesRemoveNothingTogether) {
  for (const Case& c : small_cases()) {
    Result on = search(c, {});
    Result off = search(c, {"maps", "expression", "ends", "bounds"});
    EXPECT_EQ(identities(on), identities(off)) << c.name;
    EXPECT_GT(off.counters.enumerated, search(c, {"goal"}).counters.enumerated);
  }
}

// On the real program too. (Without the expression rule it would run for days.)
TEST(Rules, ExactRulesRemoveNothingOfTheRealProgram) {
  Options options;
  options.max_kernels = 2;
  Result on = enumerate(rmsnorm_linear(), options);
  for (const char* rule : {"order", "equivalence", "maps", "bounds", "ends", "goal"}) {
    Options without = options;
    without.rules_off = {rule};
    EXPECT_EQ(identities(on), identities(enumerate(rmsnorm_linear(), without))) << rule;
  }
}

std::size_t kernels(const ir::MuGraph& g) { return g.kernels.size(); }

std::size_t fewest_kernels(const Result& r) {
  std::size_t fewest = 1000;
  for (const ir::MuGraph& g : r.graphs) fewest = std::min(fewest, kernels(g));
  return fewest;
}

// Tensors written between kernels: what dominance saves, beside kernels.
std::size_t intermediates(const ir::MuGraph& g) {
  return static_cast<std::size_t>(
      std::count_if(g.tensors.begin(), g.tensors.end(),
                    [](const ir::Tensor& t) { return t.kind == ir::TensorKind::kIntermediate; }));
}

// A dominance rule only drops: what it keeps was there, and of what was there a µGraph with as
// few kernels and as few intermediates remains. (Costs are compared across all µGraphs, so the
// rule "cost" would answer for the others.)
TEST(Rules, DominanceKeepsABestOne) {
  for (const ir::Program& program : {rmsnorm_linear(), scaled_linear(), rmsnorm(), two_linears()}) {
    Options options;
    options.max_kernels = 2;
    options.rules_off = {"cost"};
    Result on = enumerate(program, options);
    for (const Rule& rule : rules()) {
      if (rule.exact || rule.name == "cost") continue;
      Options without = options;
      without.rules_off.push_back(rule.name);
      Result off = enumerate(program, without);
      std::set<std::string> more = identities(off);
      for (const std::string& id : identities(on)) EXPECT_TRUE(more.count(id)) << rule.name;
      EXPECT_EQ(fewest_kernels(on), fewest_kernels(off)) << rule.name;
      for (const ir::MuGraph& g : off.graphs)
        EXPECT_TRUE(std::any_of(on.graphs.begin(), on.graphs.end(), [&](const ir::MuGraph& kept) {
          return kernels(kept) <= kernels(g) && intermediates(kept) <= intermediates(g);
        })) << rule.name;
    }
  }
}

using Parts = std::map<std::string, int>;

// Some of what a µGraph costs, counted on the µGraph itself: launches, tensors moved by their
// dims, prepared matrices, products by how they run.
Parts parts_of(const ir::MuGraph& g) {
  Parts parts;
  auto moves = [&](ir::TensorId t) {
    const ir::Tensor& tensor = g.tensors[static_cast<std::size_t>(t)];
    if (tensor.axes.size() < 2) return;
    std::string dims = "moves";
    for (const ir::Axis& axis : tensor.axes) dims += " " + std::to_string(axis.dim);
    ++parts[dims];
    if (tensor.kind == ir::TensorKind::kPrepared) ++parts["prepared"];
  };
  for (const ir::Kernel& kernel : g.kernels) {
    ++parts["launches"];
    if (const ir::LibraryMatmul* product = kernel.library()) {
      ++parts["library"];
      for (ir::TensorId t : {product->a, product->b, product->out}) moves(t);
      continue;
    }
    const ir::BlockGraph& block = *kernel.block();
    for (const ir::BlockInput& in : block.inputs) moves(in.tensor);
    for (const ir::BlockOutput& out : block.outputs) moves(out.tensor);
    int products =
        count_nodes(block.graph, ir::OpKind::kMatmul) + count_accumulators(block, "matmul");
    parts["products"] += products;
    if (products > 0) ++parts[is_split(block) ? "split" : "serial"];
    if (products > 0 && block.loop.empty()) ++parts["whole rows"];
  }
  return parts;
}

// Whatever the parts weigh, a cheapest µGraph is as cheap with the rule as without.
TEST(Rules, CostKeepsTheCheapestForEveryWeighting) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> exponent(-6, 6);
  std::size_t dropped = 0;
  for (const ir::Program& program :
       {rmsnorm_linear(), scaled_linear(), add_linear(), two_linears(), rmsnorm()}) {
    Options options;
    Result on = enumerate(program, options);
    options.rules_off = {"cost"};
    Result off = enumerate(program, options);
    EXPECT_LE(on.graphs.size(), off.graphs.size());
    std::set<std::string> more = identities(off);
    for (const std::string& id : identities(on)) EXPECT_TRUE(more.count(id));
    std::vector<Parts> kept, all;
    std::set<std::string> names;
    for (const ir::MuGraph& g : on.graphs) kept.push_back(parts_of(g));
    for (const ir::MuGraph& g : off.graphs) {
      all.push_back(parts_of(g));
      for (const auto& [name, n] : all.back()) names.insert(name);
    }
    for (int trial = 0; trial < 200; ++trial) {
      std::map<std::string, double> weight;
      for (const std::string& name : names) weight[name] = std::exp2(exponent(random));
      auto least = [&](const std::vector<Parts>& graphs) {
        double best = 1e300;
        for (const Parts& parts : graphs) {
          double sum = 0;
          for (const auto& [name, n] : parts) sum += weight[name] * n;
          best = std::min(best, sum);
        }
        return best;
      };
      EXPECT_LE(least(kept), least(all) * (1 + 1e-12)) << program.signature.program;
    }
    dropped += off.graphs.size() - on.graphs.size();
  }
  EXPECT_GT(dropped, 10u);
}

// Is `a` in no part dearer?
bool no_dearer(const Parts& a, const Parts& b) {
  return std::all_of(a.begin(), a.end(), [&](const auto& part) {
    auto other = b.find(part.first);
    return other != b.end() && part.second <= other->second;
  });
}

// Each dominance rule that has no test of its own kind, on a program in which it drops something:
// what it drops has in what stays a counterpart that is in no part dearer, so the best is kept
// whatever the parts weigh; and it brings nothing new.
TEST(Rules, WhatADominanceRuleDropsIsNoCheaperThanWhatStays) {
  struct Drop {
    std::string rule, program;
    int max_block_ops;
  };
  const std::vector<Drop> drops = {
      {"thread", "layernorm_linear", 6}, {"hoist", "layernorm_linear", 7},
      {"grid", "rmsnorm_linear", 8},     {"loop", "rmsnorm_linear", 8},
      {"cut", "layernorm_linear", 5},    {"inline", "dyt_linear", 6},
      {"fuse", "rmsnorm_linear", 8},
  };
  for (const Rule& rule : rules())
    EXPECT_TRUE(rule.exact || rule.name == "cost" || rule.name == "uniform" ||
                std::any_of(drops.begin(), drops.end(),
                            [&](const Drop& drop) { return drop.rule == rule.name; }))
        << rule.name;
  for (const Drop& drop : drops) {
    SCOPED_TRACE(drop.rule);
    const ir::Program program = ir::catalog_program(drop.program);
    Options options;
    options.max_kernels = 2;
    options.max_block_ops = drop.max_block_ops;
    options.rules_off = {"cost"};  // it would answer for the others
    const Result on = enumerate(program, options);
    options.rules_off.push_back(drop.rule);
    const Result off = enumerate(program, options);
    ASSERT_EQ(off.counters.stop_reason, "exhausted");
    const std::set<std::string> kept = identities(on), all = identities(off);
    EXPECT_LT(kept.size(), all.size()) << "it has nothing to drop";
    EXPECT_TRUE(std::includes(all.begin(), all.end(), kept.begin(), kept.end()));
    std::vector<Parts> costs;
    for (const ir::MuGraph& g : on.graphs) costs.push_back(parts_of(g));
    for (const ir::MuGraph& g : off.graphs) {
      if (kept.count(ir::identity(g))) continue;
      const Parts dropped = parts_of(g);
      EXPECT_TRUE(std::any_of(costs.begin(), costs.end(), [&](const Parts& stays) {
        return no_dearer(stays, dropped);
      })) << ir::print(g);
    }
  }
}

// Products of one X that a program treats alike are treated alike, or not told apart at all.
TEST(Rules, UniformTreatsExchangeableOutputsAlike) {
  Options options;
  options.rules_off = {"cost"};
  Result on = enumerate(two_linears(), options);
  options.rules_off.push_back("uniform");
  Result off = enumerate(two_linears(), options);
  EXPECT_LT(on.graphs.size(), off.graphs.size());
  auto mixed = [](const ir::MuGraph& g) {
    if (g.kernels.size() != 2) return false;
    const ir::BlockGraph* a = g.kernels[0].block();
    const ir::BlockGraph* b = g.kernels[1].block();
    return !a != !b || (a && b && is_split(*a) != is_split(*b));
  };
  EXPECT_TRUE(std::none_of(on.graphs.begin(), on.graphs.end(), mixed));
  EXPECT_TRUE(std::any_of(off.graphs.begin(), off.graphs.end(), mixed));
}

// The thread level: µGraphs without the rule are the kept ones up to spelling, so that a kept
// one has the same kernels with the same accumulators, loads and stores.
TEST(Rules, ThreadMergesSpellingsOnly) {
  auto shape = [](const ir::MuGraph& g) {
    std::string text;
    for (const ir::Kernel& k : g.kernels) {
      text += "|";
      if (!k.block()) continue;
      text += std::to_string(k.block()->loop.size()) + "," +
              std::to_string(k.block()->grid.size()) + "," +
              std::to_string(k.block()->accumulators.size()) + "," +
              std::to_string(k.block()->inputs.size()) + "," +
              std::to_string(k.block()->outputs.size());
    }
    return text;
  };
  Options options;
  options.max_kernels = 2;
  std::set<std::string> kept;
  for (const ir::MuGraph& g : enumerate(rmsnorm_linear(), options).graphs) kept.insert(shape(g));
  options.rules_off = {"thread"};
  Result off = enumerate(rmsnorm_linear(), options);
  for (const ir::MuGraph& g : off.graphs) EXPECT_TRUE(kept.count(shape(g))) << ir::print(g);
}

TEST(Rules, UnknownNameIsAUserError) {
  Options options;
  options.rules_off = {"nonsense"};
  try {
    enumerate(linear(), options);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("nonsense"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("equivalence"), std::string::npos);
  }
}

}  // namespace
}  // namespace tenon::search::test
