// One Z3 context and the terms made in it. Private to the z3_*.cpp files.
#pragma once

#include <z3++.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "verifier/verifier.h"
#include "verifier/z3_domain.h"

namespace tenon::verifier {

enum class Z3Stop : std::uint8_t { kNone, kTime, kMemory };

// Watches time and memory from a thread of its own and interrupts the context when one runs
// out; joined on destruction. Memory is what Z3 has allocated in the whole process. (Z3's own
// timers are not used: in 4.8.12 one that fires while its query ends can deadlock.)
class Z3Watchdog {
 public:
  Z3Watchdog(z3::context& context, std::chrono::steady_clock::time_point deadline, int memory_mb);
  ~Z3Watchdog();
  Z3Watchdog(const Z3Watchdog&) = delete;
  Z3Watchdog& operator=(const Z3Watchdog&) = delete;
  Z3Stop stopped() const { return stopped_; }

  // solver.check(), interrupted after `milliseconds` at most; then the answer is unknown.
  z3::check_result check(z3::solver& solver, int milliseconds);

 private:
  void watch();
  void set_slice(std::chrono::steady_clock::time_point end);

  z3::context& context_;
  const std::chrono::steady_clock::time_point deadline_;
  const int memory_mb_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::chrono::steady_clock::time_point slice_ = std::chrono::steady_clock::time_point::max();
  std::atomic<Z3Stop> stopped_ = Z3Stop::kNone;
  std::thread thread_;
};

enum class AtomKind : std::uint8_t { kSqrt, kRsqrt, kReciprocal, kFunction };

struct Z3Atom {
  AtomKind kind;
  z3::expr argument;  // normal form
  z3::expr symbol;
  bool obligation;                     // made by the µGraph: that it is defined has to be shown
  ir::OpKind op = ir::OpKind::kConst;  // of a function
  double near = 0;                     // a function's argument at the random point
};

struct Z3State {
  explicit Z3State(const Z3Options& options);

  z3::context context;
  std::chrono::steady_clock::time_point deadline;
  int memory_mb;
  std::vector<z3::expr> terms;
  std::vector<double> at_point;  // the terms' values at one random point, in float64
  std::map<std::string, z3::expr> attributes;
  // An attribute's value at the random point: any positive number, another for each.
  double attribute_near(const std::string& name) const {
    return 0.7 +
           0.1 * static_cast<double>(std::distance(attributes.begin(), attributes.find(name)));
  }
  std::vector<Z3Atom> atoms;
  bool in_graph = false;  // the µGraph is being evaluated, not the program

  z3::expr term(Z3Domain::Scalar s) const { return terms[static_cast<std::size_t>(s.id)]; }
  double value(Z3Domain::Scalar s) const { return at_point[static_cast<std::size_t>(s.id)]; }
  Z3Domain::Scalar keep(z3::expr e, double at_point);
  z3::params normal_form_params();
  z3::expr normal_form(const z3::expr& e);
  // The symbol of an atom of `argument` (a normal form), made if it is new.
  z3::expr atom(AtomKind kind, const z3::expr& argument);
  // The symbol of function `op` at `argument` (a normal form), whose value at the random point is
  // `near`. Where an argument known before is the same by normalization under the assumptions,
  // though of another form, it is that one's symbol.
  z3::expr function(ir::OpKind op, const z3::expr& argument, double near);
  // The atom whose symbol is `e`, or null.
  const Z3Atom* atom_of(const z3::expr& e) const;
  void check_limits() const;
  int remaining_ms() const;

  // Substitution of defined atoms between two passes to sum-of-monomials form: where both
  // sides of every disjunct are one polynomial, all of them become false here.
  z3::tactic normalization();
  // Did that alone show that `assumptions` and `violation` cannot hold together?
  bool simplifies_to_false(const z3::expr_vector& assumptions, const z3::expr& violation);
  // A solver that normalizes and then decides nonlinear real arithmetic.
  z3::solver solver();

  // That the atom's operator has a value, and what that value satisfies.
  z3::expr condition(const Z3Atom& a);
  z3::expr definition(const Z3Atom& a);
  // Attributes are positive; the program's atoms are defined; the µGraph's are where they can be.
  z3::expr_vector assumptions();
  // The same, of the atoms that `e` is made of only.
  z3::expr_vector assumptions_of(const z3::expr& e);
  // Some operator of the µGraph is undefined where all of the program's are defined.
  z3::expr_vector undefined();

 private:
  z3::expr_vector assumptions(const std::vector<bool>& wanted);
  static bool may_coincide(const Z3Atom& a, const Z3Atom& b);

  std::map<std::pair<AtomKind, unsigned>, std::size_t>
      index_;  // by kind and AST id of the argument
  std::map<std::pair<ir::OpKind, unsigned>, std::size_t> functions_;  // the same, by operator
};

bool exceeds_memory(int memory_mb);

}  // namespace tenon::verifier
