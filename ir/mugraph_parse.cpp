// Parsing µGraphs (docs/text-form.md). Printing is in mugraph_text.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "ir/block_parse.h"
#include "ir/error.h"
#include "ir/mugraph_names.h"

namespace tenon::ir {
namespace {

constexpr std::size_t kMaxKernels = 64;

// prepare { … }. Its inputs are the parameters in the order of first use, or as `load` lists
// them; the graph is made when all of them are known.
class PrepareParser {
 public:
  PrepareParser(TextLexer& lexer, const Signature& signature, TensorTable& tensors)
      : lexer_(lexer), signature_(signature), tensors_(tensors) {}

  Prepare parse() {
    lexer_.expect('{');
    for (lexer_.skip_newlines(); !lexer_.peek().is('}'); lexer_.skip_newlines()) statement();
    lexer_.next();
    for (const Token& name : loads_) add_input(name);
    for (const auto& [name, operation] : operations_) {
      for (const Token& operand : operation.operands) use(operand);
    }
    for (const StoreText& store : stores_) use(store.value);
    for (const auto& [name, operation] : operations_) {
      scope_.define(lexer_, name, append(prepare_.graph, operation, scope_, lexer_));
    }
    for (const StoreText& store : stores_) {
      prepare_.outputs.push_back({store.tensor, scope_.find(lexer_, store.value)});
    }
    return std::move(prepare_);
  }

 private:
  void statement() {
    const Token first = lexer_.peek();
    if (first.is("load")) {
      lexer_.next();
      do loads_.push_back(lexer_.expect(TokenKind::kName, "a parameter"));
      while (lexer_.accept(','));
    } else if (first.is("store")) {
      lexer_.next();
      stores_.push_back(parse_store(lexer_, signature_, tensors_, TensorKind::kPrepared));
    } else if (first.kind == TokenKind::kValue) {
      if (operations_.size() == kMaxNodes) {
        lexer_.fail(first.offset, fmt::format("more than {} operators in one graph", kMaxNodes));
      }
      const Token name = lexer_.next();
      lexer_.expect('=');
      operations_.emplace_back(name, parse_operation(lexer_, signature_, false));
    } else {
      lexer_.fail_expected(first, "load, store, a value such as %0 or '}'");
    }
    lexer_.expect_end_of_statement();
  }

  // A name that is no value yet is a parameter.
  void use(const Token& operand) {
    if (operand.kind == TokenKind::kName && !scope_.contains(operand)) add_input(operand);
  }

  void add_input(const Token& name) {
    const auto found =
        std::find_if(signature_.inputs.begin(), signature_.inputs.end(),
                     [&](const ProgramInput& input) { return input.name == name.text; });
    if (found == signature_.inputs.end() || found->role != Role::kParameter) {
      lexer_.fail(name.offset, fmt::format("{} is not a parameter, and prepare reads nothing else",
                                           quote(name.text)));
    }
    scope_.define(lexer_, name, prepare_.graph.input(found->name, found->axes));
  }

  TextLexer& lexer_;
  const Signature& signature_;
  TensorTable& tensors_;
  Prepare prepare_;
  Scope scope_;
  std::vector<Token> loads_;
  std::vector<std::pair<Token, Operation>> operations_;
  std::vector<StoreText> stores_;
};

class MuGraphParser {
 public:
  explicit MuGraphParser(std::string_view text) : lexer_(text), tensors_(lexer_, graph_, places_) {}

  MuGraph parse() {
    text_ = parse_header(lexer_, "mugraph");
    for (lexer_.skip_newlines(); parse_signature_statement(lexer_, text_) || output();
         lexer_.skip_newlines()) {
    }
    tensors_.start(text_);
    graph_.signature = text_.signature;
    order();
    prepare();
    for (lexer_.skip_newlines(); lexer_.peek().kind != TokenKind::kEnd; lexer_.skip_newlines())
      kernel();
    tensors_.check_reserved();
    check();
    return std::move(graph_);
  }

