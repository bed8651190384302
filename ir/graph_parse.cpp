// The parsing half of ir/graph_text.h.
#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/graph_text.h"

namespace tenon::ir {
namespace {

std::string known_operators() {
  std::string text;
#define TENON_OP(kind, name, arity, cls, commutative, cuda) \
  text += (text.empty() ? "" : ", ") + std::string(name);
#include "ir/operators.def"
#undef TENON_OP
  return text;
}

std::string known_dims(const Signature& signature) {
  return signature.dims.empty() ? "none is declared"
                                : fmt::format("{}", fmt::join(signature.dims, ", "));
}

// Multiplies `constant` by `factor`^exponent.
void multiply_number(Constant& constant, const Rational& factor, bool divide) {
  constant.coefficient =
      constant.coefficient * (divide ? Rational::make(factor.den, factor.num) : factor);
}

// Adds to an exponent; a factor whose exponent becomes 0 is gone.
template <class Map, class Key>
void add_exponent(Map& exponents, const Key& base, int exponent) {
  int& sum = exponents[base];
  sum += exponent;
  if (std::abs(sum) > kMaxExponent) {
    throw UserError(
        fmt::format("an exponent is {}; accepted: -{} to {}", sum, kMaxExponent, kMaxExponent));
  }
  if (sum == 0) exponents.erase(base);
}

void parse_factor(TextLexer& lexer, const Signature& signature, bool divide, Constant& constant) {
  const Token token = lexer.peek();
  if (token.kind == TokenKind::kNumber) {
    lexer.next();
    lexer.located(token.offset,
                  [&] { multiply_number(constant, Rational::parse(token.string()), divide); });
    return;
  }
  if (token.kind != TokenKind::kName) lexer.fail_expected(token, "a number, a dim or an attribute");
  lexer.next();
  int exponent = 1;
  if (lexer.accept('^')) {
    exponent = static_cast<int>(lexer.expect_integer(-kMaxExponent, kMaxExponent, "an exponent"));
  }
  if (divide) exponent = -exponent;
  const std::string base = token.string();
  const auto dim = std::find(signature.dims.begin(), signature.dims.end(), base);
  lexer.located(token.offset, [&] {
    if (dim != signature.dims.end()) {
      add_exponent(constant.dims, static_cast<DimId>(dim - signature.dims.begin()), exponent);
    } else if (signature.attributes.count(base) != 0) {
      add_exponent(constant.attributes, base, exponent);
    } else {
      throw UserError(fmt::format("{} is neither a dim nor an attribute", quote(base)));
    }
  });
}

// A positive rational, "1e-6" or "1/3".
Rational parse_rational(TextLexer& lexer) {
  const Token token = lexer.expect(TokenKind::kNumber, "a positive number");
  return lexer.located(token.offset, [&] {
    Constant value;
    multiply_number(value, Rational::parse(token.string()), false);
    if (lexer.accept('/')) {
      const Token below = lexer.expect(TokenKind::kNumber, "a positive number");
      multiply_number(value, Rational::parse(below.string()), true);
    }
    if (value.coefficient.num <= 0)
      throw UserError(fmt::format("{} is not positive", quote(token.text)));
    return value.coefficient;
  });
}

void parse_dims_statement(TextLexer& lexer, SignatureText& text) {
  const Token word = lexer.next();
  std::vector<std::string>& dims = text.signature.dims;
  if (!dims.empty()) lexer.fail(word.offset, "dims are declared twice; accepted: one line of dims");
  do {
    const Token name = lexer.expect(TokenKind::kName, "the name of a dim");
    if (std::find(dims.begin(), dims.end(), name.text) != dims.end()) {
      lexer.fail(name.offset, fmt::format("dim {} is declared twice", quote(name.text)));
    }
    if (text.attributes.count(name.string()) != 0) {
      lexer.fail(name.offset, fmt::format("{} is already an attribute", quote(name.text)));
    }
    if (dims.size() == kMaxDims)
      lexer.fail(name.offset, fmt::format("more than {} dims", kMaxDims));
    dims.push_back(name.string());
    text.dims.push_back(name.offset);
  } while (lexer.accept(','));
}

void parse_attribute_statement(TextLexer& lexer, SignatureText& text) {
  lexer.next();
  const Token name = lexer.expect(TokenKind::kName, "the name of an attribute");
  const std::vector<std::string>& dims = text.signature.dims;
  if (std::find(dims.begin(), dims.end(), name.text) != dims.end()) {
    lexer.fail(name.offset, fmt::format("{} is already a dim", quote(name.text)));
  }
  if (text.attributes.size() == kMaxInputs)
    lexer.fail(name.offset, fmt::format("more than {} attributes", kMaxInputs));
  lexer.expect('=');
  const Rational value = parse_rational(lexer);
  if (!text.signature.attributes.emplace(name.string(), value).second) {
    lexer.fail(name.offset, fmt::format("attribute {} is declared twice", quote(name.text)));
  }
  text.attributes.emplace(name.string(), name.offset);
}

void declare_tensor(const TextLexer& lexer, SignatureText& text, const Token& name) {
  if (!text.tensors.emplace(name.string(), name.offset).second) {
    lexer.fail(name.offset, fmt::format("{} is declared twice", quote(name.text)));
  }
}

void parse_input_statement(TextLexer& lexer, SignatureText& text) {
  lexer.next();
  const Token name = lexer.expect(TokenKind::kName, "the name of an input");
  if (text.inputs.size() == kMaxInputs)
    lexer.fail(name.offset, fmt::format("more than {} inputs", kMaxInputs));
  declare_tensor(lexer, text, name);
  ProgramInput input;
  input.name = name.string();
  lexer.expect(':');
  input.dtype = parse_dtype(lexer);
  input.axes = parse_axes(lexer, text.signature, false);
  const Token role = lexer.expect(TokenKind::kName, "'activation' or 'parameter'");
  if (role.is("parameter")) {
    input.role = Role::kParameter;
  } else if (!role.is("activation")) {
    lexer.fail_expected(role, "'activation' or 'parameter'");
  }
  text.signature.inputs.push_back(std::move(input));
  text.inputs.push_back(name.offset);
}

// The line below the value's use, in the same graph, that defines it; 0 if none does.
std::size_t line_that_defines(std::string_view text, const Token& name) {
  auto line = static_cast<std::size_t>(
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(name.offset), '\n'));
  std::size_t begin = text.find('\n', name.offset);
  for (; begin != std::string_view::npos; begin = text.find('\n', begin)) {
    ++line;
    begin = text.find_first_not_of(" \t\r", begin + 1);
    if (begin == std::string_view::npos || text[begin] == '}') return 0;
    if (text.substr(begin, name.text.size()) != name.text) continue;
    const std::size_t after = text.find_first_not_of(" \t", begin + name.text.size());
    if (after != std::string_view::npos && text[after] == '=') return line;
  }
  return 0;
}

}  // namespace

