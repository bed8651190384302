#include "verifier/trial.h"

#include <algorithm>
#include <limits>

namespace tenon::verifier {

using ir::OpKind;

TrialDomain::Scalar TrialDomain::constant(const ir::Constant& c, const ir::Extents& extents) {
  try {
    return field_.constant(c, extents);
  } catch (const ir::Undefined&) {
    divided_by_zero_ = true;
    return 0;
  }
}

TrialDomain::Scalar TrialDomain::apply(OpKind op, Scalar a) {
  if (op != OpKind::kSqrt && op != OpKind::kRsqrt) return field_.apply(op, a);
  Scalar out = 1;
  bool square = true;
  try {
    out = field_.apply(op, a);
  } catch (const ir::Undefined&) {
    square = false;
  }
  squares_.push_back(square);
  if (squares_.size() == stop_after_) throw LastRootSeen{};
  return out;
}

TrialDomain::Scalar TrialDomain::apply(OpKind op, Scalar a, Scalar b) {
  if (op == OpKind::kDiv && b == 0) {
    divided_by_zero_ = true;
    return 0;
  }
  return field_.apply(op, a, b);
}

FieldInputs::FieldInputs(const ir::Signature& signature, const ScaledDims& dims,
                         const UnitMap& units, std::uint32_t prime, std::uint64_t seed)
    : units_(units), prime_(prime), random_(seed) {
  for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
    const ir::ProgramInput& in = signature.inputs[i];
    FieldValues v{in.axes, input_extents(in, dims.extents), {}};
    v.data.resize(static_cast<std::size_t>(ir::element_count(in.axes, dims.extents)));
    std::vector<int> unit_of;
    for (std::size_t e = 0; e < v.data.size(); ++e)
      unit_of.push_back(units.unit(i, static_cast<std::int64_t>(e)));
    unit_of_.push_back(std::move(unit_of));
    values_.push_back(std::move(v));
  }
  for (const auto& [name, value] : signature.attributes) attributes_[name] = 0;
}

// Uniform on [low, prime): 31 random bits, rejected above the prime.
std::uint32_t FieldInputs::uniform(std::uint32_t low) {
  for (;;) {
    auto v = static_cast<std::uint32_t>(random_() >> 33);
    if (v >= low && v < prime_) return v;
  }
}

void FieldInputs::draw_all() {
  for (int u = 0; u < units_.count(); ++u) draw(u);
}

void FieldInputs::draw(int unit) {
  for (std::size_t i = 0; i < values_.size(); ++i)
    for (std::size_t e = 0; e < values_[i].data.size(); ++e)
      if (unit_of_[i][e] == unit) values_[i].data[e] = uniform(0);
  for (auto& [name, value] : attributes_)
    if (units_.attribute_unit(name) == unit) value = uniform(1);
}

namespace {

// The units to redraw for the roots of one evaluation that do not exist; roots of level
// `below` and more are left alone.
UnitSet undefined_units(const std::vector<bool>& squares, const std::vector<int>& calls,
                        const std::vector<RootClass>& classes, int below, bool& hopeless) {
  UnitSet out;
  for (std::size_t i = 0; i < squares.size(); ++i) {
    if (squares[i]) continue;
    const int c = calls[i];
    if (c >= 0 && classes[static_cast<std::size_t>(c)].level >= below) continue;
    const int target = c < 0 ? -1 : classes[static_cast<std::size_t>(c)].target;
    if (target < 0)
      hopeless = true;
    else
      out.set(static_cast<std::size_t>(target));
  }
  return out;
}

constexpr std::uint64_t kFunctionStream = 0x66756e6374696f6eull;  // apart from the inputs'
constexpr int kEveryLevel = std::numeric_limits<int>::max();

// Draws the units in `units`; false once one of them has been drawn too often.
bool redraw(FieldInputs& inputs, const UnitSet& units, const std::vector<int>& limit,
            std::vector<int>& drawn) {
  for (std::size_t u = 0; u < drawn.size(); ++u) {
    if (!units.test(u)) continue;
    if (++drawn[u] > limit[u]) return false;
    inputs.draw(static_cast<int>(u));
  }
  return true;
}

class TrialRunner {
 public:
  TrialRunner(const ir::Program& program, const ir::MuGraph& graph, const ScaledDims& dims,
              const UnitMap& units, const Structure& structure, std::uint32_t prime,
              std::uint64_t seed)
      : program_(program),
        graph_(graph),
        dims_(dims),
        units_(units),
        structure_(structure),
        prime_(prime),
        graph_has_its_own_(has_its_own(structure)),
        inputs_(program.signature, dims, units, prime, seed),
        function_key_(std::mt19937_64(seed ^ kFunctionStream)()) {}

