// Parsing µGraphs (docs/text-form.md). Printing is in mugraph_text.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/error.h"
#include "ir/graph_text.h"
#include "ir/mugraph.h"

namespace tenon::ir {
namespace {

constexpr std::size_t kMaxKernels = 64;
constexpr std::size_t kMaxAccumulators = 256;
constexpr std::size_t kMaxStates = 64;
constexpr int kMaxShift = 1 << 20;

// Where the things stand that a check of the finished µGraph may name in its message.
class Places {
 public:
  void add(std::string phrase, std::size_t offset) {
    places_.emplace_back(std::move(phrase), offset);
  }
  // The longest phrase that `message` contains, or `fallback`.
  std::size_t find(const std::string& message, std::size_t fallback) const {
    std::size_t best = 0;
    std::size_t offset = fallback;
    for (const auto& [phrase, at] : places_) {
      if (phrase.size() > best && holds(message, phrase)) {
        best = phrase.size();
        offset = at;
      }
    }
    return offset;
  }

 private:
  // As whole words: "tensor t" is not in "tensor t1 is never read".
  static bool holds(const std::string& message, const std::string& phrase) {
    auto in_name = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
    };
    for (std::size_t at = message.find(phrase); at != std::string::npos;
         at = message.find(phrase, at + 1)) {
      const std::size_t end = at + phrase.size();
      if ((at == 0 || !in_name(message[at - 1])) &&
          (end == message.size() || !in_name(message[end])))
        return true;
    }
    return false;
  }
  std::vector<std::pair<std::string, std::size_t>> places_;
};

// Tensors while the text is read.
class TensorTable {
 public:
  TensorTable(const TextLexer& lexer, MuGraph& graph, Places& places)
      : lexer_(lexer), graph_(graph), places_(places) {}

  // Inputs, then outputs, as the signature has them.
  void start(const SignatureText& text) {
    const Signature& s = text.signature;
    for (std::size_t i = 0; i < s.inputs.size(); ++i) {
      add({s.inputs[i].name, TensorKind::kInput, s.inputs[i].dtype, s.inputs[i].axes}, true,
          text.inputs[i]);
    }
    for (std::size_t i = 0; i < s.outputs.size(); ++i) {
      add({s.outputs[i].name, TensorKind::kOutput, s.outputs[i].dtype, s.output_axes[i]}, false,
          text.outputs[i]);
    }
  }

  void reserve(const Token& name) {
    if (ids_.count(name.string()) != 0) fail(name, "is declared twice");
    add({name.string(), TensorKind::kIntermediate, DType::kElem, {}}, false, name.offset);
    reserved_.push_back(name);
  }

  // A tensor to be read.
  TensorId read(const Token& name) const {
    const auto found = ids_.find(name.string());
    if (found == ids_.end()) fail(name, "is not a tensor that was written before");
    if (!written_[static_cast<std::size_t>(found->second)])
      fail(name, "is read before it is written");
    return found->second;
  }

  // The tensor of "store NAME" or "-> NAME"; a type follows unless it is an output.
  TensorId write(const Token& name, TensorKind kind,
                 const std::optional<std::pair<DType, Axes>>& type) {
    auto found = ids_.find(name.string());
    if (!type) {
      if (found == ids_.end() ||
          graph_.tensors[static_cast<std::size_t>(found->second)].kind != TensorKind::kOutput) {
        fail(name, "is no output; declare its type, such as T[m, k]");
      }
      if (kind == TensorKind::kPrepared) fail(name, "is an output, which prepare cannot store");
    } else if (found == ids_.end()) {
      add({name.string(), kind, type->first, type->second}, false, name.offset);
      found = ids_.find(name.string());
    } else if (is_reserved(found->second)) {
      graph_.tensors[static_cast<std::size_t>(found->second)] = {name.string(), kind, type->first,
                                                                 type->second};
    } else {
      fail(name, "is declared twice");
    }
    if (kind == TensorKind::kPrepared) {
      places_.add(fmt::format("prepare stores a value with other axes in {}", name.text),
                  name.offset);
    }
    const auto index = static_cast<std::size_t>(found->second);
    if (written_[index]) fail(name, "is written twice");
    written_[index] = true;
    return found->second;
  }

