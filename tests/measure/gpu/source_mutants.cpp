#include "source_mutants.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

#include "codegen/embedded.h"

namespace tenon::test {

namespace {

struct Rule {
  const char* kind;
  const char* pattern;      // what is replaced, anywhere in a line of code
  const char* replacement;  // a regular expression's format string; numbers below
};

// `+1` and `-1` change the number that the pattern's second group is.
constexpr Rule kRules[] = {
    // A statement that is nothing but a barrier, a wait, a fence or an arrival.
    {"barrier", R"(^(\s*)[\w:]*(?:sync|wait|fence|arrive|commit)\w*(?:<[^;]*>)?\([^;{}]*\);)",
     "$1;"},
    {"mask", R"((\w[\w.:\[\]]*) < (\w[\w.:]*))", "$1 <= $2"},
    {"mask", R"(if \((?!constexpr)[^;{}]*<[^;{}]*\) (?=[\w{]))", "if (true) "},
    {"accumulator", R"( \+= )", " = "},
    {"accumulator", R"( = (?:\{\}|0\.0f|0\.f|0);)", ";"},
    {"accumulator", R"( = (?:\{\}|0\.0f|0\.f);)", " = {1};"},
    {"stride", R"((k\w*Stride = )(\d+))", "+1"},
    {"stride", R"((, k\w*Stride = )(\d+))", "+1"},
    {"stride", R"(( \* )(\d+)LL)", "+1"},
    {"extent", R"((kExtent\w* = )(\d+))", "-1"},
    {"extent", R"((kExtent\w* = )(\d+))", "+1"},
    {"bound", R"((for \([^;]*; [^;]* )< ([^;]*;))", "$1<= $2"},
    {"bound", R"((for \(\w+ \w+ = )0;)", "${1}1;"},
    {"off_by_one", R"(( - )1\b)", "${1}0"},
    {"off_by_one", R"(( \+ )1\b)", "${1}0"},
    {"index", R"(\+ n\))", "+ m)"},
    {"index", R"( % )", " / "},
    {"index", R"( \^ )", " | "},
    {"function", R"(rsqrtf\()", "sqrtf("},
    {"function", R"(\bmin\()", "max("},
    {"function", R"(\bmax\()", "min("},
    {"constant", R"((\w )(\d\.\d+)(?=e-\d+f|f))", "+1"},
};

bool is_code(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' ');
  if (first == std::string::npos || line[first] == '#') return false;
  const std::string head = line.substr(first, 13);
  for (const char* skipped : {"//", "template", "using ", "static_assert", "namespace", "asm"})
    if (head.rfind(std::string(skipped).substr(0, 13), 0) == 0) return false;
  return line.find("template <") == std::string::npos && line.find('"') == std::string::npos;
}

std::string replacement_of(const Rule& rule, const std::smatch& m) {
  const std::string format = rule.replacement;
  if (format == "+1" || format == "-1") {
    if (m[2].str().find('.') != std::string::npos)  // a constant, 1/32 larger
      return m[1].str() + std::to_string(std::stod(m[2]) * 1.03125);
    const long long changed = std::stoll(m[2]) + (format == "+1" ? 1 : -1);
    return m.str().replace(static_cast<std::size_t>(m.position(2) - m.position()), m[2].length(),
                           std::to_string(changed));
  }
  std::string simple = format;  // ECMAScript's format has no ${1}
  for (std::size_t at; (at = simple.find("${1}")) != std::string::npos;)
    simple.replace(at, 4, m[1].str());
  return m.format(simple);
}

std::string trimmed(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? "" : line.substr(first);
}

void include(const std::string& text, std::set<std::string>& seen, std::string& out) {
  static const std::regex quoted(R"(\s*#include "(.*)\")");
  std::istringstream stream(text);
  std::smatch m;
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind("#pragma once", 0) == 0) continue;
    if (!std::regex_match(line, m, quoted)) {
      out += line + "\n";
      continue;
    }
    const std::string name = m[1];
    if (!seen.insert(name).second) continue;
    bool found = false;
    for (std::size_t i = 0; i < codegen::kDeviceFiles_count && !found; ++i)
      if (codegen::kDeviceFiles[i].name == name) {
        found = true;
        include(codegen::kDeviceFiles[i].text, seen, out);
      }
    if (!found) throw std::runtime_error("no device file " + name);
  }
}

}  // namespace

std::string flatten(const std::string& source) {
  std::set<std::string> seen;
  std::string out;
  include(source, seen, out);
  return out;
}

std::vector<SourceMutant> source_mutants(const std::string& flat) {
  static const std::vector<std::regex> patterns = [] {
    std::vector<std::regex> all;
    for (const Rule& rule : kRules) all.emplace_back(rule.pattern);
    return all;
  }();
  std::vector<SourceMutant> out;
  std::istringstream stream(flat);
  std::size_t start = 0;
  for (std::string line; std::getline(stream, line); start += line.size() + 1) {
    if (!is_code(line)) continue;
    for (std::size_t r = 0; r < patterns.size(); ++r)
      for (std::sregex_iterator it(line.begin(), line.end(), patterns[r]), end; it != end; ++it) {
        const std::string to = replacement_of(kRules[r], *it);
        if (to == it->str()) continue;
        std::string changed = line;
        changed.replace(static_cast<std::size_t>(it->position()),
                        static_cast<std::size_t>(it->length()), to);
        out.push_back({kRules[r].kind, trimmed(line) + "  ->  " + trimmed(changed),
                       flat.substr(0, start) + changed + flat.substr(start + line.size())});
      }
  }
  return out;
}

std::vector<SourceMutant> spread(const std::vector<SourceMutant>& all, std::size_t count) {
  std::map<std::string, std::vector<const SourceMutant*>> kinds;
  for (const SourceMutant& m : all) kinds[m.kind].push_back(&m);
  std::vector<SourceMutant> out;
  // Round q takes from each kind the place at the q-th point of a low-discrepancy sequence.
  std::set<const SourceMutant*> taken;
  for (std::size_t round = 0; out.size() < count && round < all.size(); ++round) {
    double point = 0, digit = 0.5;  // van der Corput 1935
    for (std::size_t bits = round + 1; bits; bits >>= 1, digit /= 2)
      point += (bits & 1) != 0 ? digit : 0;
    for (const auto& [kind, places] : kinds) {
      const SourceMutant* m =
          places[static_cast<std::size_t>(point * static_cast<double>(places.size()))];
      if (out.size() < count && taken.insert(m).second) out.push_back(*m);
    }
  }
  return out;
}

}  // namespace tenon::test
