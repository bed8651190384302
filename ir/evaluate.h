// The one evaluator: the meaning of programs and µGraphs, over any domain.
//
// A domain D provides
//   using Scalar = …;                                  // default-constructible, copyable
//   Scalar constant(const Constant&, const Extents&);   // attributes are bound by the domain
//   Scalar apply(OpKind, const Scalar& a);              // pointwise, arity 1
//   Scalar apply(OpKind, const Scalar& a, const Scalar& b);
//   Scalar round(DType, const Scalar&);                 // cast; dtype already bound; identity if
//   exact DType elem() const;                                 // what kElem is bound to
// and may throw Undefined (this input has no value here: a non-residue under a root, a
// zero divisor) or Unsupported (the operator does not exist in this domain).
//
// Reductions are left folds of kAdd starting from the first element; a sum over no
// element is constant 0. Ragged partitions: part i of n of an extent E spans
// [min(E, i·⌈E/n⌉), min(E, (i+1)·⌈E/n⌉)), so the last parts may be short or empty and
// elements past the end take no part in any reduction; a step whose part is empty does not
// update the accumulators over that dim.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/mugraph.h"
#include "ir/program.h"

namespace tenon::ir {

class Undefined : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A dense value: row-major over `extents`, which belong to `axes`.
template <class S>
struct Values {
  Axes axes;
  std::vector<std::int64_t> extents;
  std::vector<S> data;
};

// How many parts grid and loops cut each dim into (by DimId). A dim that a block graph
// does not tile ignores its entry. Loop parts cut a block's share of the dim.
struct Partition {
  std::vector<std::int64_t> grid;
  std::vector<std::int64_t> loop;
};

// The number of elements of a tensor; throws UserError on overflow of 2^62.
std::int64_t element_count(const Axes& axes, const Extents& extents);

// Outputs of the program in signature order; `inputs` in signature order.
template <class D>
std::vector<Values<typename D::Scalar>> evaluate(
    const Program& program, const Extents& extents, D& domain,
    const std::vector<Values<typename D::Scalar>>& inputs);

// The same for a µGraph, whose block graphs run block by block and step by step.
template <class D>
std::vector<Values<typename D::Scalar>> evaluate(
    const MuGraph& graph, const Extents& extents, const Partition& partition, D& domain,
    const std::vector<Values<typename D::Scalar>>& inputs);

// All values of a graph, given its inputs' values (building block of the above; search
// uses it for fingerprints).
template <class D>
std::vector<Values<typename D::Scalar>> evaluate_graph(
    const Graph& graph, const Extents& extents, D& domain,
    std::vector<Values<typename D::Scalar>> inputs);

}  // namespace tenon::ir

#include "ir/evaluate_impl.h"
