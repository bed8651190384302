#include "random_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace tenon::test {

namespace {

constexpr unsigned kM = 1, kK = 2, kN = 4;  // axes of a value

struct Value {
  std::string definition;  // "square(%3)"; of an input its declaration
  std::string name;
  std::vector<int> operands;
  unsigned axes = 0;
  bool activation = false;
  bool input = false;
  int order = 0;  // how large it may become: powers of the inputs
};

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15ull + 1) {
    input("x", "T[m, k] activation", kM | kK, true);
    input("e", "T[m, k] activation", kM | kK, true);
    input("g", "T[k] parameter", kK, false);
    input("w", "T[k, n] parameter", kK | kN, false);
    input("v", "T[k, n] parameter", kK | kN, false);
    input("c", "T[n] parameter", kN, false);
    input("a", "T[] parameter", 0, false);
  }

  std::string make() {
    const int wanted = 3 + below(6);
    for (int tries = 0; made_ < wanted && tries < 200; ++tries) step();
    // The value that most operators went into.
    std::vector<int> outputs;
    std::size_t most = 0;
    for (int i = 7; i < static_cast<int>(values_.size()); ++i)
      if (eligible(i) && ancestors({i}).size() > most) {
        most = ancestors({i}).size();
        outputs = {i};
      }
    // Sometimes a second one, from anywhere.
    for (int tries = 0; tries < 20 && outputs.size() == 1 && below(3) == 0; ++tries) {
      const int i = 7 + below(static_cast<int>(values_.size()) - 7);
      if (i != outputs[0] && eligible(i)) outputs.push_back(i);
    }
    return outputs.empty() ? "" : print(outputs);
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void input(const std::string& name, const std::string& type, unsigned axes, bool activation) {
    Value v;
    v.definition = fmt::format("input {}: {}", name, type);
    v.name = name;
    v.axes = axes;
    v.activation = activation;
    v.input = true;
    v.order = 1;
    values_.push_back(v);
  }

  int add(const std::string& op, std::vector<int> operands, const std::string& rest, unsigned axes,
          int order) {
    Value v;
    v.name = fmt::format("%{}", values_.size());
    std::string list;
    for (int o : operands) {
      list += (list.empty() ? "" : ", ") + at(o).name;
      v.activation = v.activation || at(o).activation;
    }
    if (!rest.empty()) list += (list.empty() ? "" : ", ") + rest;
    v.definition = fmt::format("{} = {}({})", v.name, op, list);
    v.operands = std::move(operands);
    v.axes = axes;
    v.order = order;
    values_.push_back(v);
    return static_cast<int>(values_.size()) - 1;
  }
  int constant(const std::string& text) { return add("const", {}, text, 0, 0); }

  const Value& at(int i) const { return values_[static_cast<std::size_t>(i)]; }
  // Depends on an activation, row by row, through more than casts.
  bool eligible(int i) const {
    if (at(i).input || !at(i).activation || (at(i).axes & kM) == 0) return false;
    for (int v : ancestors({i}))
      if (!at(v).input && at(v).definition.find("cast(") == std::string::npos) return true;
    return false;
  }

  std::set<int> ancestors(std::vector<int> stack) const {
    std::set<int> used;
    while (!stack.empty()) {
      const int v = stack.back();
      stack.pop_back();
      if (!used.insert(v).second) continue;
      for (int o : at(v).operands) stack.push_back(o);
    }
    return used;
  }

  // Prefers the newest value that came from an activation, so that chains grow.
  int pick() {
    const int size = static_cast<int>(values_.size());
    if (below(3) != 0)
      for (int i = size; i-- > 7;)
        if (at(i).activation) return i;
    return below(size);
  }

  int positive(int v) {  // square + a constant
    const int s = add("square", {v}, "", at(v).axes, 2 * at(v).order);
    return add("add", {s, constant("0.5")}, "", at(v).axes, 2 * at(v).order);
  }

  void step() {
    const int v = pick();
    const unsigned axes = at(v).axes;
    const int order = at(v).order;
    if (at(v).definition.find("const(") != std::string::npos) return;
    switch (below(13)) {
      case 0: {
        static const char* bounded[] = {"tanh", "erf", "sigmoid", "silu", "gelu", "gelu_tanh"};
        add(bounded[below(6)], {v}, "", axes, order);
        break;
      }
      case 1:  // exp of something in (−1, 1)
        add("exp", {add("tanh", {v}, "", axes, 1)}, "", axes, 1);
        break;
      case 2:
        if (order > 2) return;
        add("square", {v}, "", axes, 2 * order);
        break;
      case 3: {  // normalized along k
        if (order > 2 || (axes & kK) == 0) return;
        const int sum = add("sum", {add("square", {v}, "", axes, 2 * order)}, "k", axes & ~kK, 2);
        const int mean = add("mul", {sum, constant("1/k")}, "", axes & ~kK, 2);
        const int safe = add("add", {mean, constant("0.25")}, "", axes & ~kK, 2);
        if (below(2) == 0)
          add("mul", {v, add("rsqrt", {safe}, "", axes & ~kK, 0)}, "", axes, order);
        else
          add("div", {v, add("sqrt", {safe}, "", axes & ~kK, 0)}, "", axes, order);
        break;
      }
      case 4:
      case 5:
      case 6: {
        const int u = pick();
        const unsigned both = axes | at(u).axes;
        if (both != axes && both != at(u).axes) return;
        static const char* ops[] = {"add", "sub", "mul"};
        const int op = below(3);
        if (op == 2 && order + at(u).order > 4) return;
        if (op == 1 && u == v) return;
        add(ops[op], {v, u}, "", both,
            op == 2 ? order + at(u).order : std::max(order, at(u).order));
        break;
      }
      case 7:
      case 8:
      case 11:
      case 12: {  // a product over k
        if (axes != (kM | kK) || order > 3) return;
        std::vector<int> weights;
        for (int i = 0; i < static_cast<int>(values_.size()); ++i)
          if (at(i).axes == (kK | kN) && at(i).order <= 2) weights.push_back(i);
        const int w = weights[static_cast<std::size_t>(below(static_cast<int>(weights.size())))];
        add("matmul", {v, w}, "k", kM | kN, order + at(w).order);
        break;
      }
      case 9:
        if ((axes & kK) == 0) return;
        add("sum", {v}, "k", axes & ~kK, order);
        break;
      default:
        if (below(2) == 0) {
          const int divisor = positive(v);
          add("div", {v, divisor}, "", axes, 1);
        } else {
          add("cast", {v}, "T", axes, order);
        }
    }
    ++made_;
  }

  std::string print(const std::vector<int>& outputs) const {
    std::string body;
    unsigned dims = 0;
    for (int v : ancestors(outputs)) {  // ascending: operands first
      body += at(v).definition + "\n";
      dims |= at(v).axes;
      if (at(v).definition.find("1/k") != std::string::npos) dims |= kK;
    }
    std::string names;
    for (const auto& [bit, name] : {std::pair{kM, "m"}, {kK, "k"}, {kN, "n"}})
      if (dims & bit) names += (names.empty() ? "" : ", ") + std::string(name);
    std::string text = "program random\ndims " + names + "\n" + body;
    for (std::size_t o = 0; o < outputs.size(); ++o)
      text += fmt::format("%out{} = cast({}, T)\n", o, at(outputs[o]).name);
    for (std::size_t o = 0; o < outputs.size(); ++o)
      text += fmt::format("output y{}: T = %out{}\n", o, o);
    return text;
  }

  std::mt19937_64 random_;
  std::vector<Value> values_;
  int made_ = 0;
};

}  // namespace

std::string random_program(std::uint64_t seed) {
  for (std::uint64_t attempt = 0;; ++attempt) {
    const std::string text = Maker(seed + attempt * 1000003).make();
    if (!text.empty()) return text;
  }
}

}  // namespace tenon::test
