// The common accumulators: sums and products over the loop.
#include "ir/error.h"
#include "ir/mugraph.h"

namespace tenon::ir {

namespace {

// Both factories accumulate a term by addition; they differ in the term.
Accumulator make_additive(std::string kind, DimId dim, std::vector<ValueId> operands,
                          const Axes& state) {
  Accumulator acc;
  acc.kind = std::move(kind);
  acc.dim = dim;
  acc.operands = std::move(operands);
  acc.states = {state};

  ValueId zero = acc.init.constant(Constant{Rational{0, 1}, {}, {}});
  if (!state.empty()) zero = acc.init.broadcast(zero, state);
  acc.init_out = {zero};

  ValueId left = acc.merge.input("left", state);
  ValueId right = acc.merge.input("right", state);
  acc.merge_out = {acc.merge.binary(OpKind::kAdd, left, right)};

  acc.finalize_out = {acc.finalize.input("s", state)};
  return acc;
}

}  // namespace

Accumulator make_sum_accumulator(const Graph& body, ValueId x, DimId dim) {
  Graph probe;
  ValueId term = probe.sum(probe.input("x", body.axes(x)), dim);
  Accumulator acc = make_additive("sum", dim, {x}, probe.axes(term));
  ValueId s = acc.update.input("s", acc.states[0]);
  ValueId in = acc.update.input("x", body.axes(x));
  acc.update_out = {acc.update.binary(OpKind::kAdd, s, acc.update.sum(in, dim))};
  return acc;
}

Accumulator make_matmul_accumulator(const Graph& body, ValueId a, ValueId b, DimId dim) {
  Graph probe;
  ValueId pa = probe.input("a", body.axes(a));
  ValueId pb = probe.input("b", body.axes(b));
  ValueId term = probe.matmul(pa, pb, dim);
  Accumulator acc = make_additive("matmul", dim, {a, b}, probe.axes(term));
  ValueId s = acc.update.input("s", acc.states[0]);
  ValueId ia = acc.update.input("a", body.axes(a));
  ValueId ib = acc.update.input("b", body.axes(b));
  acc.update_out = {acc.update.binary(OpKind::kAdd, s, acc.update.matmul(ia, ib, dim))};
  return acc;
}

Axes result_axes(const Accumulator& accumulator, int result) {
  TENON_CHECK(result >= 0 && result < static_cast<int>(accumulator.finalize_out.size()),
              "accumulator result");
  return accumulator.finalize.axes(accumulator.finalize_out[static_cast<std::size_t>(result)]);
}

}  // namespace tenon::ir
