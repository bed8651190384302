#include "ir/block_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/accumulator_parse.h"
#include "ir/error.h"

namespace tenon::ir {
namespace {

constexpr std::size_t kMaxAccumulators = 256;
constexpr int kMaxShift = 1 << 20;

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
    Accumulator made = parse_accumulator(lexer_, signature_, block_.graph, scope_);
    const auto slot = static_cast<std::size_t>(index);
    if (slot >= accumulators_.size()) accumulators_.resize(slot + 1);
    accumulators_[slot] = std::move(made);
    ++declared_;
    return static_cast<int>(index);
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

}  // namespace

BlockGraph parse_block(TextLexer& lexer, const MuGraph& graph, TensorTable& tensors, Places& places,
                       const std::string& kernel) {
  return BlockParser(lexer, graph.signature, graph, tensors, places, kernel).parse();
}

}  // namespace tenon::ir
