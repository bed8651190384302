#include "tests/verifier/mutants.h"

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

#include "ir/error.h"

namespace tenon::verifier::testing {

namespace {

using Lines = std::vector<std::string>;

Lines split_lines(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string join_lines(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> out;
  std::string item;
  int depth = 0;
  for (char c : text) {
    depth += (c == '[' || c == '(') - (c == ']' || c == ')');
    if (c == ',' && depth == 0) {
      out.push_back(item);
      item.clear();
    } else if (c != ' ' || !item.empty()) {
      item += c;
    }
  }
  if (!item.empty()) out.push_back(item);
  return out;
}

std::string join_list(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ", ") + item;
  return out;
}

// "  %3 = [accumulate ]mul(%1, %2)"
struct Statement {
  std::string indent, result, prefix, op;
  std::vector<std::string> arguments;
  std::string text() const {
    return indent + result + " = " + prefix + op + "(" + join_list(arguments) + ")";
  }
};

bool parse_statement(const std::string& line, Statement& out) {
  static const std::regex pattern(R"((\s*)(%[\w.]+) = (accumulate )?(\w+)\((.*)\)\s*)");
  std::smatch m;
  if (!std::regex_match(line, m, pattern)) return false;
  out = {m[1], m[2], m[3], m[4], split_list(m[5])};
  return true;
}

bool is_name(const std::string& argument) {
  return !argument.empty() && argument[0] != '[' && argument.find('/') == std::string::npos;
}

// The line with every whole occurrence of `from` replaced.
std::string rename(const std::string& line, const std::string& from, const std::string& to) {
  std::string out;
  auto word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '%';
  };
  for (std::size_t i = 0; i < line.size();) {
    const bool starts = i == 0 || !word(line[i - 1]);
    const std::size_t end = i + from.size();
    if (starts && line.compare(i, from.size(), from) == 0 &&
        (end == line.size() || !word(line[end]))) {
      out += to;
      i = end;
    } else {
      out += line[i++];
    }
  }
  return out;
}

class Mutator {
 public:
  explicit Mutator(const ir::MuGraph& original) : lines_(split_lines(ir::print(original))) {
    seen_.insert(ir::identity(original));
    for (const std::string& d : original.signature.dims) dims_.push_back(d);
    for (const auto& [name, value] : original.signature.attributes) attributes_.push_back(name);
    for (const ir::Tensor& t : original.tensors) tensors_.push_back(t.name);
  }

  std::vector<Mutant> run() {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      Statement s;
      if (parse_statement(lines_[i], s))
        statement(i, s);
      else
        other_line(i);
    }
    return std::move(out_);
  }

 private:
  // Keeps the edited text if it is a well-formed µGraph not seen before.
  void offer(const std::string& edit, const Lines& lines) {
    try {
      Mutant m{edit, join_lines(lines), ir::parse_mugraph(join_lines(lines))};
      ir::validate(m.graph);
      if (seen_.insert(ir::identity(m.graph)).second) out_.push_back(std::move(m));
    } catch (const UserError&) {
    }
  }

  void replace_line(std::size_t i, const std::string& line) {
    Lines lines = lines_;
    lines[i] = line;
    offer("line " + std::to_string(i + 1) + ": " + lines_[i] + " -> " + line, lines);
  }