 private:
  bool output() {
    if (!lexer_.peek().is("output")) return false;
    ProgramOutput made = parse_output_head(lexer_, text_);
    text_.signature.output_axes.push_back(parse_axes(lexer_, text_.signature, false));
    text_.signature.outputs.push_back(std::move(made));
    lexer_.expect_end_of_statement();
    return true;
  }

  void order() {
    if (!lexer_.accept("order")) return;
    do tensors_.reserve(lexer_.expect(TokenKind::kName, "a tensor"));
    while (lexer_.accept(','));
    lexer_.expect_end_of_statement();
    lexer_.skip_newlines();
  }

  void prepare() {
    const Token word = lexer_.peek();
    if (!lexer_.accept("prepare")) return;
    places_.add("prepare", word.offset);
    graph_.prepare = PrepareParser(lexer_, graph_.signature, tensors_).parse();
    lexer_.expect_end_of_statement();
  }

  void kernel() {
    const Token word = lexer_.peek();
    if (!lexer_.accept("kernel")) {
      lexer_.fail_expected(word, graph_.kernels.empty()
                                     ? "dims, attribute, input, output, prepare or kernel"
                                     : "kernel");
    }
    if (graph_.kernels.size() == kMaxKernels)
      lexer_.fail(word.offset, fmt::format("more than {} kernels", kMaxKernels));
    const Token name = lexer_.expect(TokenKind::kName, "the name of a kernel");
    for (const Kernel& other : graph_.kernels) {
      if (other.name == name.text)
        lexer_.fail(name.offset, fmt::format("kernel {} is declared twice", quote(name.text)));
    }
    places_.add("kernel " + name.string(), word.offset);
    Kernel made;
    made.name = name.string();
    if (lexer_.accept("library")) {
      made.body = library();
    } else {
      made.body = parse_block(lexer_, graph_, tensors_, places_, made.name);
    }
    lexer_.expect_end_of_statement();
    if (lexer_.peek().is('}')) lexer_.fail_expected(lexer_.peek(), "kernel");
    graph_.kernels.push_back(std::move(made));
  }

  LibraryMatmul library() {
    LibraryMatmul product;
    const Token word = lexer_.expect("matmul");
    lexer_.expect('(');
    product.a = tensors_.read(lexer_.expect(TokenKind::kName, "a tensor"));
    lexer_.expect(',');
    product.b = tensors_.read(lexer_.expect(TokenKind::kName, "a tensor"));
    lexer_.expect(',');
    product.dim = parse_dim(lexer_, graph_.signature);
    lexer_.expect(')');
    lexer_.located(word.offset, [&] { check_product(product); });
    lexer_.expect(TokenKind::kArrow, "'->'");
    const Token name = lexer_.expect(TokenKind::kName, "a tensor");
    const auto type = parse_optional_type(lexer_, graph_.signature);
    product.out = tensors_.write(name, TensorKind::kIntermediate, type);
    return product;
  }

  // That the operands can be multiplied; validate() compares the result with its tensor.
  void check_product(const LibraryMatmul& product) const {
    Graph probe;
    const ValueId a = probe.input("a", graph_.tensors[static_cast<std::size_t>(product.a)].axes);
    const ValueId b = probe.input("b", graph_.tensors[static_cast<std::size_t>(product.b)].axes);
    probe.matmul(a, b, product.dim);
  }

  void check() const {
    try {
      validate(graph_);
    } catch (const UserError& error) {
      lexer_.fail(places_.find(error.what(), text_.header), error.what());
    }
  }

  TextLexer lexer_;
  MuGraph graph_;
  Places places_;
  TensorTable tensors_;
  SignatureText text_;
};

}  // namespace

MuGraph parse_mugraph(const std::string& text) { return MuGraphParser(text).parse(); }

}  // namespace tenon::ir
