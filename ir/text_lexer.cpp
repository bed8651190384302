#include "ir/text_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace tenon::ir {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_letter(c) || is_digit(c) || c == '.'; }
bool is_printable(char c) { return c >= ' ' && c <= '~'; }
constexpr std::string_view kPunctuation = "()[]{},:;=*/+-^";

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kNewline:
      return "the end of the line";
    case TokenKind::kEnd:
      return "the end of the text";
    default:
      return quote(token.text);
  }
}

}  // namespace

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), is_name_char);
}

std::string quote(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string out = "'";
  for (char c : text.substr(0, kShown)) out += is_printable(c) ? c : '?';
  if (text.size() > kShown) out += "…";
  return out + "'";
}

TextLexer::TextLexer(std::string_view text) : text_(text) {
  if (text.size() > kMaxTextBytes) {
    throw UserError(fmt::format("line 1, column 1: the text has {} bytes; accepted: at most {}",
                                text.size(), kMaxTextBytes));
  }
  advance();
}

void TextLexer::take(TokenKind kind, std::size_t size) {
  token_ = {kind, text_.substr(at_, size), at_};
  at_ += size;
}

void TextLexer::read_name(TokenKind kind, std::size_t prefix) {
  std::size_t size = prefix;
  while (at_ + size < text_.size() && is_name_char(text_[at_ + size])) ++size;
  if (size == prefix) fail(at_, "expected a name after '%'");
  if (size > kMaxNameBytes) {
    fail(at_, fmt::format("the name {} has {} bytes; accepted: at most {}",
                          quote(text_.substr(at_, size)), size, kMaxNameBytes));
  }
  take(kind, size);
}

void TextLexer::read_number() {
  auto digits = [&](std::size_t from) {
    while (from < text_.size() && (is_digit(text_[from]) || text_[from] == '.')) ++from;
    return from;
  };
  std::size_t end = digits(at_);
  if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
    std::size_t exponent = end + 1;
    if (exponent < text_.size() && (text_[exponent] == '-' || text_[exponent] == '+')) ++exponent;
    if (exponent < text_.size() && is_digit(text_[exponent])) end = digits(exponent);
  }
  if (end < text_.size() && is_letter(text_[end])) {
    fail(at_,
         fmt::format("{} is neither a number nor a name", quote(text_.substr(at_, end + 1 - at_))));
  }
  take(TokenKind::kNumber, end - at_);
}

void TextLexer::advance() {
  const bool fresh_line = at_ == 0 || token_.kind == TokenKind::kNewline;
  bool newline = false;
  std::size_t newline_at = 0;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '\n') {
      if (!newline) newline_at = at_;
      newline = true;
    } else if (c == '#') {
      // A comment may hold any text, but a NUL means that the file is not text.
      while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\0') ++at_;
      --at_;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      break;
    }
  }
  if (newline && !fresh_line) {
    token_ = {TokenKind::kNewline, text_.substr(newline_at, 1), newline_at};
    return;
  }
  if (at_ == text_.size()) {
    token_ = {TokenKind::kEnd, {}, at_};
    return;
  }
  const char c = text_[at_];
  if (is_letter(c)) return read_name(TokenKind::kName, 0);
  if (c == '%') return read_name(TokenKind::kValue, 1);
  if (is_digit(c)) return read_number();
  if (text_.substr(at_, 2) == "->") return take(TokenKind::kArrow, 2);
  if (kPunctuation.find(c) != std::string_view::npos) return take(TokenKind::kPunct, 1);
  if (is_printable(c)) fail(at_, fmt::format("unexpected character '{}'", c));
  fail(at_, fmt::format("unexpected byte 0x{:02x}", static_cast<unsigned char>(c)));
}

Token TextLexer::next() {
  Token taken = token_;
  advance();
  return taken;
}

bool TextLexer::accept(char punct) {
  if (!token_.is(punct)) return false;
  advance();
  return true;
}

bool TextLexer::accept(std::string_view word) {
  if (!token_.is(word)) return false;
  advance();
  return true;
}

Token TextLexer::expect(TokenKind kind, std::string_view what) {
  if (token_.kind != kind) fail_expected(token_, what);
  return next();
}

Token TextLexer::expect(char punct) {
  if (!token_.is(punct)) fail_expected(token_, fmt::format("'{}'", punct));
  return next();
}

Token TextLexer::expect(std::string_view word) {
  if (!token_.is(word)) fail_expected(token_, fmt::format("'{}'", word));
  return next();
}

std::int64_t TextLexer::expect_integer(std::int64_t low, std::int64_t high, std::string_view what) {
  const std::size_t offset = token_.offset;
  const std::string sign = accept('-') ? "-" : "";
  const Token token = expect(TokenKind::kNumber, what);
  const std::string digits = sign + token.string();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < low || value > high) {
    fail(offset, fmt::format("{} is {}; accepted: an integer from {} to {}", what, quote(digits),
                             low, high));
  }
  return value;
}

void TextLexer::skip_newlines() {
  while (token_.kind == TokenKind::kNewline) advance();
}

void TextLexer::expect_end_of_statement() {
  if (token_.kind == TokenKind::kEnd || token_.is('}')) return;
  if (token_.kind != TokenKind::kNewline) fail_expected(token_, "the end of the line");
  advance();
}

void TextLexer::fail(std::size_t offset, const std::string& message) const {
  const std::string_view before = text_.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n') + 1;  // npos + 1 == 0: the first line
  // Columns count characters: continuation bytes of UTF-8 are not ones.
  const auto column = 1 + std::count_if(before.begin() + static_cast<std::ptrdiff_t>(start),
                                        before.end(), [](char c) { return (c & 0xc0) != 0x80; });
  throw UserError(fmt::format("line {}, column {}: {}", line, column, message));
}

void TextLexer::fail_expected(const Token& found, std::string_view what) const {
  fail(found.offset, fmt::format("expected {}, found {}", what, describe(found)));
}

}  // namespace tenon::ir
