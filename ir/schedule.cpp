#include "ir/schedule.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/sha256.h"
#include "ir/text_lexer.h"

namespace tenon::ir {
namespace {

constexpr std::string_view kDependent = "dependent";

std::string print_kernel(const KernelSchedule& kernel) {
  TENON_CHECK(is_name(kernel.family) && kernel.family != kDependent, "the family is not a name");
  if (kernel.params.empty()) return kernel.family;
  std::string params;
  for (const auto& [name, value] : kernel.params) {
    TENON_CHECK(is_name(name), "the parameter is not a name");
    params += fmt::format("{}{}={}", params.empty() ? "" : ", ", name, value);
  }
  return fmt::format("{}({})", kernel.family, params);
}

KernelSchedule parse_kernel(TextLexer& lexer) {
  KernelSchedule kernel;
  kernel.family = lexer.expect(TokenKind::kName, "a family of kernels").string();
  if (!lexer.accept('(') || lexer.accept(')')) return kernel;
  do {
    const Token name = lexer.expect(TokenKind::kName, "a parameter");
    lexer.expect('=');
    const std::int64_t value = lexer.expect_integer(INT64_MIN, INT64_MAX, name.text);
    if (!kernel.params.emplace(name.string(), value).second) {
      lexer.fail(name.offset, fmt::format("parameter {} is given twice", quote(name.text)));
    }
  } while (lexer.accept(','));
  lexer.expect(')');
  return kernel;
}

}  // namespace

std::string print(const Schedule& schedule) {
  std::string text;
  for (const KernelSchedule& kernel : schedule.kernels) {
    if (!text.empty()) text += "; ";
    text += print_kernel(kernel);
  }
  if (schedule.dependent_launch) text += text.empty() ? kDependent : fmt::format(" {}", kDependent);
  return text;
}

Schedule parse_schedule(const std::string& text) {
  Schedule schedule;
  TextLexer lexer(text);
  lexer.skip_newlines();
  if (lexer.peek().kind != TokenKind::kEnd && !lexer.peek().is(kDependent)) {
    do {
      if (lexer.peek().is(kDependent)) lexer.fail_expected(lexer.peek(), "a family of kernels");
      schedule.kernels.push_back(parse_kernel(lexer));
    } while (lexer.accept(';'));
  }
  schedule.dependent_launch = lexer.accept(kDependent);
  lexer.skip_newlines();
  if (lexer.peek().kind != TokenKind::kEnd) {
    lexer.fail_expected(lexer.peek(), "';', 'dependent' or the end of the schedule");
  }
  return schedule;
}

std::string identity(const Schedule& schedule) { return sha256_hex(print(schedule)); }

}  // namespace tenon::ir