  void check_reserved() const {
    for (const Token& name : reserved_) {
      if (!written_[static_cast<std::size_t>(ids_.at(name.string()))])
        fail(name, "is never written");
    }
  }

 private:
  [[noreturn]] void fail(const Token& name, const std::string& what) const {
    lexer_.fail(name.offset, fmt::format("tensor {} {}", quote(name.text), what));
  }

  bool is_reserved(TensorId id) const {
    const Tensor& tensor = graph_.tensors[static_cast<std::size_t>(id)];
    return tensor.kind == TensorKind::kIntermediate && !written_[static_cast<std::size_t>(id)];
  }

  void add(Tensor tensor, bool written, std::size_t offset) {
    places_.add("tensor " + tensor.name, offset);
    ids_.emplace(tensor.name, static_cast<TensorId>(graph_.tensors.size()));
    graph_.tensors.push_back(std::move(tensor));
    written_.push_back(written);
  }

  const TextLexer& lexer_;
  MuGraph& graph_;
  Places& places_;
  std::unordered_map<std::string, TensorId> ids_;
  std::vector<bool> written_;
  std::vector<Token> reserved_;
};

// "store NAME[: type] = %v" after the word; `value` is looked up by the caller.
struct StoreText {
  TensorId tensor = -1;
  Token value;
};

std::optional<std::pair<DType, Axes>> parse_optional_type(TextLexer& lexer,
                                                          const Signature& signature) {
  if (!lexer.accept(':')) return std::nullopt;
  const DType dtype = parse_dtype(lexer);
  return std::pair(dtype, parse_axes(lexer, signature, false));
}

StoreText parse_store(TextLexer& lexer, const Signature& signature, TensorTable& tensors,
                      TensorKind kind) {
  const Token name = lexer.expect(TokenKind::kName, "a tensor");
  const auto type = parse_optional_type(lexer, signature);
  StoreText store;
  store.tensor = tensors.write(name, kind, type);
  lexer.expect('=');
  store.value = parse_operand(lexer);
  return store;
}

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

class BlockParser {
 public:
  BlockParser(TextLexer& lexer, const Signature& signature, const MuGraph& graph,
              TensorTable& tensors, Places& places, std::string kernel)
      : lexer_(lexer),
        signature_(signature),
        graph_(graph),
        tensors_(tensors),
        places_(places),
        kernel_(std::move(kernel)) {}

  BlockGraph parse() {
    lexer_.expect('{');
    for (lexer_.skip_newlines(); !lexer_.peek().is('}'); lexer_.skip_newlines()) {
      statement();
      lexer_.expect_end_of_statement();
    }
    const Token end = lexer_.next();
    for (std::optional<Accumulator>& accumulator : accumulators_) {
      if (!accumulator)
        lexer_.fail(end.offset, "the accumulators are not numbered from 0 on without a gap");
      block_.accumulators.push_back(std::move(*accumulator));
    }
    return std::move(block_);
  }

 private:
  void statement() {
    const Token first = lexer_.next();
    if (first.kind == TokenKind::kValue) {
      value(first);
    } else if (first.is("grid")) {
      grid(first);
    } else if (first.is("loop")) {
      loop(first);
    } else if (first.is("load")) {
      load(first);
    } else if (first.is("accumulate")) {
      accumulate_statement();
    } else if (first.is("store")) {
      const StoreText store = parse_store(lexer_, signature_, tensors_, TensorKind::kIntermediate);
      places_.add(fmt::format("kernel {}: store {}", kernel_, tensor(store.tensor).name),
                  first.offset);
      block_.outputs.push_back({store.tensor, scope_.find(lexer_, store.value)});
    } else {
      lexer_.fail_expected(first, "grid, loop, load, accumulate, store, a value such as %0 or '}'");
    }
  }

  const Tensor& tensor(TensorId id) const { return graph_.tensors[static_cast<std::size_t>(id)]; }

