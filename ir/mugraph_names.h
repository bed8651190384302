// Tensors by name, and where things stand, while the text of a µGraph is read. Internal to ir/.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/graph_text.h"
#include "ir/mugraph.h"

namespace tenon::ir {

// Where the things stand that a check of the finished µGraph may name in its message.
class Places {
 public:
  void add(std::string phrase, std::size_t offset);
  // The offset of the longest phrase that `message` contains as whole words, or `fallback`.
  std::size_t find(const std::string& message, std::size_t fallback) const;

 private:
  std::vector<std::pair<std::string, std::size_t>> places_;
};

using TensorType = std::pair<DType, Axes>;

// The tensors of a µGraph while its text is read. Errors name the place of the token.
class TensorTable {
 public:
  TensorTable(const TextLexer& lexer, MuGraph& graph, Places& places)
      : lexer_(lexer), graph_(graph), places_(places) {}

  // Adds the inputs, then the outputs of the signature.
  void start(const SignatureText& text);
  // Adds a tensor that is to be declared later.
  void reserve(const Token& name);
  // A tensor that was written before.
  TensorId read(const Token& name) const;
  // The tensor of "store NAME" or "-> NAME": a type declares it, none means an output.
  TensorId write(const Token& name, TensorKind kind, const std::optional<TensorType>& type);
  // That every reserved tensor was declared.
  void check_reserved() const;

 private:
  [[noreturn]] void fail(const Token& name, const std::string& what) const;
  bool is_reserved(TensorId id) const;
  void add(Tensor tensor, bool written, std::size_t offset);

  const TextLexer& lexer_;
  MuGraph& graph_;
  Places& places_;
  std::unordered_map<std::string, TensorId> ids_;
  std::vector<bool> written_;
  std::vector<Token> reserved_;
};

// ": T[m, k]" or nothing.
std::optional<TensorType> parse_optional_type(TextLexer& lexer, const Signature& signature);

// "NAME[: type] = %v", what follows the word store; the value is looked up by the caller.
struct StoreText {
  TensorId tensor = -1;
  Token value;
};
StoreText parse_store(TextLexer& lexer, const Signature& signature, TensorTable& tensors,
                      TensorKind kind);

}  // namespace tenon::ir
