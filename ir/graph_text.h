// What the text forms of programs and µGraphs share: signatures, axes, constants and
// operators. Internal to ir/.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ir/program.h"
#include "ir/text_lexer.h"

namespace tenon::ir {

// Bounds of what is read, far above any real program: they keep the time and memory of
// everything that follows (recursion over operands included) small for hostile text.
inline constexpr std::size_t kMaxDims = 64;
inline constexpr std::size_t kMaxInputs = 256;
inline constexpr std::size_t kMaxOutputs = 256;
inline constexpr std::size_t kMaxNodes = 4096;
inline constexpr int kMaxExponent = 64;

// ---- printing

const std::string& dim_name(const Signature& signature, DimId dim);
// "[m: grid, k]"; parts other than full are named.
std::string print_axes(const Axes& axes, const Signature& signature);
std::string_view part_name(Part part);
// "T[m, k]"
std::string print_type(DType dtype, const Axes& axes, const Signature& signature);
// "1/k", "0.5*eps/n"
std::string print_constant(const Constant& constant, const Signature& signature);

// What the text calls the values of a graph: inputs by name, nodes %0, %1, … in order.
class ValueNames {
 public:
  explicit ValueNames(const Graph& graph);
  ValueNames(const Graph& graph, std::vector<std::string> input_names);
  std::string operator()(ValueId value) const;

 private:
  std::vector<std::string> inputs_;
};

// "mul(%0, x)". `node` must not be kAccumulated.
std::string print_operation(const Node& node, const ValueNames& names, const Signature& signature);
// The lines "dims …", "attribute …" and "input …".
std::string print_signature(const Signature& signature);

// ---- parsing; all throw UserError with line and column

// Values by their name in the text, %0 or x.
class Scope {
 public:
  void define(const TextLexer& lexer, const Token& name, ValueId value);
  ValueId find(const TextLexer& lexer, const Token& name) const;
  bool contains(const Token& name) const { return values_.count(name.text) != 0; }

 private:
  std::unordered_map<std::string_view, ValueId> values_;
};

// One operator as written; its operands are looked up when it is appended.
struct Operation {
  std::size_t offset = 0;
  OpKind op = OpKind::kConst;
  std::vector<Token> operands;
  DimId dim = 0;
  DType dtype = DType::kF32;
  Axes axes;
  Constant constant;
};

DimId parse_dim(TextLexer& lexer, const Signature& signature);
DType parse_dtype(TextLexer& lexer);
Part parse_part(TextLexer& lexer);
// "[m: grid, k]"; without `tiled` no axis may name a part.
Axes parse_axes(TextLexer& lexer, const Signature& signature, bool tiled);
Constant parse_constant(TextLexer& lexer, const Signature& signature);
// x or %0.
Token parse_operand(TextLexer& lexer);
Operation parse_operation(TextLexer& lexer, const Signature& signature, bool tiled);
ValueId append(Graph& graph, const Operation& operation, const Scope& scope,
               const TextLexer& lexer);

// The signature while it is read, with where each part stands.
struct SignatureText {
  Signature signature;
  std::size_t header = 0;
  std::vector<std::size_t> dims, inputs, outputs;  // offsets, in signature order
  std::unordered_map<std::string, std::size_t> attributes;
  std::unordered_map<std::string, std::size_t> tensors;  // inputs and outputs by name
};

// "program NAME" or "mugraph NAME".
SignatureText parse_header(TextLexer& lexer, std::string_view word);
// One statement that begins with dims, attribute or input; false if it is none of them.
bool parse_signature_statement(TextLexer& lexer, SignatureText& text);
// "output y: T", with the checks of a name; axes or a value follow.
ProgramOutput parse_output_head(TextLexer& lexer, SignatureText& text);

}  // namespace tenon::ir
