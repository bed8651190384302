#include "verifier/z3_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace tenon::verifier {

bool exceeds_memory(int memory_mb) {
  return Z3_get_estimated_alloc_size() > (static_cast<std::uint64_t>(memory_mb) << 20);
}

Z3Watchdog::Z3Watchdog(z3::context& context, std::chrono::steady_clock::time_point deadline,
                       int memory_mb)
    : context_(context), deadline_(deadline), memory_mb_(memory_mb), thread_([this] { watch(); }) {}

void Z3Watchdog::watch() {
  constexpr std::chrono::milliseconds kPoll(10);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!done_) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline_) stopped_ = Z3Stop::kTime;
    if (exceeds_memory(memory_mb_)) stopped_ = Z3Stop::kMemory;
    // Again and again: an interrupt between two steps of Z3 may be lost.
    if (stopped_ != Z3Stop::kNone || now >= slice_) context_.interrupt();
    wake_.wait_for(lock, kPoll);
  }
}

void Z3Watchdog::set_slice(std::chrono::steady_clock::time_point end) {
  std::lock_guard<std::mutex> lock(mutex_);
  slice_ = end;
}

z3::check_result Z3Watchdog::check(z3::solver& solver, int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  set_slice(end);
  z3::check_result result = z3::unknown;
  try {
    result = solver.check();
  } catch (const z3::exception&) {
    if (std::chrono::steady_clock::now() < end) {
      set_slice(std::chrono::steady_clock::time_point::max());
      throw;
    }
  }
  set_slice(std::chrono::steady_clock::time_point::max());
  // An interrupt that came just after the query would cancel the next call; a query resets it.
  if (std::chrono::steady_clock::now() >= end) z3::solver(context_).check();
  return result;
}

Z3Watchdog::~Z3Watchdog() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

Z3State::Z3State(const Z3Options& options)
    : deadline(std::chrono::steady_clock::now() + std::chrono::milliseconds(options.timeout_ms)),
      memory_mb(options.memory_mb) {}

Z3Domain::Scalar Z3State::keep(z3::expr e, double value) {
  terms.push_back(std::move(e));
  at_point.push_back(value);
  return {static_cast<std::int32_t>(terms.size()) - 1};
}

// Polynomials as sorted sums of monomials, so that equal ones are the same term.
z3::params Z3State::normal_form_params() {
  z3::params p(context);
  p.set("som", true);
  p.set("som_blowup", 1U << 30);
  p.set("sort_sums", true);
  p.set("flat", true);
  return p;
}

z3::expr Z3State::normal_form(const z3::expr& e) {
  check_limits();
  return e.simplify(normal_form_params());
}

z3::expr Z3State::atom(AtomKind kind, const z3::expr& argument) {
  const auto key = std::make_pair(kind, Z3_get_ast_id(context, argument));
  auto it = index_.find(key);
  if (it != index_.end()) return atoms[it->second].symbol;
  const char* prefix = kind == AtomKind::kSqrt    ? "sqrt"
                       : kind == AtomKind::kRsqrt ? "rsqrt"
                                                  : "recip";
  z3::expr symbol = context.real_const(fmt::format("{}!{}", prefix, atoms.size()).c_str());
  index_[key] = atoms.size();
  atoms.push_back({kind, argument, symbol, in_graph});
  return symbol;
}

// Equal arguments have nearly the same value at the random point, if they have one there.
bool Z3State::may_coincide(const Z3Atom& a, const Z3Atom& b) {
  return a.kind == AtomKind::kFunction && b.kind == AtomKind::kFunction && a.op == b.op &&
         !(std::fabs(a.near - b.near) > 1e-8 * (1 + std::fabs(a.near)));
}

z3::expr Z3State::function(ir::OpKind op, const z3::expr& argument, double near) {
  const auto key = std::make_pair(op, Z3_get_ast_id(context, argument));
  auto it = functions_.find(key);
  if (it != functions_.end()) return atoms[it->second].symbol;
  z3::expr symbol =
      context.real_const(fmt::format("{}!{}", ir::info(op).name, atoms.size()).c_str());
  Z3Atom fresh{AtomKind::kFunction, argument, symbol, false, op, near};
  for (std::size_t i = 0; i < atoms.size() && in_graph; ++i) {
    if (!may_coincide(atoms[i], fresh)) continue;
    const z3::expr differ = atoms[i].argument != argument;
    if (!simplifies_to_false(assumptions_of(differ), differ)) continue;
    functions_[key] = i;
    return atoms[i].symbol;
  }
  functions_[key] = atoms.size();
  atoms.push_back(fresh);
  return symbol;
}

const Z3Atom* Z3State::atom_of(const z3::expr& e) const {
  for (const Z3Atom& a : atoms)
    if (z3::eq(a.symbol, e)) return &a;
  return nullptr;
}