  void check_before_values(const Token& word) const {
    if (block_.graph.value_count() > 0) {
      lexer_.fail(word.offset, fmt::format("{} must come before the first load", word.text));
    }
  }

  void grid(const Token& word) {
    check_before_values(word);
    if (!block_.grid.empty()) lexer_.fail(word.offset, "the grid is given twice");
    do {
      const Token name = lexer_.peek();
      GridDim dim;
      // "split" alone may be the name of a dim.
      if (name.is("split")) {
        lexer_.next();
        dim.split = lexer_.peek().kind == TokenKind::kName;
        dim.dim = dim.split ? parse_dim(lexer_, signature_) : dim_named(name);
      } else {
        dim.dim = parse_dim(lexer_, signature_);
      }
      const bool twice = std::any_of(block_.grid.begin(), block_.grid.end(),
                                     [&](const GridDim& other) { return other.dim == dim.dim; });
      if (twice)
        lexer_.fail(name.offset,
                    fmt::format("dim '{}' is in the grid twice", signature_.dims[dim.dim]));
      block_.grid.push_back(dim);
    } while (lexer_.accept(','));
  }

  DimId dim_named(const Token& name) const {
    const auto found = std::find(signature_.dims.begin(), signature_.dims.end(), name.text);
    if (found == signature_.dims.end())
      lexer_.fail(name.offset, fmt::format("{} is not a dim", quote(name.text)));
    return static_cast<DimId>(found - signature_.dims.begin());
  }

  void loop(const Token& word) {
    check_before_values(word);
    if (!block_.loop.empty()) lexer_.fail(word.offset, "the loop is given twice");
    do {
      const Token name = lexer_.peek();
      const DimId dim = parse_dim(lexer_, signature_);
      if (std::find(block_.loop.begin(), block_.loop.end(), dim) != block_.loop.end()) {
        lexer_.fail(name.offset, fmt::format("dim {} is looped over twice", quote(name.text)));
      }
      block_.loop.push_back(dim);
    } while (lexer_.accept(','));
  }

  void load(const Token& word) {
    if (!block_.graph.nodes().empty())
      lexer_.fail(word.offset, "loads must come before the first operator");
    if (block_.inputs.size() == kMaxInputs)
      lexer_.fail(word.offset, fmt::format("more than {} loads", kMaxInputs));
    Token name = lexer_.expect(TokenKind::kName, "a tensor");
    BlockInput input;
    input.tensor = tensors_.read(name);
    const Tensor& source = tensor(input.tensor);
    if (lexer_.accept("as")) name = lexer_.expect(TokenKind::kName, "a name");
    lexer_.expect('[');
    for (std::size_t i = 0; i < source.axes.size(); ++i) {
      if (i > 0) lexer_.expect(',');
      input.maps.push_back(axis_map(source, source.axes[i].dim));
    }
    lexer_.expect(']');
    places_.add(fmt::format("kernel {}: load {}", kernel_, source.name), word.offset);
    scope_.define(lexer_, name, block_.graph.input(source.name, tiled_axes(source, input)));
    block_.inputs.push_back(std::move(input));
  }

  AxisMap axis_map(const Tensor& source, DimId expected) {
    const Token name = lexer_.peek();
    if (parse_dim(lexer_, signature_) != expected) {
      lexer_.fail(name.offset, fmt::format("the axes of {} are {}, in this order", source.name,
                                           print_axes(source.axes, signature_)));
    }
    AxisMap map;
    if (!lexer_.accept(':')) return map;
    map.part = parse_part(lexer_);
    const Token shift = lexer_.peek();
    if (lexer_.accept("shift")) {
      if ((map.part & kGrid) == 0) lexer_.fail(shift.offset, "only a grid's share can be shifted");
      map.shift = static_cast<int>(lexer_.expect_integer(-kMaxShift, kMaxShift, "a shift"));
    }
    return map;
  }

