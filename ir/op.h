// Operators: the enum and the table generated from operators.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon::ir {

enum class OpKind : std::uint8_t {
#define TENON_OP(kind, name, arity, cls, commutative, cuda) kind,
#include "ir/operators.def"
#undef TENON_OP
  kAccumulated,  // a result of an accumulator; only inside block graphs, not in the table
};

enum class OpClass : std::uint8_t {
  kConstant,   // no operand, no axes
  kPointwise,  // element by element; operands broadcast by axis name
  kReduction,  // removes one axis
  kProduct,    // contracts one axis of two operands
  kShape,      // adds axes
  kRounding,   // rounds every element; the identity in exact domains
};

struct OpInfo {
  OpKind kind;
  std::string_view name;
  int arity;
  OpClass op_class;
  bool commutative;
  std::string_view cuda;
};

// The row of an operator. kAccumulated has none.
const OpInfo& info(OpKind kind);
std::optional<OpKind> op_from_name(std::string_view name);
// Is it a transcendental function, which exact domains leave uninterpreted: exp, tanh, erf,
// sigmoid, silu, gelu, gelu_tanh?
bool is_function(OpKind kind);

}  // namespace tenon::ir