int Z3State::remaining_ms() const {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

void Z3State::check_limits() const {
  if (std::chrono::steady_clock::now() >= deadline)
    throw Z3Limit(true, "the time limit was reached");
  if (exceeds_memory(memory_mb)) throw Z3Limit(false, "the memory limit was reached");
}

z3::tactic Z3State::normalization() {
  z3::tactic som = z3::with(z3::tactic(context, "simplify"), normal_form_params());
  return som & z3::tactic(context, "solve-eqs") & som;
}

bool Z3State::simplifies_to_false(const z3::expr_vector& assumptions, const z3::expr& violation) {
  check_limits();
  z3::goal goal(context);
  for (unsigned i = 0; i < assumptions.size(); ++i) goal.add(assumptions[static_cast<int>(i)]);
  goal.add(violation);
  z3::apply_result result = normalization()(goal);
  return result.size() == 1 && result[0].is_decided_unsat();
}

z3::solver Z3State::solver() {
  return (normalization() & z3::tactic(context, "qfnra-nlsat")).mk_solver();
}

z3::expr Z3State::condition(const Z3Atom& a) {
  z3::expr zero = context.real_val(0);
  if (a.kind == AtomKind::kFunction) return context.bool_val(true);
  if (a.kind == AtomKind::kSqrt) return a.argument >= zero;
  if (a.kind == AtomKind::kRsqrt) return a.argument > zero;
  return a.argument != zero;
}

z3::expr Z3State::definition(const Z3Atom& a) {
  z3::expr zero = context.real_val(0), one = context.real_val(1);
  if (a.kind == AtomKind::kFunction) {
    // All that is known of them besides that they are functions: their range.
    if (a.op == ir::OpKind::kExp) return a.symbol > zero;
    if (a.op == ir::OpKind::kSigmoid) return a.symbol > zero && a.symbol < one;
    if (a.op == ir::OpKind::kTanh || a.op == ir::OpKind::kErf)
      return a.symbol > -one && a.symbol < one;
    return context.bool_val(true);
  }
  if (a.kind == AtomKind::kSqrt) return a.symbol >= zero && a.symbol * a.symbol == a.argument;
  if (a.kind == AtomKind::kRsqrt) return a.symbol > zero && a.symbol * a.symbol * a.argument == one;
  return a.symbol * a.argument == one;
}

z3::expr_vector Z3State::assumptions() {
  return assumptions(std::vector<bool>(atoms.size(), true));
}

z3::expr_vector Z3State::assumptions_of(const z3::expr& e) {
  std::vector<bool> wanted(atoms.size(), false);
  std::set<unsigned> seen;
  std::vector<z3::expr> stack = {e};
  while (!stack.empty()) {
    const z3::expr top = stack.back();
    stack.pop_back();
    if (!seen.insert(Z3_get_ast_id(context, top)).second || !top.is_app()) continue;
    for (unsigned i = 0; i < top.num_args(); ++i) stack.push_back(top.arg(i));
    if (!top.is_const()) continue;
    for (std::size_t a = 0; a < atoms.size(); ++a)
      if (z3::eq(atoms[a].symbol, top)) {
        wanted[a] = true;
        stack.push_back(atoms[a].argument);
      }
  }
  return assumptions(wanted);
}

z3::expr_vector Z3State::assumptions(const std::vector<bool>& wanted) {
  z3::expr_vector out(context);
  for (const auto& [name, symbol] : attributes) out.push_back(symbol > context.real_val(0));
  for (std::size_t i = 0; i < atoms.size(); ++i) {
    if (!wanted[i]) continue;
    if (atoms[i].obligation)
      out.push_back(z3::implies(condition(atoms[i]), definition(atoms[i])));
    else
      out.push_back(condition(atoms[i]) && definition(atoms[i]));
  }
  // Equal arguments, equal values: said where it can matter.
  for (std::size_t i = 0; i < atoms.size(); ++i)
    for (std::size_t j = 0; j < i && wanted[i] && atoms[i].kind == AtomKind::kFunction; ++j)
      if (wanted[j] && may_coincide(atoms[i], atoms[j]))
        out.push_back(z3::implies(atoms[i].argument == atoms[j].argument,
                                  atoms[i].symbol == atoms[j].symbol));
  // Atoms of one argument determine each other; said in a form that can be substituted.
  for (std::size_t i = 0; i < atoms.size(); ++i) {
    const Z3Atom& a = atoms[i];
    if (!wanted[i] || a.kind != AtomKind::kRsqrt) continue;
    for (std::size_t j = 0; j < atoms.size(); ++j) {
      const Z3Atom& b = atoms[j];
      if (!wanted[j] || !z3::eq(a.argument, b.argument)) continue;
      if (b.kind == AtomKind::kReciprocal)
        out.push_back(z3::implies(condition(a), b.symbol == a.symbol * a.symbol));
      if (b.kind == AtomKind::kSqrt)
        out.push_back(z3::implies(condition(a), b.symbol * a.symbol == context.real_val(1)));
    }
  }
  return out;
}

z3::expr_vector Z3State::undefined() {
  z3::expr_vector out(context);
  for (const Z3Atom& a : atoms)
    if (a.obligation) out.push_back(!condition(a));
  return out;
}

}  // namespace tenon::verifier
