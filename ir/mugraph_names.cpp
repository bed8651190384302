#include "ir/mugraph_names.h"

#include <fmt/format.h>

#include <cctype>

#include "ir/error.h"

namespace tenon::ir {
namespace {

// As whole words: "tensor t" is not in "tensor t1 is never read".
bool holds(const std::string& message, const std::string& phrase) {
  auto in_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  };
  for (std::size_t at = message.find(phrase); at != std::string::npos;
       at = message.find(phrase, at + 1)) {
    const std::size_t end = at + phrase.size();
    if ((at == 0 || !in_name(message[at - 1])) && (end == message.size() || !in_name(message[end])))
      return true;
  }
  return false;
}

}  // namespace

void Places::add(std::string phrase, std::size_t offset) {
  places_.emplace_back(std::move(phrase), offset);
}

std::size_t Places::find(const std::string& message, std::size_t fallback) const {
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

void TensorTable::start(const SignatureText& text) {
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

void TensorTable::reserve(const Token& name) {
  if (ids_.count(name.string()) != 0) fail(name, "is declared twice");
  add({name.string(), TensorKind::kIntermediate, DType::kElem, {}}, false, name.offset);
  reserved_.push_back(name);
}

TensorId TensorTable::read(const Token& name) const {
  const auto found = ids_.find(name.string());
  if (found == ids_.end()) fail(name, "is not a tensor that was written before");
  if (!written_[static_cast<std::size_t>(found->second)])
    fail(name, "is read before it is written");
  return found->second;
}

TensorId TensorTable::write(const Token& name, TensorKind kind,
                            const std::optional<TensorType>& type) {
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

void TensorTable::check_reserved() const {
  for (const Token& name : reserved_) {
    if (!written_[static_cast<std::size_t>(ids_.at(name.string()))]) fail(name, "is never written");
  }
}

void TensorTable::fail(const Token& name, const std::string& what) const {
  lexer_.fail(name.offset, fmt::format("tensor {} {}", quote(name.text), what));
}

bool TensorTable::is_reserved(TensorId id) const {
  const Tensor& tensor = graph_.tensors[static_cast<std::size_t>(id)];
  return tensor.kind == TensorKind::kIntermediate && !written_[static_cast<std::size_t>(id)];
}

void TensorTable::add(Tensor tensor, bool written, std::size_t offset) {
  places_.add("tensor " + tensor.name, offset);
  ids_.emplace(tensor.name, static_cast<TensorId>(graph_.tensors.size()));
  graph_.tensors.push_back(std::move(tensor));
  written_.push_back(written);
}

std::optional<TensorType> parse_optional_type(TextLexer& lexer, const Signature& signature) {
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

}  // namespace tenon::ir
