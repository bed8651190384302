// The programs Tenon knows by name; their text is in ir/catalog_entries.cpp.
#include <vector>

#include "ir/catalog_entries.h"
#include "ir/error.h"
#include "ir/program.h"

namespace tenon::ir {
namespace {

std::vector<Program> parse_entries() {
  std::vector<Program> programs;
  for (const CatalogText& entry : catalog_texts()) programs.push_back(parse_program(entry.text));
  return programs;
}

const std::vector<Program>& programs() {
  static const std::vector<Program> parsed = parse_entries();
  return parsed;
}

std::vector<CatalogEntry> make_catalog() {
  std::vector<CatalogEntry> entries;
  for (std::size_t i = 0; i < programs().size(); ++i) {
    const CatalogText& text = catalog_texts()[i];
    entries.push_back({programs()[i].signature.program, text.formula, text.found_in});
  }
  return entries;
}

}  // namespace

const std::vector<CatalogEntry>& catalog() {
  static const std::vector<CatalogEntry> entries = make_catalog();
  return entries;
}

Program catalog_program(const std::string& name) {
  std::string known;
  for (const Program& program : programs()) {
    if (program.signature.program == name) return program;
    known += (known.empty() ? "" : ", ") + program.signature.program;
  }
  throw UserError("program", name, known + ", or a file in the text form");
}

}  // namespace tenon::ir
