// Random damage to valid texts: parsing ends in UserError with a place or in an object that
// round-trips, and in nothing else. The seeds are fixed; a failure prints the text.
#include <gtest/gtest.h>

#include <random>

#include "fixtures.h"
#include "ir/error.h"
#include "ir/mugraph.h"
#include "ir/plan.h"
#include "ir/schedule.h"

namespace tenon::ir {
namespace {

// One to four edits: a byte changed, a piece cut out, doubled or moved, a word put in.
std::string damage(std::string text, std::mt19937& engine) {
  static const char* kWords[] = {"%0",     "%99",  "x",       "k",           "(",
                                 ")",      "{",    "}",       "[",           "]",
                                 "\n",     ", ",   "-",       "1e99",        "9223372036854775808",
                                 "grid",   "loop", "split ",  "accumulate ", "sum(x, k)",
                                 "yield ", "T",    "fp32",    "const(1/0)",  "\0",
                                 "\xff",   "#",    " shift 1"};
  auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(engine);
  };
  for (std::size_t edits = 1 + below(4); edits > 0 && !text.empty(); --edits) {
    const std::size_t at = below(text.size());
    const std::size_t size = std::min(text.size() - at, 1 + below(20));
    switch (below(5)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, size);
        break;
      case 2:
        text.insert(at, text.substr(at, size));
        break;
      case 3: {
        const std::string piece = text.substr(at, size);
        text.erase(at, size);
        text.insert(below(text.size() + 1), piece);
        break;
      }
      default:
        text.insert(at, kWords[below(std::size(kWords))]);
        break;
    }
  }
  return text;
}

// Returns whether the text was accepted.
template <class Parse>
bool survives(const std::string& text, bool with_place, Parse&& parse_and_check) {
  try {
    parse_and_check(text);
    return true;
  } catch (const UserError& e) {
    if (with_place) {
      EXPECT_EQ(std::string(e.what()).rfind("line ", 0), 0u) << e.what() << "\n" << text;
    }
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what() << "\n" << text;
  }
  return false;
}

TEST(TextFuzz, MuGraphs) {
  std::mt19937 engine(1);
  int accepted = 0;
  std::vector<std::string> texts = {testing::fixture("layernorm_welford.mugraph")};
  for (const char* file : testing::kRmsnormFixtures) texts.push_back(testing::fixture(file));
  for (int i = 0; i < 30000; ++i) {
    accepted += survives(
        damage(texts[static_cast<std::size_t>(i) % texts.size()], engine), true,
        [](const std::string& text) {
          const MuGraph graph = parse_mugraph(text);
          EXPECT_EQ(parse_mugraph(print(graph)), graph) << text;
          EXPECT_EQ(identity(parse_mugraph(print(canonical(graph)))), identity(graph)) << text;
        });
  }
  EXPECT_GT(accepted, 300);  // the damage is not so heavy that nothing is tested
}

TEST(TextFuzz, Programs) {
  std::mt19937 engine(2);
  int accepted = 0;
  const std::string texts[] = {print(catalog_program("rmsnorm_linear")),
                               testing::fixture("layernorm_linear.program")};
  for (int i = 0; i < 30000; ++i) {
    accepted += survives(damage(texts[i % 2], engine), true, [](const std::string& text) {
      const Program program = parse_program(text);
      EXPECT_EQ(parse_program(print(program)), program) << text;
    });
  }
  EXPECT_GT(accepted, 100);
}

TEST(TextFuzz, SchedulesAndSizes) {
  std::mt19937 engine(3);
  const std::vector<std::string> dims = {"m", "k", "n"};
  for (int i = 0; i < 20000; ++i) {
    survives(
        damage("rows(threads=256); contraction(stages=3, tile_k=64, tile_m=-64) dependent", engine),
        true, [](const std::string& text) {
          const Schedule schedule = parse_schedule(text);
          EXPECT_EQ(parse_schedule(print(schedule)), schedule) << text;
        });
    survives(damage("ceildiv(m, 64)*min(k, n + 2) + (max(m, 1)*k)", engine), false,
             [&](const std::string& text) {
               const std::int64_t extents[] = {3, 5, 7};
               const SizeExpr size = SizeExpr::parse(text, dims);
               EXPECT_EQ(SizeExpr::parse(size.text(), dims), size);
               EXPECT_GE(size.evaluate(extents), 0) << text;
             });
  }
}

}  // namespace
}  // namespace tenon::ir
