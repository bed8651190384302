// A program: what the user wants computed, free of any idea how.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tenon::ir {

enum class Role : std::uint8_t {
  kActivation,  // changes with every call
  kParameter,   // constant once weights are loaded
};

struct ProgramInput {
  std::string name;
  Role role = Role::kActivation;
  DType dtype = DType::kElem;
  Axes axes;
  friend bool operator==(const ProgramInput&, const ProgramInput&) = default;
};

struct ProgramOutput {
  std::string name;
  DType dtype = DType::kElem;
  ValueId value = kNoValue;
  friend bool operator==(const ProgramOutput&, const ProgramOutput&) = default;
};

// Everything a µGraph must agree on with its program.
struct Signature {
  std::string program;  // its name
  std::vector<std::string> dims;
  std::map<std::string, Rational> attributes;  // name -> default value; 0 < value
  std::vector<ProgramInput> inputs;
  std::vector<ProgramOutput> outputs;  // of a µGraph: `value` is kNoValue, axes below
  std::vector<Axes> output_axes;
  friend bool operator==(const Signature&, const Signature&) = default;
};

struct Program {
  Signature signature;
  Graph graph;  // its inputs are signature.inputs, in order
  friend bool operator==(const Program&, const Program&) = default;
};

// Throws UserError unless every input is used, names are distinct, there is an output …
void validate(const Program& program);

// Text form (docs/text-form.md). parse(print(p)) == p, print(parse(t)) is canonical.
// Parse errors are UserErrors that begin with "line L, column C:".
std::string print(const Program& program);
Program parse_program(const std::string& text);
// Throws the UserError "line L, column C: message" at an output of a text that parses.
[[noreturn]] void fail_at_output(const std::string& text, std::size_t output,
                                 const std::string& message);

// The catalog: names, one-line formulas, programs. find_program throws UserError.
struct CatalogEntry {
  std::string name;
  std::string formula;
  std::string found_in;  // the layer of real models where it is met
};
const std::vector<CatalogEntry>& catalog();
Program catalog_program(const std::string& name);

// SHA-256, hex, of the canonical text.
std::string identity(const Program& program);

}  // namespace tenon::ir
