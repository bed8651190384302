// The text form of programs (docs/text-form.md).
#include <fmt/format.h>

#include "ir/error.h"
#include "ir/graph_text.h"
#include "ir/program.h"
#include "ir/program_check.h"

namespace tenon::ir {
namespace {

class ProgramParser {
 public:
  explicit ProgramParser(std::string_view text) : lexer_(text) {}

  Program parse() {
    text_ = parse_header(lexer_, "program");
    for (lexer_.skip_newlines(); lexer_.peek().kind != TokenKind::kEnd; lexer_.skip_newlines())
      statement();
    program_.signature = std::move(text_.signature);
    if (const auto problem = find_problem(program_))
      lexer_.fail(offset_of(*problem), problem->message);
    return std::move(program_);
  }

  // Of a text that was parsed.
  [[noreturn]] void fail_at_output(std::size_t output, const std::string& message) const {
    lexer_.fail(text_.outputs.at(output), message);
  }

 private:
  void statement() {
    const Token first = lexer_.peek();
    if (first.is("input") && !program_.graph.nodes().empty()) {
      lexer_.fail(first.offset, "inputs must come before the first operator");
    }
    if (parse_signature_statement(lexer_, text_)) {
      if (first.is("input")) add_input();
      return;
    }
    if (first.is("output")) {
      output();
    } else if (first.kind == TokenKind::kValue) {
      value();
    } else {
      lexer_.fail_expected(first, "dims, attribute, input, output or a value such as %0");
    }
    lexer_.expect_end_of_statement();
    if (lexer_.peek().is('}')) lexer_.fail_expected(lexer_.peek(), "a statement");
  }

  void add_input() {
    const ProgramInput& input = text_.signature.inputs.back();
    const ValueId value = program_.graph.input(input.name, input.axes);
    const Token name = {TokenKind::kName,
                        lexer_.text().substr(text_.inputs.back(), input.name.size()),
                        text_.inputs.back()};
    scope_.define(lexer_, name, value);
  }

  void value() {
    const Token name = lexer_.next();
    lexer_.expect('=');
    const Operation operation = parse_operation(lexer_, text_.signature, false);
    scope_.define(lexer_, name, append(program_.graph, operation, scope_, lexer_));
    nodes_.push_back(name.offset);
  }

  void output() {
    ProgramOutput output = parse_output_head(lexer_, text_);
    lexer_.expect('=');
    output.value = scope_.find(lexer_, parse_operand(lexer_));
    text_.signature.output_axes.push_back(program_.graph.axes(output.value));
    text_.signature.outputs.push_back(std::move(output));
  }

  std::size_t offset_of(const ProgramProblem& problem) const {
    using Where = ProgramProblem::Where;
    switch (problem.where) {
      case Where::kDim:
        return text_.dims.at(problem.index);
      case Where::kInput:
        return text_.inputs.at(problem.index);
      case Where::kAttribute:
        return text_.attributes.at(problem.name);
      case Where::kOutput:
        return text_.outputs.at(problem.index);
      case Where::kNode:
        return nodes_.at(problem.index);
      default:
        return text_.header;
    }
  }

  TextLexer lexer_;
  SignatureText text_;
  Program program_;
  Scope scope_;
  std::vector<std::size_t> nodes_;  // offsets
};

}  // namespace

std::string print(const Program& program) {
  const Signature& signature = program.signature;
  const ValueNames names(program.graph);
  std::string text = fmt::format("program {}\n", signature.program) + print_signature(signature);
  const std::vector<Node>& nodes = program.graph.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    text += fmt::format("%{} = {}\n", i, print_operation(nodes[i], names, signature));
  }
  for (const ProgramOutput& output : signature.outputs) {
    text +=
        fmt::format("output {}: {} = {}\n", output.name, name(output.dtype), names(output.value));
  }
  return text;
}

Program parse_program(const std::string& text) { return ProgramParser(text).parse(); }

void fail_at_output(const std::string& text, std::size_t output, const std::string& message) {
  ProgramParser parser(text);
  parser.parse();
  parser.fail_at_output(output, message);
}

}  // namespace tenon::ir
