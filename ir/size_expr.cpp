#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/plan.h"
#include "ir/text_lexer.h"

namespace tenon::ir {
namespace {

constexpr std::size_t kMaxSizeText = 1024;
constexpr int kMaxNesting = 32;
constexpr std::size_t kMaxStack = 64;  // operands that wait at once while evaluating

}  // namespace

class SizeExprParser {
 public:
  SizeExprParser(std::string_view text, const std::vector<std::string>& dims)
      : lexer_(text), dims_(dims) {}

  std::vector<SizeExpr::Step> parse() {
    lexer_.skip_newlines();
    sum(0);
    lexer_.skip_newlines();
    if (lexer_.peek().kind != TokenKind::kEnd)
      lexer_.fail_expected(lexer_.peek(), "the end of the size");
    return std::move(steps_);
  }

 private:
  using Code = SizeExpr::Code;

  void push(Code code, std::int64_t value, const Token& token) {
    steps_.push_back({code, value});
    if (++waiting_ > kMaxStack) lexer_.fail(token.offset, "the size is nested too deeply");
  }
  void combine(Code code) {
    steps_.push_back({code, 0});
    --waiting_;
  }

  void sum(int nesting) {
    product(nesting);
    while (lexer_.accept('+')) {
      product(nesting);
      combine(Code::kAdd);
    }
  }

  void product(int nesting) {
    primary(nesting);
    while (lexer_.accept('*')) {
      primary(nesting);
      combine(Code::kMul);
    }
  }

  void primary(int nesting) {
    const Token token = lexer_.peek();
    if (nesting > kMaxNesting) lexer_.fail(token.offset, "the size is nested too deeply");
    if (token.kind == TokenKind::kNumber) {
      push(Code::kValue, lexer_.expect_integer(0, INT64_MAX, "a size"), token);
    } else if (lexer_.accept('(')) {
      sum(nesting + 1);
      lexer_.expect(')');
    } else {
      named(lexer_.expect(TokenKind::kName, "a number, a dim or '('"), nesting);
    }
  }

  // A call or a dim.
  void named(const Token& token, int nesting) {
    if (!lexer_.accept('(')) {
      const auto found = std::find(dims_.begin(), dims_.end(), token.text);
      if (found == dims_.end()) {
        lexer_.fail(token.offset, fmt::format("{} is not a dim; accepted: {}", quote(token.text),
                                              fmt::join(dims_, ", ")));
      }
      return push(Code::kDim, found - dims_.begin(), token);
    }
    Code code;
    if (token.text == "ceildiv") {
      code = Code::kCeilDiv;
    } else if (token.text == "min") {
      code = Code::kMin;
    } else if (token.text == "max") {
      code = Code::kMax;
    } else {
      lexer_.fail(token.offset, fmt::format("{} is not a function; accepted: ceildiv, min, max",
                                            quote(token.text)));
    }
    sum(nesting + 1);
    lexer_.expect(',');
    sum(nesting + 1);
    lexer_.expect(')');
    combine(code);
  }

  TextLexer lexer_;
  const std::vector<std::string>& dims_;
  std::vector<SizeExpr::Step> steps_;
  std::size_t waiting_ = 0;
};

SizeExpr::SizeExpr(std::int64_t value)
    : steps_{{Code::kValue, value}}, text_(std::to_string(value)) {
  if (value < 0) throw UserError("size", text_, "0 and more");
}

SizeExpr SizeExpr::parse(const std::string& text, const std::vector<std::string>& dims) {
  if (text.size() > kMaxSizeText) {
    throw UserError(fmt::format("a size has {} bytes of text; accepted: at most {}", text.size(),
                                kMaxSizeText));
  }
  SizeExpr result;
  try {
    result.steps_ = SizeExprParser(text, dims).parse();
  } catch (const UserError& error) {
    throw UserError(fmt::format("size {}: {}", quote(text), error.what()));
  }
  result.text_ = text;
  return result;
}

std::int64_t SizeExpr::evaluate(const std::int64_t* extents) const {
  std::int64_t stack[kMaxStack];
  std::size_t top = 0;
  auto overflow = [&] { throw UserError(fmt::format("size {} overflows 64 bits", quote(text_))); };
  for (const Step& step : steps_) {
    if (step.code == Code::kValue || step.code == Code::kDim) {
      stack[top++] = step.code == Code::kValue ? step.value : extents[step.value];
      continue;
    }
    const std::int64_t b = stack[--top];
    std::int64_t& a = stack[top - 1];
    switch (step.code) {
      case Code::kAdd:
        if (__builtin_add_overflow(a, b, &a)) overflow();
        break;
      case Code::kMul:
        if (__builtin_mul_overflow(a, b, &a)) overflow();
        break;
      case Code::kCeilDiv:
        if (b <= 0) throw UserError(fmt::format("size {} divides by {}", quote(text_), b));
        a = a / b + (a % b != 0 ? 1 : 0);
        break;
      case Code::kMin:
        a = std::min(a, b);
        break;
      default:
        a = std::max(a, b);
        break;
    }
  }
  return stack[0];
}

bool SizeExpr::depends_on(int dim) const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [&](const Step& s) { return s.code == Code::kDim && s.value == dim; });
}

}  // namespace tenon::ir
