// The programs Tenon knows by name. A further one is an entry of kEntries: its formula,
// where it is met, and its text form.
#include <fmt/format.h>

#include "ir/error.h"
#include "ir/program.h"

namespace tenon::ir {
namespace {

struct Entry {
  const char* formula;
  const char* found_in;
  const char* text;
};

constexpr Entry kEntries[] = {
    {"Y = (X / sqrt(mean(X^2) + eps) * g) W",
     "every projection after an RMSNorm: qkv and gate+up of Llama, Qwen, SmolLM, DeepSeek",
     R"(program rmsnorm_linear
dims m, k, n
attribute eps = 1e-6
input x: T[m, k] activation
input g: T[k] parameter
input w: T[k, n] parameter
%sq = square(x)
%ss = sum(%sq, k)
%inv = const(1/k)
%ms = mul(%ss, %inv)
%eps = const(eps)
%ve = add(%ms, %eps)
%r = rsqrt(%ve)
%xr = mul(x, %r)
%xg = mul(%xr, g)
%xc = cast(%xg, T)                # rounded to the activation's type, as frameworks do
%y = matmul(%xc, w, k)
%yc = cast(%y, T)
output y: T = %yc
)"},
};

std::vector<Program> parse_entries() {
  std::vector<Program> programs;
  for (const Entry& entry : kEntries) programs.push_back(parse_program(entry.text));
  return programs;
}

const std::vector<Program>& programs() {
  static const std::vector<Program> parsed = parse_entries();
  return parsed;
}

std::vector<CatalogEntry> make_catalog() {
  std::vector<CatalogEntry> entries;
  for (std::size_t i = 0; i < programs().size(); ++i) {
    entries.push_back({programs()[i].signature.program, kEntries[i].formula, kEntries[i].found_in});
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