void Scope::define(const TextLexer& lexer, const Token& name, ValueId value) {
  if (!values_.emplace(name.text, value).second) {
    lexer.fail(name.offset, fmt::format("{} is defined twice", quote(name.text)));
  }
}

ValueId Scope::find(const TextLexer& lexer, const Token& name) const {
  const auto found = values_.find(name.text);
  if (found != values_.end()) return found->second;
  if (const std::size_t line = line_that_defines(lexer.text(), name))
    lexer.fail(name.offset, fmt::format("{} is used before line {} defines it; values that depend "
                                        "on one another in a cycle have no order",
                                        quote(name.text), line));
  lexer.fail(name.offset, fmt::format("{} is not defined", quote(name.text)));
}

DimId parse_dim(TextLexer& lexer, const Signature& signature) {
  const Token name = lexer.expect(TokenKind::kName, "a dim");
  const auto found = std::find(signature.dims.begin(), signature.dims.end(), name.text);
  if (found == signature.dims.end()) {
    lexer.fail(name.offset, fmt::format("{} is not a dim; accepted: {}", quote(name.text),
                                        known_dims(signature)));
  }
  return static_cast<DimId>(found - signature.dims.begin());
}

DType parse_dtype(TextLexer& lexer) {
  const Token name = lexer.expect(TokenKind::kName, "a type");
  const std::optional<DType> dtype = dtype_from_name(name.text);
  if (!dtype) {
    lexer.fail(name.offset,
               fmt::format("{} is not a type; accepted: T, fp32, bf16, fp16", quote(name.text)));
  }
  return *dtype;
}

Part parse_part(TextLexer& lexer) {
  const Token word = lexer.expect(TokenKind::kName, "grid, loop, grid+loop or full");
  if (word.is("full")) return kFull;
  if (word.is("loop")) return kLoop;
  if (!word.is("grid")) lexer.fail_expected(word, "grid, loop, grid+loop or full");
  if (!lexer.accept('+')) return kGrid;
  lexer.expect("loop");
  return kGridLoop;
}

