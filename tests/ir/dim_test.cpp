#include "ir/dim.h"

#include <gtest/gtest.h>

#include "ir/error.h"

namespace tenon::ir {
namespace {

TEST(Dim, FindsTheAxisOfADim) {
  const Axes axes = {{2, kFull}, {0, kGrid}};
  EXPECT_EQ(find_dim(axes, 2), 0);
  EXPECT_EQ(find_dim(axes, 0), 1);
  EXPECT_EQ(find_dim(axes, 1), -1);
  EXPECT_EQ(find_dim({}, 0), -1);
}

TEST(Rational, IsReducedWithAPositiveDenominator) {
  EXPECT_EQ(Rational::make(6, -4), (Rational{-3, 2}));
  EXPECT_EQ(Rational::make(0, -7), (Rational{0, 1}));
  EXPECT_THROW(Rational::make(1, 0), UserError);
  EXPECT_THROW(Rational::make(INT64_MIN, 1), UserError);
  EXPECT_THROW(Rational::make(1, INT64_MIN), UserError);
}

TEST(Rational, ParsesDecimalsExactly) {
  EXPECT_EQ(Rational::parse("3"), (Rational{3, 1}));
  EXPECT_EQ(Rational::parse("0.5"), (Rational{1, 2}));
  EXPECT_EQ(Rational::parse("1e-6"), (Rational{1, 1000000}));
  EXPECT_EQ(Rational::parse("-1.25E+1"), (Rational{-25, 2}));
  EXPECT_EQ(Rational::parse("2.50"), (Rational{5, 2}));
  EXPECT_EQ(Rational::parse("1e18"), (Rational{1000000000000000000, 1}));
  EXPECT_EQ(Rational::parse("1e-18"), (Rational{1, 1000000000000000000}));
  EXPECT_EQ(Rational::parse("9223372036854775807"), (Rational{INT64_MAX, 1}));
  EXPECT_EQ(Rational::parse("0e999999999999999999999"), (Rational{0, 1}));
  EXPECT_EQ(Rational::parse("000000000000000000000000.5000000000000000000000000"),
            (Rational{1, 2}));
  EXPECT_EQ(Rational::parse("1" + std::string(100000, '0') + "e-100000"), (Rational{1, 1}));
}

TEST(Rational, RefusesWhatDoesNotFitOrIsNoNumber) {
  for (const char* text :
       {"", ".", "-", "e5", "1e", "1e+", "1.2.3", "1x", " 1", "nan", "inf", "0x10", "1e19", "1e-19",
        "9223372036854775808", "1e999999999999999999999", "1e-999999999999999999999",
        "0.1234567890123456789012345678901"}) {
    EXPECT_THROW(Rational::parse(text), UserError) << text;
  }
}

TEST(Rational, ProductsReduceBeforeTheyOverflow) {
  const Rational big = Rational::make(INT64_MAX, 3);
  EXPECT_EQ(big * Rational::make(3, INT64_MAX), (Rational{1, 1}));
  EXPECT_EQ(Rational::make(-2, 3) * Rational::make(9, 4), (Rational{-3, 2}));
  EXPECT_EQ(big * Rational::make(0, 5), (Rational{0, 1}));
  EXPECT_THROW(big * big, UserError);
  EXPECT_THROW(Rational::make(1, INT64_MAX) * Rational::make(1, 2), UserError);
}

TEST(Rational, TextIsShortAndExact) {
  EXPECT_EQ(to_text({3, 1}), "3");
  EXPECT_EQ(to_text({-3, 1}), "-3");
  EXPECT_EQ(to_text({0, 1}), "0");
  EXPECT_EQ(to_text({1, 2}), "0.5");
  EXPECT_EQ(to_text({-5, 4}), "-1.25");
  EXPECT_EQ(to_text({1, 1000000}), "1e-6");
  EXPECT_EQ(to_text({3, 2000000}), "1.5e-6");
  EXPECT_EQ(to_text({1, 2000}), "0.0005");
  EXPECT_EQ(to_text({1, 20000}), "5e-5");
  EXPECT_EQ(to_text({1, 3}), "1/3");
  EXPECT_EQ(to_text({123456789, 10}), "12345678.9");
  // 2^-62 has 62 decimal places and 44 digits: the fraction is exact, the decimal does not fit.
  EXPECT_EQ(to_text({1, std::int64_t{1} << 62}), "1/4611686018427387904");
}

TEST(Rational, TextOfDecimalsParsesBack) {
  for (std::int64_t den : {1, 2, 4, 5, 8, 10, 40, 625, 1000000, 1 << 10}) {
    for (std::int64_t num : {1, 3, -7, 10, 123456789, 9999999}) {
      const Rational value = Rational::make(num, den);
      EXPECT_EQ(Rational::parse(to_text(value)), value) << num << "/" << den;
    }
  }
}

}  // namespace
}  // namespace tenon::ir
