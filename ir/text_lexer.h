// The lexer that programs, µGraphs, schedules and size expressions share, and the one
// place that turns an offset into "line L, column C: …". Internal to ir/.
//
// Its input is untrusted: the size is bounded, bytes outside the grammar (NUL included)
// are errors, and everything is linear in the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "ir/error.h"

namespace tenon::ir {

inline constexpr std::size_t kMaxTextBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxNameBytes = 128;

// [A-Za-z_][A-Za-z0-9_.]*, at most kMaxNameBytes.
bool is_name(std::string_view text);

// `text` in quotes for an error message: cut to a readable length, odd bytes as '?'.
std::string quote(std::string_view text);

enum class TokenKind : std::uint8_t {
  kName,     // x, rmsnorm_linear
  kValue,    // %0, %xf; the text keeps its %
  kNumber,   // 3, 0.5, 1e-6
  kPunct,    // one of ( ) [ ] { } , : ; = * / + - ^
  kArrow,    // ->
  kNewline,  // the end of a line that held a token
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;   // points into the lexer's text
  std::size_t offset = 0;  // in bytes
  bool is(char punct) const { return kind == TokenKind::kPunct && text[0] == punct; }
  bool is(std::string_view word) const { return kind == TokenKind::kName && text == word; }
  std::string string() const { return std::string(text); }
};

class TextLexer {
 public:
  // `text` must outlive the lexer. Throws UserError when it is over kMaxTextBytes.
  explicit TextLexer(std::string_view text);

  std::string_view text() const { return text_; }
  const Token& peek() const { return token_; }
  Token next();
  // Consumes the token if it is `punct` or `word`.
  bool accept(char punct);
  bool accept(std::string_view word);
  // Consumes a token of that kind or fails; `what` completes "expected …".
  Token expect(TokenKind kind, std::string_view what);
  Token expect(char punct);
  Token expect(std::string_view word);
  // An integer literal with an optional minus, between the bounds.
  std::int64_t expect_integer(std::int64_t low, std::int64_t high, std::string_view what);

  void skip_newlines();
  // The end of a line, of the text, or a '}' that is left in place.
  void expect_end_of_statement();

  // Throws UserError "line L, column C: message".
  [[noreturn]] void fail(std::size_t offset, const std::string& message) const;
  [[noreturn]] void fail_expected(const Token& found, std::string_view what) const;

  // Runs `body` and gives a UserError it throws the position `offset`.
  template <class F>
  decltype(auto) located(std::size_t offset, F&& body) const {
    try {
      return std::forward<F>(body)();
    } catch (const UserError& error) {
      fail(offset, error.what());
    }
  }

 private:
  void advance();
  void read_name(TokenKind kind, std::size_t prefix);
  void read_number();
  void take(TokenKind kind, std::size_t size);

  std::string_view text_;
  std::size_t at_ = 0;
  Token token_;
};

}  // namespace tenon::ir