  // Later uses of `name` in the same scope become `to`; `extra` is inserted after line `i`.
  void rename_after(std::size_t i, const std::string& name, const std::string& to,
                    const std::string& extra) {
    Lines lines(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    if (!extra.empty()) lines.push_back(extra);
    int depth = 0;
    for (std::size_t j = i + 1; j < lines_.size(); ++j) {
      const bool opens = lines_[j].find('{') != std::string::npos;
      const bool closes = lines_[j].find('}') != std::string::npos;
      lines.push_back(depth >= 0 ? rename(lines_[j], name, to) : lines_[j]);
      depth += opens - closes;
    }
    offer("line " + std::to_string(i + 1) + ": " + name + " -> " + to +
              (extra.empty() ? " (dropped)" : " (repeated)"),
          lines);
  }

  // Names that stand for values before line `i`, nearest first.
  std::vector<std::string> in_scope(std::size_t i) const {
    std::vector<std::string> names;
    int depth = 0;
    for (std::size_t j = i; j-- > 0;) {
      const std::string& line = lines_[j];
      depth += (line.find('}') != std::string::npos) - (line.find('{') != std::string::npos);
      Statement s;
      std::smatch m;
      static const std::regex load(R"(\s*load (\w+) .*)"),
          head(R"(\s*(?:update|merge|final) \((.*)\) \{)");
      if (depth < 0) {
        if (std::regex_match(line, m, head))
          for (const std::string& name : split_list(m[1])) names.push_back(name);
        break;
      }
      if (depth > 0) continue;
      if (parse_statement(line, s)) names.push_back(s.result);
      if (std::regex_match(line, m, load)) names.push_back(m[1]);
    }
    return names;
  }

  void statement(std::size_t i, const Statement& s) {
    static const std::vector<std::string> kBinary = {"add", "sub", "mul", "div"};
    static const std::vector<std::string> kUnary = {"square", "sqrt", "rsqrt"};
    static const std::vector<std::string> kFunctions = {"exp",  "tanh", "erf",      "sigmoid",
                                                        "silu", "gelu", "gelu_tanh"};
    for (const auto* family : {&kBinary, &kUnary, &kFunctions}) {
      if (std::find(family->begin(), family->end(), s.op) == family->end()) continue;
      for (const std::string& op : *family) {
        Statement t = s;
        t.op = op;
        replace_line(i, t.text());
      }
    }
    if (s.op == "const") return constant(i, s);
    if (s.op == "broadcast") return;
    const std::size_t operands = s.op == "sum" || s.op == "cast" || s.arguments.size() == 1 ? 1 : 2;
    if (operands == 2 && (s.op == "sub" || s.op == "div")) {
      Statement t = s;
      std::swap(t.arguments[0], t.arguments[1]);
      replace_line(i, t.text());
    }
    for (std::size_t a = 0; a < operands; ++a)
      for (const std::string& name : in_scope(i)) {
        if (name == s.arguments[a]) continue;
        Statement t = s;
        t.arguments[a] = name;
        replace_line(i, t.text());
      }
    if (s.op == "sum" || s.op == "matmul")
      for (const std::string& d : dims_) {
        Statement t = s;
        t.arguments.back() = d;
        replace_line(i, t.text());
      }
    for (std::size_t a = 0; a < operands; ++a)
      if (s.prefix.empty() && is_name(s.arguments[a]))
        rename_after(i, s.result, s.arguments[a], "");
    if (s.prefix.empty() && s.op != "cast" && s.op != "sum" && s.op != "matmul") {
      Statement t = s;
      t.result = "%again";
      t.arguments[0] = s.result;
      rename_after(i, s.result, "%again", t.text());
    }
  }

  void constant(std::size_t i, const Statement& s) {
    std::vector<std::string> values = {"0", "1", "2", "-1", "0.5"};
    for (const std::string& d : dims_) values.insert(values.end(), {d, "1/" + d});
    for (const std::string& a : attributes_)
      values.insert(values.end(), {a, "2*" + a, a + "*" + a, "1/" + a});
    for (const std::string& v : values) {
      Statement t = s;
      t.arguments = {v};
      replace_line(i, t.text());
    }
  }

  void other_line(std::size_t i) {
    static const std::regex load(R"((\s*load )(\w+)( \[)(.*)(\].*))"), yield(R"((\s*yield )(.*))"),
        store(R"((\s*store .* = )(%?[\w.]+)\s*)"), library(R"((.*library matmul\()(.*)(\).*))"),
        grid(R"((\s*grid )(.*))");
    std::smatch m;
    const std::string& line = lines_[i];
    if (std::regex_match(line, m, load)) {
      const std::string head = m[1], name = m[2], open = m[3], close = m[5];
      std::vector<std::string> maps = split_list(m[4]);
      for (std::size_t a = 0; a < maps.size(); ++a) {
        const std::string dim = maps[a].substr(0, maps[a].find(':'));
        for (const char* part :
             {"full", "grid", "loop", "grid+loop", "grid shift 1", "grid+loop shift 1"}) {
          std::vector<std::string> edited = maps;
          edited[a] = dim + ": " + part;
          replace_line(i, head + name + open + join_list(edited) + close);
        }
      }
      // Another tensor under the same maps, its old name still used below.
      for (const std::string& t : tensors_)
        if (t != name) {
          Lines lines = lines_;
          lines[i] = head + t + open + join_list(maps) + close;
          for (std::size_t j = i + 1; j < lines.size() && lines[j] != "}"; ++j)
            lines[j] = rename(lines[j], name, t);
          offer("line " + std::to_string(i + 1) + ": load " + name + " -> " + t, lines);
        }
    } else if (std::regex_match(line, m, yield)) {
      const std::string head = m[1];
      const std::vector<std::string> items = split_list(m[2]);
      for (std::size_t a = 0; a < items.size(); ++a)
        for (const std::string& name : in_scope(i)) {
          std::vector<std::string> edited = items;
          edited[a] = name;
          replace_line(i, head + join_list(edited));
        }
    } else if (std::regex_match(line, m, store)) {
      for (const std::string& name : in_scope(i)) replace_line(i, m[1].str() + name);
    } else if (std::regex_match(line, m, library)) {
      const std::vector<std::string> items = split_list(m[2]);
      for (std::size_t a = 0; a + 1 < items.size(); ++a)
        for (const std::string& t : tensors_) {
          std::vector<std::string> edited = items;
          edited[a] = t;
          replace_line(i, m[1].str() + join_list(edited) + m[3].str());
        }
    } else if (std::regex_match(line, m, grid)) {
      std::vector<std::string> items = split_list(m[2]);
      for (std::size_t a = 0; a < items.size(); ++a) {
        std::vector<std::string> edited = items;
        edited[a] = edited[a].rfind("split ", 0) == 0 ? edited[a].substr(6) : "split " + edited[a];
        replace_line(i, m[1].str() + join_list(edited));
      }
    }
  }

  Lines lines_;
  std::vector<std::string> dims_, attributes_, tensors_;
  std::set<std::string> seen_;
  std::vector<Mutant> out_;
};

}  // namespace

std::vector<Mutant> mutants(const ir::MuGraph& original) { return Mutator(original).run(); }

}  // namespace tenon::verifier::testing
