// Symbolic dims, tensor axes, and constants that are expressions in dims.
//
// A dim is named by the program ("m", "k", "n") and bound to an extent by the
// workload. An axis of a value is a dim together with how the enclosing block
// graph has tiled it; operators combine axes by name, and two tilings of one dim
// never match, so that a whole row cannot be multiplied by a tile by mistake.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tenon::ir {

using DimId = std::uint8_t;                 // index into the dims of the program
using Extents = std::vector<std::int64_t>;  // one extent per dim

// How much of a dim an axis spans. Outside of block graphs every axis is kFull.
enum Part : std::uint8_t {
  kFull = 0,
  kGrid = 1,      // this block's share of the dim
  kLoop = 2,      // this loop step's share
  kGridLoop = 3,  // this loop step's share of this block's share
};

struct Axis {
  DimId dim = 0;
  Part part = kFull;
  friend bool operator==(const Axis&, const Axis&) = default;
  friend auto operator<=>(const Axis&, const Axis&) = default;
};
using Axes = std::vector<Axis>;  // order is the storage order, slowest first; dims are distinct

// Index of `dim` in `axes`, or -1.
int find_dim(const Axes& axes, DimId dim);

// An exact rational. Denominator > 0, reduced. Overflow throws UserError.
struct Rational {
  std::int64_t num = 0;
  std::int64_t den = 1;
  static Rational make(std::int64_t num, std::int64_t den);
  // Parses a decimal such as "0.5", "1e-6", "3". Throws UserError.
  static Rational parse(const std::string& text);
  double to_double() const { return static_cast<double>(num) / static_cast<double>(den); }
  friend bool operator==(const Rational&, const Rational&) = default;
  friend auto operator<=>(const Rational&, const Rational&) = default;
};
Rational operator*(const Rational& a, const Rational& b);
// The shortest exact text: "3", "0.5", "1e-6"; a fraction "1/3" where no decimal ends.
std::string to_text(const Rational& value);

// A constant: coefficient × Π dim^e × Π attribute^e, for example 1/k or eps.
// Attributes (ε …) stay symbolic until the workload binds them.
struct Constant {
  Rational coefficient{1, 1};
  std::map<DimId, int> dims;              // exponents, never 0
  std::map<std::string, int> attributes;  // exponents, never 0
  friend bool operator==(const Constant&, const Constant&) = default;
  friend auto operator<=>(const Constant&, const Constant&) = default;
};

}  // namespace tenon::ir
