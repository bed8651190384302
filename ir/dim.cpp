#include "ir/dim.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/error.h"

namespace tenon::ir {
namespace {

[[noreturn]] void overflow(const std::string& what) {
  throw UserError(what + " does not fit a 64-bit numerator and denominator");
}

bool multiply(std::int64_t a, std::int64_t b, std::int64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A decimal taken apart: mantissa × 10^exponent.
struct Decimal {
  bool negative = false;
  std::int64_t mantissa = 0;
  std::int64_t exponent = 0;
};

// The digits with an optional point; trailing zeros go to the exponent, so that any
// number of them costs nothing. Returns the position after them.
std::size_t read_digits(const std::string& text, std::size_t at, Decimal* decimal) {
  std::int64_t zeros = 0;  // pending zeros, not yet in the mantissa
  bool point = false;
  bool any = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (!is_digit(c)) break;
    any = true;
    if (point) --decimal->exponent;
    if (c == '0') {
      ++zeros;
      continue;
    }
    for (; zeros > 0 && decimal->mantissa != 0; --zeros) {
      if (!multiply(decimal->mantissa, 10, &decimal->mantissa)) overflow("'" + text + "'");
    }
    zeros = 0;
    if (!multiply(decimal->mantissa, 10, &decimal->mantissa) ||
        __builtin_add_overflow(decimal->mantissa, c - '0', &decimal->mantissa)) {
      overflow("'" + text + "'");
    }
  }
  if (!any) throw UserError("number", text, "a decimal such as 3, 0.5 or 1e-6");
  if (decimal->mantissa != 0) decimal->exponent += zeros;
  return at;
}

std::size_t read_exponent(const std::string& text, std::size_t at, Decimal* decimal) {
  bool negative = false;
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) negative = text[at++] == '-';
  const std::size_t start = at;
  std::int64_t value = 0;
  for (; at < text.size() && is_digit(text[at]); ++at) {
    // Beyond this every nonzero number overflows anyway.
    if (value < 1000000) value = value * 10 + (text[at] - '0');
  }
  if (at == start) throw UserError("number", text, "a decimal such as 3, 0.5 or 1e-6");
  decimal->exponent += negative ? -value : value;
  return at;
}

}  // namespace

int find_dim(const Axes& axes, DimId dim) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].dim == dim) return static_cast<int>(i);
  }
  return -1;
}

Rational Rational::make(std::int64_t num, std::int64_t den) {
  if (den == 0) throw UserError("a constant divides by zero");
  if (num == INT64_MIN || den == INT64_MIN) overflow("a constant");
  if (num == 0) return {0, 1};
  const std::int64_t divisor = std::gcd(num, den);
  num /= divisor;
  den /= divisor;
  return den < 0 ? Rational{-num, -den} : Rational{num, den};
}

Rational Rational::parse(const std::string& text) {
  Decimal decimal;
  std::size_t at = 0;
  if (at < text.size() && (text[at] == '-' || text[at] == '+'))
    decimal.negative = text[at++] == '-';
  at = read_digits(text, at, &decimal);
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    at = read_exponent(text, at + 1, &decimal);
  }
  if (at != text.size()) throw UserError("number", text, "a decimal such as 3, 0.5 or 1e-6");
  if (decimal.mantissa == 0) return {0, 1};
  // Both loops end at the 64-bit bound after a few dozen steps, whatever the exponent.
  std::int64_t num = decimal.mantissa;
  std::int64_t den = 1;
  for (; decimal.exponent > 0; --decimal.exponent) {
    if (!multiply(num, 10, &num)) overflow("'" + text + "'");
  }
  for (; decimal.exponent < 0; ++decimal.exponent) {
    const std::int64_t common = std::gcd(num, std::int64_t{10});
    num /= common;
    if (!multiply(den, 10 / common, &den)) overflow("'" + text + "'");
  }
  return make(decimal.negative ? -num : num, den);
}

Rational operator*(const Rational& a, const Rational& b) {
  // Reducing across first keeps every product that fits from overflowing on the way.
  const Rational left = Rational::make(a.num, b.den);
  const Rational right = Rational::make(b.num, a.den);
  std::int64_t num = 0;
  std::int64_t den = 0;
  if (!multiply(left.num, right.num, &num) || !multiply(left.den, right.den, &den)) {
    overflow("a product of constants");
  }
  return Rational::make(num, den);
}

std::string to_text(const Rational& value) {
  // den = 2^twos · 5^fives exactly when the decimal ends, after max(twos, fives) places.
  int twos = 0;
  int fives = 0;
  std::int64_t rest = value.den;
  for (; rest % 2 == 0; rest /= 2) ++twos;
  for (; rest % 5 == 0; rest /= 5) ++fives;
  const std::string fraction = fmt::format("{}/{}", value.num, value.den);
  if (rest != 1) return fraction;
  std::int64_t mantissa = value.num;
  for (int i = twos; i < fives; ++i) {
    if (!multiply(mantissa, 2, &mantissa)) return fraction;
  }
  for (int i = fives; i < twos; ++i) {
    if (!multiply(mantissa, 5, &mantissa)) return fraction;
  }
  if (mantissa == INT64_MIN) return fraction;
  const int places = std::max(twos, fives);
  const std::string sign = mantissa < 0 ? "-" : "";
  const std::string digits = std::to_string(mantissa < 0 ? -mantissa : mantissa);
  if (places == 0) return sign + digits;
  const int count = static_cast<int>(digits.size());
  constexpr int kPlainZeros = 3;  // 0.0005 is plain, 5e-5 is not
  if (places - count > kPlainZeros) {
    const int exponent = places - (count - 1);
    if (count == 1) return fmt::format("{}{}e-{}", sign, digits, exponent);
    return fmt::format("{}{}.{}e-{}", sign, digits[0], digits.substr(1), exponent);
  }
  if (places >= count) return fmt::format("{}0.{:0>{}}", sign, digits, places);
  const auto whole = static_cast<std::size_t>(count - places);
  return fmt::format("{}{}.{}", sign, digits.substr(0, whole), digits.substr(whole));
}

}  // namespace tenon::ir
