// What a custom kernel computes, as lowerings need it: its dataflow with the tiling removed,
// and the roles that dims and values play in it.
//
// A reduction over a full axis and an accumulator over a loop compute the same value, so a
// lowering depends on the dataflow and not on the loop form that a µGraph happens to use. The
// tiling that a µGraph writes down is a permission: a lowering may cut the grid and the loops
// finer. Only a split reduction is an obligation, because it is a choice of the search.
//
// Roles, with M rows, N columns and K reduced:
//   rows kernel         no product; row sums in phases, then outputs [row], [row, inner]
//   contraction kernel  products A[row, reduced] · B[reduced, column], row sums, epilogue
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/mugraph.h"
#include "ir/workload.h"

namespace tenon::ir {

// The kernel has a form that no lowering covers; the message says which.
class NotLowerable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Operators over whole tensors.
struct Dataflow {
  struct Output {
    Tensor tensor;
    ValueId value = kNoValue;
  };
  Graph graph;                 // axes are all kFull, no accumulators; inputs mirror `inputs`
  std::vector<Tensor> inputs;  // distinct
  std::vector<Output> outputs;
  bool split = false;  // a reduction is split over blocks
  // Neighbouring dims that no reduction tells apart are one, named by the first: heads and what is
  // within a head of a product's columns, rows and heads of a norm.
  struct Merge {
    DimId first = 0, second = 0;
  };
  std::optional<Merge> merge;
  // Inputs that have the second alone repeat along the merged dim.
  std::vector<bool> periodic;  // by input; empty: none
};

// Extents with the merged dim's under its name.
Extents merged_extents(const Dataflow& flow, Extents extents);

// Merges two neighbouring dims where some value has more than two axes and they can be.
Dataflow merge_axes(Dataflow flow);

// The dataflow of a block graph: tiles joined, accumulators replaced by the sums and products
// they accumulate, equal values merged. Throws NotLowerable for custom accumulators, shifted
// shares and reductions of a block's own share.
Dataflow flatten(const MuGraph& graph, const BlockGraph& block);

// One row sum: Σ over `dim` of `operand`, whose axes are at most {row, dim}.
struct RowSum {
  ValueId value = kNoValue;
  ValueId operand = kNoValue;
};

// Row sums that one sweep over the inputs gathers: of one phase, over one dim, streaming one
// input.
struct SumPass {
  int phase = 0;  // sums of phase p may use rows' values that depend on phases < p
  DimId dim = 0;
  int source = -1;            // the input that is streamed (index in Dataflow::inputs), or -1
  bool with_product = false;  // gathered inside the product's loop, from operand A's tiles
  int first = 0;              // index of its first sum in KernelFacts::sums
  int count = 0;
};

struct Product {
  ValueId value = kNoValue;
  int a = 0;  // index in KernelFacts::a_operands
  int b = 0;  // index in KernelFacts::b_operands
};

// An operand of products: a chain of pointwise operators over inputs.
struct Operand {
  ValueId value = kNoValue;
  int source = -1;        // the two-axis input that is streamed, or another that has the
                          // reduced dim, or -1
  bool identity = false;  // the value is the source itself
};

enum class KernelClass : std::uint8_t { kRows, kContraction };

struct KernelFacts {
  Dataflow flow;
  KernelClass kernel_class = KernelClass::kRows;
  int row = -1;                                 // DimId, or -1: one row
  int column = -1;                              // contraction: of B and the outputs
  int reduced = -1;                             // contraction: of the products
  std::vector<RowSum> sums;                     // ordered by pass
  std::vector<SumPass> passes;                  // ordered by phase; with_product ones last
  std::vector<Operand> a_operands, b_operands;  // with_product sums stream a_operands[0]'s source
  std::vector<Product> products;
  // A contraction whose products lie along different columns: one contraction for each column dim,
  // over the inputs and outputs that are its own; blocks of one grid are assigned to all of them.
  // Then `flow` is all of it, `products` counts all, and the rest is the first part's.
  std::vector<KernelFacts> parts;

  // Is output `i` of a contraction elementwise along {row, reduced} (a residual sum kept beside the
  // product)? It is written once, by the blocks of the first columns.
  bool is_side_output(std::size_t i) const;
  // Does input `i` repeat along the row?
  bool is_periodic(int i) const {
    return !flow.periodic.empty() && flow.periodic[static_cast<std::size_t>(i)];
  }
  // Index in `sums` of a value, or -1; index in `products` of a value, or -1.
  int sum_of(ValueId v) const;
  int product_of(ValueId v) const;
  // Whether the value has the dim among its axes.
  bool has_dim(ValueId v, int dim) const;
  // Row values: no axis but the row.
  bool is_row_value(ValueId v) const;
  // Inputs (indices) that `v` reads without passing through a sum or a product.
  std::vector<int> inputs_of(ValueId v) const;
};

// Throws NotLowerable.
KernelFacts analyze(Dataflow flow);
inline KernelFacts analyze(const MuGraph& graph, const BlockGraph& block) {
  return analyze(merge_axes(flatten(graph, block)));
}

// The type whose values `v` certainly has: an input's, or a cast's; nothing when it is float
// arithmetic.
std::optional<DType> exact_type(const Dataflow& flow, ValueId v);

// `v` without broadcasts and casts that change nothing (to fp32, or to the type it has), when
// kElem is bound to `elem`.
ValueId strip(const Dataflow& flow, ValueId v, DType elem);

// Elements between neighbours along `dim` of a dense row-major tensor; 0 if it lacks the dim.
std::int64_t stride_of(const Tensor& tensor, int dim, const Extents& extents);
// The same of a tensor as the workload has it: rows of activations and outputs may be apart.
std::int64_t stride_of(const Tensor& tensor, int dim, const Workload& workload);
// Does the workload say that rows of the tensor are apart?
bool has_row_stride(const Tensor& tensor, const Workload& workload);

}  // namespace tenon::ir
