#include "source_mutants.h"

#include <algorithm>
#include <cmath>
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

// A counter without a first value: what the compiler makes of it is its own choice.
bool is_counter_of_loop(const Rule& rule, const std::string& line, const std::smatch& m) {
  return std::string(rule.kind) == "accumulator" && m.str() == " = 0;" &&
         line.find("for (") < static_cast<std::size_t>(m.position());
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

constexpr const char* kArrow = "  ->  ";
constexpr const char* kMarker = "//@ ";  // before the name of the file that the next lines are of

// The function, or failing that the struct or namespace, whose definition began last. Signatures
// name the function on the line of its qualifiers or on the next.
class FunctionNames {
 public:
  // The function that `line` is in, lines given in order.
  const std::string& of(const std::string& line) {
    static const std::regex name(R"((\w+)\()"), scope(R"(^\s*(?:struct|namespace) (\w+))");
    if (line.find("__device__") != std::string::npos ||
        line.find("__global__") != std::string::npos)
      wanted_ = true;
    std::smatch m;
    if (!wanted_) {
      if (std::regex_search(line, m, scope)) name_ = m[1];
      return name_;
    }
    std::string rest = line;
    for (const char* attribute : {"__align__(", "__launch_bounds__("})
      if (std::size_t at = rest.find(attribute); at != std::string::npos)
        rest.erase(at, rest.find(')', at) - at + 1);
    if (std::regex_search(rest, m, name)) {
      name_ = m[1];
      wanted_ = false;
    }
    return name_;
  }

 private:
  std::string name_ = "-";
  bool wanted_ = false;
};

void include(const std::string& name_of_text, const std::string& text, std::set<std::string>& seen,
             std::string& out) {
  static const std::regex quoted(R"(\s*#include "(.*)\")");
  std::istringstream stream(text);
  std::smatch m;
  out += kMarker + name_of_text + "\n";
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
        include(name, codegen::kDeviceFiles[i].text, seen, out);
        out += kMarker + name_of_text + "\n";
      }
    if (!found) throw std::runtime_error("no device file " + name);
  }
}

}  // namespace

std::string flatten(const std::string& source) {
  std::set<std::string> seen;
  std::string out;
  include("kernel", source, seen, out);
  return out;
}

std::string described(const SourceMutant& mutant) {
  return (mutant.occurrence > 1 ? "[" + std::to_string(mutant.occurrence) + "] " : "") +
         mutant.edit;
}

namespace {

struct Line {
  std::size_t start;  // in the text
  std::string text, place;
  int occurrence;
};

std::vector<Line> lines_of_code(const std::string& flat) {
  std::vector<Line> out;
  std::map<std::string, int> seen;  // by place and line
  std::istringstream stream(flat);
  std::size_t start = 0;
  std::string file;
  FunctionNames names;
  for (std::string line; std::getline(stream, line); start += line.size() + 1) {
    if (line.rfind(kMarker, 0) == 0) file = line.substr(std::string(kMarker).size());
    if (!is_code(line)) continue;
    const std::string place = file + " " + names.of(line);
    out.push_back({start, line, place, ++seen[place + "\n" + trimmed(line)]});
  }
  return out;
}

std::string with_line(const std::string& flat, const Line& line, const std::string& changed) {
  return flat.substr(0, line.start) + changed + flat.substr(line.start + line.text.size());
}

}  // namespace

std::vector<SourceMutant> source_mutants(const std::string& flat) {
  static const std::vector<std::regex> patterns = [] {
    std::vector<std::regex> all;
    for (const Rule& rule : kRules) all.emplace_back(rule.pattern);
    return all;
  }();
  std::vector<SourceMutant> out;
  for (const Line& line : lines_of_code(flat))
    for (std::size_t r = 0; r < patterns.size(); ++r)
      for (std::sregex_iterator it(line.text.begin(), line.text.end(), patterns[r]), end; it != end;
           ++it) {
        const std::string to = replacement_of(kRules[r], *it);
        if (to == it->str() || is_counter_of_loop(kRules[r], line.text, *it)) continue;
        std::string changed = line.text;
        changed.replace(static_cast<std::size_t>(it->position()),
                        static_cast<std::size_t>(it->length()), to);
        out.push_back({kRules[r].kind, line.place, line.occurrence,
                       trimmed(line.text) + kArrow + trimmed(changed),
                       with_line(flat, line, changed)});
      }
  return out;
}

std::optional<SourceMutant> same_edit(const std::string& flat, const SourceMutant& mutant) {
  const std::size_t arrow = mutant.edit.find(kArrow);
  const std::string before = mutant.edit.substr(0, arrow),
                    after = mutant.edit.substr(arrow + std::string(kArrow).size());
  for (const Line& line : lines_of_code(flat)) {
    if (line.occurrence != mutant.occurrence || line.place != mutant.place ||
        trimmed(line.text) != before)
      continue;
    SourceMutant same = mutant;
    same.text = with_line(flat, line, after);
    return same;
  }
  return std::nullopt;
}

std::vector<SourceMutant> spread(const std::vector<SourceMutant>& all, std::size_t count,
                                 std::size_t start) {
  std::map<std::string, std::vector<const SourceMutant*>> by_kind;
  for (const SourceMutant& m : all) by_kind[m.kind].push_back(&m);
  std::vector<std::vector<const SourceMutant*>> kinds;
  for (auto& [kind, places] : by_kind) kinds.push_back(std::move(places));
  if (!kinds.empty())
    std::rotate(kinds.begin(), kinds.begin() + static_cast<std::ptrdiff_t>(start % kinds.size()),
                kinds.end());
  std::vector<SourceMutant> out;
  // Round q takes from each kind the place at the q-th point of a low-discrepancy sequence, which
  // `start` turns.
  const double turn = static_cast<double>(start) * 0.6180339887498949;
  std::set<const SourceMutant*> taken;
  for (std::size_t round = 0; out.size() < count && round < 4 * all.size(); ++round) {
    double point = turn, digit = 0.5;  // van der Corput 1935
    for (std::size_t bits = round + 1; bits; bits >>= 1, digit /= 2)
      point += (bits & 1) != 0 ? digit : 0;
    point -= std::floor(point);
    for (const auto& places : kinds) {
      const std::size_t at = std::min(
          places.size() - 1, static_cast<std::size_t>(point * static_cast<double>(places.size())));
      if (out.size() < count && taken.insert(places[at]).second) out.push_back(*places[at]);
    }
  }
  return out;
}

}  // namespace tenon::test