  Trial trial() {
    for (int restart = 0; restart < kRestarts; ++restart) {
      Trial out;
      if (attempt(out)) return out;
    }
    return {};
  }

  // The quadratic characters of the classes of `level` at one point where the roots of lower
  // levels exist; false when there was none.
  bool characters(int level, std::vector<bool>& out) {
    for (int restart = 0; restart < kRestarts; ++restart) {
      inputs_.draw_all();
      std::vector<int> drawn(static_cast<std::size_t>(units_.count()), 1);
      for (;;) {
        bool hopeless = false;
        TrialDomain program_domain(prime_, inputs_.attributes(), function_key_);
        TrialDomain graph_domain(prime_, inputs_.attributes(), function_key_);
        roots_only(program_domain, structure_.program_calls.size(), program_);
        if (graph_has_its_own_) roots_only(graph_domain, structure_.graph_calls.size(), graph_);
        const auto& classes = structure_.classes;
        UnitSet again = undefined_units(program_domain.squares(), structure_.program_calls, classes,
                                        level, hopeless) |
                        undefined_units(graph_domain.squares(), structure_.graph_calls, classes,
                                        level, hopeless);
        if (hopeless || program_domain.divided_by_zero() || graph_domain.divided_by_zero()) break;
        if (again.none()) {
          out.assign(classes.size(), false);
          note(program_domain.squares(), structure_.program_calls, out);
          note(graph_domain.squares(), structure_.graph_calls, out);
          return true;
        }
        if (!redraw(inputs_, again, structure_.draw_limit, drawn)) break;
      }
    }
    return false;
  }

 private:
  bool attempt(Trial& out) {
    inputs_.draw_all();
    std::vector<int> drawn(static_cast<std::size_t>(units_.count()), 1);
    for (;;) {
      bool hopeless = false;
      TrialDomain domain(prime_, inputs_.attributes(), function_key_);
      out.program = ir::evaluate(program_, dims_.extents, domain, inputs_.values());
      UnitSet again = undefined_units(domain.squares(), structure_.program_calls,
                                      structure_.classes, kEveryLevel, hopeless);
      bool zero = domain.divided_by_zero();
      if (again.none() && !hopeless && !zero) {
        TrialDomain graph_domain(prime_, inputs_.attributes(), function_key_);
        out.graph =
            ir::evaluate(graph_, dims_.extents, dims_.partition, graph_domain, inputs_.values());
        again = undefined_units(graph_domain.squares(), structure_.graph_calls, structure_.classes,
                                kEveryLevel, hopeless);
        zero = graph_domain.divided_by_zero();
      }
      if (hopeless || zero) return false;
      if (again.none()) {
        out.inputs = inputs_.values();
        out.attributes = inputs_.attributes();
        out.defined = true;
        return true;
      }
      if (!redraw(inputs_, again, structure_.draw_limit, drawn)) return false;
    }
  }

