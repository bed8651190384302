#include "ir/accumulator_parse.h"

#include <fmt/format.h>

#include "ir/error.h"

namespace tenon::ir {
namespace {

// One of a custom accumulator's expressions: "update (s, x) { … yield %1 }".
struct Section {
  Graph graph;
  std::vector<ValueId> out;
};

Section parse_section(TextLexer& lexer, const Signature& signature, std::string_view word,
                      const std::vector<Axes>& inputs) {
  Section section;
  Scope scope;
  lexer.skip_newlines();
  const Token start = lexer.expect(word);
  if (!inputs.empty()) {
    lexer.expect('(');
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (i > 0 && !lexer.accept(',')) {
        lexer.fail(start.offset,
                   fmt::format("{} names {} values; accepted: {}", word, i, inputs.size()));
      }
      const Token name = lexer.expect(TokenKind::kName, "a name");
      scope.define(lexer, name, section.graph.input(name.string(), inputs[i]));
    }
    lexer.expect(')');
  }
  lexer.expect('{');
  for (lexer.skip_newlines(); !lexer.accept("yield"); lexer.skip_newlines()) {
    const Token name = lexer.expect(TokenKind::kValue, "a value such as %0, or yield");
    lexer.expect('=');
    const Operation operation = parse_operation(lexer, signature, true);
    scope.define(lexer, name, append(section.graph, operation, scope, lexer));
    lexer.expect_end_of_statement();
  }
  do section.out.push_back(scope.find(lexer, parse_operand(lexer)));
  while (lexer.accept(','));
  lexer.expect_end_of_statement();
  lexer.skip_newlines();
  lexer.expect('}');
  return section;
}

class AccumulatorParser {
 public:
  AccumulatorParser(TextLexer& lexer, const Signature& signature, const Graph& body,
                    const Scope& scope)
      : lexer_(lexer), signature_(signature), body_(body), scope_(scope) {}

  Accumulator parse() {
    const Token kind = lexer_.expect(TokenKind::kName, "sum, matmul or custom");
    if (kind.is("custom")) return custom();
    const bool product = kind.is("matmul");
    if (!product && !kind.is("sum")) lexer_.fail_expected(kind, "sum, matmul or custom");
    lexer_.expect('(');
    const ValueId a = scope_.find(lexer_, parse_operand(lexer_));
    lexer_.expect(',');
    ValueId b = kNoValue;
    if (product) {
      b = scope_.find(lexer_, parse_operand(lexer_));
      lexer_.expect(',');
    }
    const DimId dim = parse_dim(lexer_, signature_);
    lexer_.expect(')');
    return lexer_.located(kind.offset, [&] {
      return product ? make_matmul_accumulator(body_, a, b, dim)
                     : make_sum_accumulator(body_, a, dim);
    });
  }

 private:
  Accumulator custom() {
    Accumulator made;
    made.kind = "custom";
    lexer_.expect("over");
    made.dim = parse_dim(lexer_, signature_);
    lexer_.expect('(');
    do {
      if (made.operands.size() == kMaxStates) lexer_.fail_expected(lexer_.peek(), "fewer operands");
      made.operands.push_back(scope_.find(lexer_, parse_operand(lexer_)));
    } while (lexer_.accept(','));
    lexer_.expect(')');
    lexer_.expect('{');
    for (lexer_.skip_newlines(); lexer_.accept("state"); lexer_.skip_newlines()) {
      if (made.states.size() == kMaxStates) lexer_.fail_expected(lexer_.peek(), "fewer states");
      made.states.push_back(parse_axes(lexer_, signature_, true));
      lexer_.expect_end_of_statement();
    }
    if (made.states.empty()) lexer_.fail_expected(lexer_.peek(), "a state");
    sections(made);
    lexer_.skip_newlines();
    lexer_.expect('}');
    return made;
  }

  void sections(Accumulator& made) {
    auto take = [&](std::string_view word, const std::vector<Axes>& inputs, Graph& graph,
                    std::vector<ValueId>& out, bool yields_states) {
      lexer_.skip_newlines();
      const std::size_t offset = lexer_.peek().offset;
      Section section = parse_section(lexer_, signature_, word, inputs);
      if (yields_states) check_yield(word, section, made.states, offset);
      graph = std::move(section.graph);
      out = std::move(section.out);
    };
    std::vector<Axes> with_operands = made.states;
    for (ValueId operand : made.operands) with_operands.push_back(body_.axes(operand));
    std::vector<Axes> twice = made.states;
    twice.insert(twice.end(), made.states.begin(), made.states.end());
    take("init", {}, made.init, made.init_out, true);
    take("update", with_operands, made.update, made.update_out, true);
    take("merge", twice, made.merge, made.merge_out, true);
    take("final", made.states, made.finalize, made.finalize_out, false);
    if (made.finalize_out.size() > kMaxStates) lexer_.fail_expected(lexer_.peek(), "fewer results");
  }

  // init, update and merge yield the states, axis by axis.
  void check_yield(std::string_view word, const Section& section, const std::vector<Axes>& states,
                   std::size_t offset) const {
    if (section.out.size() != states.size()) {
      lexer_.fail(offset,
                  fmt::format("{} yields {} values; accepted: one for each of the {} states", word,
                              section.out.size(), states.size()));
    }
    for (std::size_t i = 0; i < states.size(); ++i) {
      const Axes& axes = section.graph.axes(section.out[i]);
      if (axes != states[i]) {
        lexer_.fail(offset, fmt::format("{} yields {} for state {}, which is {}", word,
                                        print_axes(axes, signature_), i,
                                        print_axes(states[i], signature_)));
      }
    }
  }

  TextLexer& lexer_;
  const Signature& signature_;
  const Graph& body_;
  const Scope& scope_;
};

}  // namespace

Accumulator parse_accumulator(TextLexer& lexer, const Signature& signature, const Graph& body,
                              const Scope& scope) {
  return AccumulatorParser(lexer, signature, body, scope).parse();
}

}  // namespace tenon::ir