  void value(const Token& name) {
    lexer_.expect('=');
    const Token word = lexer_.peek();
    if (lexer_.accept("accumulate")) {
      const int index = accumulator(word);
      if (accumulators_[static_cast<std::size_t>(index)]->finalize_out.size() != 1) {
        lexer_.fail(word.offset, "an accumulator with several results names them after '->'");
      }
      define_result(name, index, 0);
    } else if (lexer_.accept("result")) {
      lexer_.expect('(');
      const auto index =
          static_cast<int>(lexer_.expect_integer(0, kMaxAccumulators - 1, "an accumulator"));
      lexer_.expect(',');
      const auto result = static_cast<int>(lexer_.expect_integer(0, kMaxStates - 1, "a result"));
      lexer_.expect(')');
      if (!declared(index))
        lexer_.fail(word.offset, fmt::format("there is no accumulator {}", index));
      define_result(name, index, result);
    } else {
      const Operation operation = parse_operation(lexer_, signature_, true);
      scope_.define(lexer_, name, append(block_.graph, operation, scope_, lexer_));
    }
  }

  bool declared(int index) const {
    const auto i = static_cast<std::size_t>(index);
    return i < accumulators_.size() && accumulators_[i].has_value();
  }

  void define_result(const Token& name, int index, int result) {
    const Accumulator& source = *accumulators_[static_cast<std::size_t>(index)];
    if (result >= static_cast<int>(source.finalize_out.size())) {
      lexer_.fail(name.offset,
                  fmt::format("accumulator {} has {} results", index, source.finalize_out.size()));
    }
    if (block_.graph.nodes().size() == kMaxNodes) {
      lexer_.fail(name.offset, fmt::format("more than {} operators in one graph", kMaxNodes));
    }
    const Axes axes = result_axes(source, result);
    const ValueId value =
        lexer_.located(name.offset, [&] { return block_.graph.accumulated(index, result, axes); });
    scope_.define(lexer_, name, value);
  }

  void accumulate_statement() {
    const Token word = lexer_.peek();
    const int index = accumulator(word);
    if (lexer_.peek().kind != TokenKind::kArrow) return;
    lexer_.next();
    std::vector<Token> names;
    do names.push_back(lexer_.expect(TokenKind::kValue, "a value such as %0"));
    while (lexer_.accept(','));
    const std::size_t results = accumulators_[static_cast<std::size_t>(index)]->finalize_out.size();
    if (names.size() != results) {
      lexer_.fail(names.front().offset,
                  fmt::format("the accumulator has {} results, not {}", results, names.size()));
    }
    for (std::size_t i = 0; i < names.size(); ++i)
      define_result(names[i], index, static_cast<int>(i));
  }

  // What follows the word accumulate, up to its results; returns the accumulator's index.
  int accumulator(const Token& word) {
    std::int64_t index = declared_;
    if (lexer_.accept('[')) {
      index = lexer_.expect_integer(0, kMaxAccumulators - 1, "an accumulator's number");
      lexer_.expect(']');
    }
    if (index >= static_cast<std::int64_t>(kMaxAccumulators)) {
      lexer_.fail(word.offset, fmt::format("more than {} accumulators", kMaxAccumulators));
    }
    if (declared(static_cast<int>(index))) {
      lexer_.fail(word.offset, fmt::format("accumulator {} is declared twice", index));
    }
    Accumulator made = accumulator_body();
    const auto slot = static_cast<std::size_t>(index);
    if (slot >= accumulators_.size()) accumulators_.resize(slot + 1);
    accumulators_[slot] = std::move(made);
    ++declared_;
    return static_cast<int>(index);
  }

  Accumulator accumulator_body() {
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
      return product ? make_matmul_accumulator(block_.graph, a, b, dim)
                     : make_sum_accumulator(block_.graph, a, dim);
    });
  }

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
    for (ValueId operand : made.operands) with_operands.push_back(block_.graph.axes(operand));
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
  const MuGraph& graph_;
  TensorTable& tensors_;
  Places& places_;
  std::string kernel_;
  BlockGraph block_;
  Scope scope_;
  std::vector<std::optional<Accumulator>> accumulators_;
  std::int64_t declared_ = 0;
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
      made.body =
          BlockParser(lexer_, graph_.signature, graph_, tensors_, places_, made.name).parse();
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