Axes parse_axes(TextLexer& lexer, const Signature& signature, bool tiled) {
  Axes axes;
  lexer.expect('[');
  if (lexer.accept(']')) return axes;
  do {
    const Token name = lexer.peek();
    Axis axis;
    axis.dim = parse_dim(lexer, signature);
    if (find_dim(axes, axis.dim) >= 0) {
      lexer.fail(name.offset, fmt::format("dim {} stands on two axes", quote(name.text)));
    }
    if (tiled && lexer.accept(':')) axis.part = parse_part(lexer);
    axes.push_back(axis);
  } while (lexer.accept(','));
  lexer.expect(']');
  return axes;
}

Constant parse_constant(TextLexer& lexer, const Signature& signature) {
  Constant constant;
  if (lexer.accept('-')) constant.coefficient = {-1, 1};
  parse_factor(lexer, signature, false, constant);
  while (lexer.peek().is('*') || lexer.peek().is('/')) {
    const bool divide = lexer.next().is('/');
    parse_factor(lexer, signature, divide, constant);
  }
  return constant;
}

Token parse_operand(TextLexer& lexer) {
  const Token token = lexer.peek();
  if (token.kind != TokenKind::kName && token.kind != TokenKind::kValue) {
    lexer.fail_expected(token, "a value");
  }
  return lexer.next();
}

Operation parse_operation(TextLexer& lexer, const Signature& signature, bool tiled) {
  const Token name = lexer.expect(TokenKind::kName, "an operator");
  const std::optional<OpKind> op = op_from_name(name.text);
  if (!op) {
    lexer.fail(name.offset, fmt::format("{} is not an operator; accepted: {}", quote(name.text),
                                        known_operators()));
  }
  Operation operation;
  operation.offset = name.offset;
  operation.op = *op;
  const OpInfo& row = info(*op);
  lexer.expect('(');
  for (int i = 0; i < row.arity; ++i) {
    if (i > 0) lexer.expect(',');
    operation.operands.push_back(parse_operand(lexer));
  }
  if (row.arity > 0 && row.op_class != OpClass::kPointwise) lexer.expect(',');
  switch (row.op_class) {
    case OpClass::kConstant:
      operation.constant = parse_constant(lexer, signature);
      break;
    case OpClass::kReduction:
    case OpClass::kProduct:
      operation.dim = parse_dim(lexer, signature);
      break;
    case OpClass::kShape:
      operation.axes = parse_axes(lexer, signature, tiled);
      break;
    case OpClass::kRounding:
      operation.dtype = parse_dtype(lexer);
      break;
    case OpClass::kPointwise:
      break;
  }
  lexer.expect(')');
  return operation;
}

ValueId append(Graph& graph, const Operation& operation, const Scope& scope,
               const TextLexer& lexer) {
  if (graph.nodes().size() == kMaxNodes) {
    lexer.fail(operation.offset, fmt::format("more than {} operators in one graph", kMaxNodes));
  }
  Node node;
  node.op = operation.op;
  node.dim = operation.dim;
  node.dtype = operation.dtype;
  node.axes = operation.axes;
  node.constant = operation.constant;
  if (!operation.operands.empty()) node.a = scope.find(lexer, operation.operands[0]);
  if (operation.operands.size() > 1) node.b = scope.find(lexer, operation.operands[1]);
  return lexer.located(operation.offset, [&] { return graph.append(node); });
}

SignatureText parse_header(TextLexer& lexer, std::string_view word) {
  SignatureText text;
  lexer.skip_newlines();
  text.header = lexer.peek().offset;
  lexer.expect(word);
  text.signature.program = lexer.expect(TokenKind::kName, "the name of the program").string();
  lexer.expect_end_of_statement();
  return text;
}

bool parse_signature_statement(TextLexer& lexer, SignatureText& text) {
  const Token word = lexer.peek();
  if (word.is("dims")) {
    parse_dims_statement(lexer, text);
  } else if (word.is("attribute")) {
    parse_attribute_statement(lexer, text);
  } else if (word.is("input")) {
    parse_input_statement(lexer, text);
  } else {
    return false;
  }
  lexer.expect_end_of_statement();
  return true;
}

ProgramOutput parse_output_head(TextLexer& lexer, SignatureText& text) {
  lexer.expect("output");
  const Token name = lexer.expect(TokenKind::kName, "the name of an output");
  if (text.outputs.size() == kMaxOutputs)
    lexer.fail(name.offset, fmt::format("more than {} outputs", kMaxOutputs));
  declare_tensor(lexer, text, name);
  text.outputs.push_back(name.offset);
  lexer.expect(':');
  ProgramOutput output;
  output.name = name.string();
  output.dtype = parse_dtype(lexer);
  return output;
}

}  // namespace tenon::ir