  void roots_only(TrialDomain& domain, std::size_t calls, const ir::Program& program) {
    if (calls == 0) return;
    domain.stop_after(calls);
    try {
      ir::evaluate(program, dims_.extents, domain, inputs_.values());
    } catch (const LastRootSeen&) {
    }
  }
  void roots_only(TrialDomain& domain, std::size_t calls, const ir::MuGraph& graph) {
    if (calls == 0) return;
    domain.stop_after(calls);
    try {
      ir::evaluate(graph, dims_.extents, dims_.partition, domain, inputs_.values());
    } catch (const LastRootSeen&) {
    }
  }

  static void note(const std::vector<bool>& squares, const std::vector<int>& calls,
                   std::vector<bool>& out) {
    for (std::size_t i = 0; i < squares.size(); ++i)
      if (calls[i] >= 0 && !squares[i]) out[static_cast<std::size_t>(calls[i])] = true;
  }

  // Does the µGraph take a root of a class that the program lacks? If not, the program's roots,
  // which are cheap to reach, tell all.
  static bool has_its_own(const Structure& structure) {
    std::uint64_t of_program = 0, of_graph = 0;
    for (int c : structure.program_calls)
      if (c >= 0) of_program |= std::uint64_t{1} << c;
    for (int c : structure.graph_calls)
      if (c >= 0) of_graph |= std::uint64_t{1} << c;
    return (of_graph & ~of_program) != 0;
  }

  const ir::Program& program_;
  const ir::MuGraph& graph_;
  const ScaledDims& dims_;
  const UnitMap& units_;
  const Structure& structure_;
  std::uint32_t prime_;
  bool graph_has_its_own_;
  FieldInputs inputs_;
  std::uint64_t function_key_;  // one random function of each name for all of a trial
};

// Rank over GF(2) of rows given as bit masks (there are at most 64 classes).
int rank(std::vector<std::uint64_t> rows) {
  int r = 0;
  for (int bit = 0; bit < 64; ++bit) {
    auto pivot = std::find_if(rows.begin() + r, rows.end(),
                              [&](std::uint64_t row) { return row >> bit & 1; });
    if (pivot == rows.end()) continue;
    std::swap(rows[static_cast<std::size_t>(r)], *pivot);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (i != static_cast<std::size_t>(r) && (rows[i] >> bit & 1))
        rows[i] ^= rows[static_cast<std::size_t>(r)];
    ++r;
  }
  return r;
}

}  // namespace

Trial run_trial(const ir::Program& program, const ir::MuGraph& graph, const ScaledDims& dims,
                const UnitMap& units, const Structure& structure, std::uint32_t prime,
                std::uint64_t seed) {
  return TrialRunner(program, graph, dims, units, structure, prime, seed).trial();
}

bool roots_independent(const ir::Program& program, const ir::MuGraph& graph, const ScaledDims& dims,
                       const UnitMap& units, const Structure& structure, std::uint32_t prime,
                       std::uint64_t seed) {
  int levels = 0;
  for (const RootClass& c : structure.classes) levels = std::max(levels, c.level + 1);
  TrialRunner runner(program, graph, dims, units, structure, prime, seed);
  constexpr int kSparePoints = 24;  // independent characters look dependent with chance 2^-24
  for (int level = 0; level < levels; ++level) {
    std::uint64_t members = 0;
    int wanted = 0;
    for (std::size_t c = 0; c < structure.classes.size(); ++c)
      if (structure.classes[c].level == level) members |= std::uint64_t{1} << c, ++wanted;
    std::vector<std::uint64_t> rows;
    for (int point = 0; point < wanted + kSparePoints; ++point) {
      std::vector<bool> nonsquare;
      if (!runner.characters(level, nonsquare)) return false;
      std::uint64_t row = 0;
      for (std::size_t c = 0; c < nonsquare.size(); ++c)
        if (nonsquare[c]) row |= std::uint64_t{1} << c;
      rows.push_back(row & members);
    }
    if (rank(std::move(rows)) < wanted) return false;
  }
  return true;
}

}  // namespace tenon::verifier
