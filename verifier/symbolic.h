// Values at a generic index: every dim stays symbolic. A reduction over a dim becomes a linear
// combination of sum atoms, one for each distinct summand, so that two programs agree at every
// extent when their generic elements agree as rational functions of the atoms.
//
// Private to the z3_*.cpp files.
#pragma once

#include <z3++.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "ir/graph.h"
#include "ir/program.h"
#include "verifier/z3_state.h"

namespace tenon::verifier {

using DimMask = std::uint64_t;  // bit d: varies with the index along dim d

// What a sum runs over: all of a dim, or one tile of it (a loop step's or a block's share).
enum class Range : std::uint8_t { kAll, kTile };

// A quotient of polynomials in Z3 constants, both in normal form.
struct Fraction {
  z3::expr num, den;
};

class Symbolic {
 public:
  Symbolic(Z3State& state, const ir::Signature& signature);

  // The generic element of input `i`: it varies with the input's dims.
  Fraction input(std::size_t i);
  // All values of `graph`, given those of its inputs. A sum over a kFull axis runs over all of
  // the dim, any other over a tile. Throws ir::Unsupported outside of the fragment.
  std::vector<Fraction> evaluate(const ir::Graph& graph, std::vector<Fraction> inputs);
  Fraction node(const ir::Graph& graph, const ir::Node& n, const std::vector<Fraction>& values);
  Fraction apply(ir::OpKind op, const Fraction& a, const Fraction& b);
  Fraction sum(const Fraction& a, ir::DimId dim, Range range);

  // `f` with every sum over a tile of `dim` replaced by the sum over: all of the dim, the
  // disjoint part number `part`, two such parts together, a part and the tile together.
  Fraction over_all(const Fraction& f, ir::DimId dim);
  Fraction over_part(const Fraction& f, ir::DimId dim, int part);
  Fraction over_two_parts(const Fraction& f, ir::DimId dim);
  Fraction over_part_and_tile(const Fraction& f, ir::DimId dim);
  bool depends_on_tiles(const Fraction& f);

  // a == b, without quotients.
  z3::expr equal(const Fraction& a, const Fraction& b);
  // Counts, attributes and extents are positive, sums of squares not negative, the program's
  // divisors nonzero and its roots as they are defined.
  z3::expr_vector program_assumptions();
  // These, and the µGraph's roots as they are defined: to be used once they are known to exist.
  z3::expr_vector assumptions();
  // What has to hold for the µGraph to be defined wherever the program is.
  const std::vector<z3::expr>& radicands() const { return radicands_; }
  const std::vector<z3::expr>& divisors() const { return divisors_; }
  std::size_t sums() const { return sums_.size(); }
  std::size_t roots() const { return roots_.size(); }

 private:
  struct Sum {
    z3::expr symbol, summand;  // the summand is a monomial; 1 for the number of elements
    ir::DimId dim;
    Range range;
  };
  struct Root {
    z3::expr symbol;  // 1/√radicand
    Fraction radicand;
    bool in_graph;  // the µGraph takes it, the program does not
  };
  struct Function {  // the value of an uninterpreted function
    ir::OpKind op;
    z3::expr symbol;
    Fraction argument;
  };
  struct Term {  // coefficient and factors that do not vary with the summed index, and the rest
    z3::expr kept, summed;
  };

  z3::expr zero() { return state_.context.real_val(0); }
  z3::expr one() { return state_.context.real_val(1); }
  z3::expr symbol(const std::string& prefix, DimMask dims);
  Fraction make(const z3::expr& num, const z3::expr& den);
  Fraction constant(const ir::Constant& c);
  Fraction unary(ir::OpKind op, const Fraction& a);
  Fraction root(const Fraction& radicand);
  Fraction function(ir::OpKind op, const Fraction& argument);
  Fraction divide(const Fraction& a, const Fraction& b);
  void collect(const z3::expr& e, std::map<unsigned, z3::expr>& constants);
  DimMask dims_of(const z3::expr& e);
  Term split(const z3::expr& monomial, ir::DimId dim);
  z3::expr sum_symbol(const z3::expr& summand, ir::DimId dim, Range range);
  z3::expr part_symbol(std::size_t sum, int part);
  Fraction replace(const Fraction& f, ir::DimId dim,
                   const std::function<z3::expr(std::size_t sum)>& replacement);
  bool tile_inside(const z3::expr& e);
  void define_roots(bool of_graph, z3::expr_vector& out);

  Z3State& state_;
  const ir::Signature& signature_;
  std::map<unsigned, DimMask> dims_;  // by AST id of the constant
  std::vector<z3::expr> extents_, positive_, squares_, nonzero_, radicands_, divisors_;
  std::vector<Sum> sums_;
  std::map<std::tuple<unsigned, ir::DimId, Range>, std::size_t> sum_index_;
  std::map<std::pair<std::size_t, int>, z3::expr> parts_;
  std::vector<Root> roots_;
  std::vector<Function> functions_;
  std::set<unsigned> tiles_;   // symbols of sums over a tile
  std::set<unsigned> opaque_;  // symbols that hide one: roots and sums of what holds one
  int next_ = 0;
};

}  // namespace tenon::verifier
