#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/plan.h"

namespace tenon::ir {
namespace {

const std::vector<std::string> kDims = {"m", "k", "n"};

std::int64_t value(const std::string& text, std::vector<std::int64_t> extents = {3, 100, 7}) {
  return SizeExpr::parse(text, kDims).evaluate(extents.data());
}

std::string error(const std::string& text, std::vector<std::int64_t> extents = {3, 100, 7}) {
  try {
    value(text, std::move(extents));
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(SizeExpr, Evaluates) {
  EXPECT_EQ(value("0"), 0);
  EXPECT_EQ(value("m"), 3);
  EXPECT_EQ(value("m*k + n"), 307);
  EXPECT_EQ(value("m + k*n"), 703);  // * binds tighter
  EXPECT_EQ(value("(m + k)*n"), 721);
  EXPECT_EQ(value("ceildiv(k, 64)"), 2);
  EXPECT_EQ(value("ceildiv(k, 50)"), 2);
  EXPECT_EQ(value("ceildiv(0, 50)"), 0);
  EXPECT_EQ(value("min(m, n) + max(m, n)"), 10);
  EXPECT_EQ(value("ceildiv(m, 16) * ceildiv(n, 4) * 2"), 4);
  EXPECT_EQ(value("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(SizeExpr(42).evaluate(nullptr), 42);
  EXPECT_EQ(SizeExpr().evaluate(nullptr), 0);
}

TEST(SizeExpr, CeilDivOfTheLargestNumberDoesNotOverflow) {
  EXPECT_EQ(value("ceildiv(9223372036854775807, 2)"), INT64_C(4611686018427387904));
}

TEST(SizeExpr, KeepsItsTextAndComparesByIt) {
  const SizeExpr a = SizeExpr::parse("ceildiv(m, 64)", kDims);
  EXPECT_EQ(a.text(), "ceildiv(m, 64)");
  EXPECT_EQ(a, SizeExpr::parse(a.text(), kDims));
  EXPECT_EQ(SizeExpr(12).text(), "12");
  EXPECT_FALSE(a == SizeExpr(12));
}

TEST(SizeExpr, KnowsWhatItDependsOn) {
  const SizeExpr a = SizeExpr::parse("ceildiv(m, 64)*n", kDims);
  EXPECT_TRUE(a.depends_on(0));
  EXPECT_FALSE(a.depends_on(1));
  EXPECT_TRUE(a.depends_on(2));
  EXPECT_FALSE(SizeExpr(1).depends_on(1));
}

TEST(SizeExpr, RefusesMalformedText) {
  for (const char* text : {"",
                           "m +",
                           "* m",
                           "m n",
                           "(m",
                           "m)",
                           "q",
                           "ceildiv(m)",
                           "ceildiv(m, 2, 3)",
                           "log(m, 2)",
                           "m - 1",
                           "-1",
                           "1.5",
                           "1e3",
                           "m / 2",
                           "m^2",
                           "9223372036854775808",
                           "m; n",
                           "%0",
                           "\x01"}) {
    EXPECT_NE(error(text), "no error") << text;
  }
  EXPECT_EQ(error("m + q"), "size 'm + q': line 1, column 5: 'q' is not a dim; accepted: m, k, n");
  EXPECT_THROW(SizeExpr(-1), UserError);
}

TEST(SizeExpr, OverflowAndDivisionByZeroAreUserErrors) {
  EXPECT_NE(error("m*m*m", {INT64_C(1) << 31, 1, 1}).find("overflows"), std::string::npos);
  EXPECT_NE(error("9223372036854775807 + m").find("overflows"), std::string::npos);
  EXPECT_NE(error("ceildiv(m, 0)").find("divides by 0"), std::string::npos);
  EXPECT_NE(error("ceildiv(m, 0*n)").find("divides by 0"), std::string::npos);
}

TEST(SizeExpr, NestingIsBounded) {
  auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '(') + "m" +
           std::string(static_cast<std::size_t>(depth), ')');
  };
  EXPECT_EQ(value(nested(20)), 3);
  EXPECT_NE(error(nested(500)).find("nested too deeply"), std::string::npos);
  EXPECT_NE(error(std::string(100000, '(')).find("at most 1024"), std::string::npos);
  std::string right = "m";
  for (int i = 0; i < 30; ++i) right = "1 + 1*(" + right + ")";
  EXPECT_EQ(value(right), 33);
}

}  // namespace
}  // namespace tenon::ir
