// rmsnorm_linear and two of its µGraphs built by hand through the factories, for tests that
// must not depend on the text form.
#pragma once

#include "ir/mugraph.h"

namespace tenon::ir::testing {

inline constexpr DimId kM = 0, kK = 1, kN = 2;

inline Axes full(std::initializer_list<DimId> dims) {
  Axes axes;
  for (DimId d : dims) axes.push_back({d, kFull});
  return axes;
}

inline Constant inverse_of(DimId dim) { return Constant{Rational{1, 1}, {{dim, -1}}, {}}; }
inline Constant epsilon() { return Constant{Rational{1, 1}, {}, {{"eps", 1}}}; }

inline Signature signature() {
  Signature s;
  s.program = "rmsnorm_linear";
  s.dims = {"m", "k", "n"};
  s.attributes = {{"eps", Rational{1, 1000000}}};
  s.inputs = {{"x", Role::kActivation, DType::kElem, full({kM, kK})},
              {"g", Role::kParameter, DType::kElem, full({kK})},
              {"w", Role::kParameter, DType::kElem, full({kK, kN})}};
  s.outputs = {{"y", DType::kElem, kNoValue}};
  s.output_axes = {full({kM, kN})};
  return s;
}

// rsqrt(sum/k + eps)
inline ValueId scale_of(Graph& g, ValueId sum) {
  ValueId mean = g.binary(OpKind::kMul, sum, g.constant(inverse_of(kK)));
  return g.unary(OpKind::kRsqrt, g.binary(OpKind::kAdd, mean, g.constant(epsilon())));
}

inline Program rmsnorm_linear() {
  Program p;
  p.signature = signature();
  Graph& g = p.graph;
  for (const ProgramInput& in : p.signature.inputs) g.input(in.name, in.axes);
  ValueId r = scale_of(g, g.sum(g.unary(OpKind::kSquare, 0), kK));
  ValueId normal = g.binary(OpKind::kMul, g.binary(OpKind::kMul, 0, r), 1);
  ValueId y = g.matmul(g.cast(normal, DType::kElem), 2, kK);
  p.signature.outputs[0].value = g.cast(y, DType::kElem);
  return p;
}

// One pass over k with γ folded into W at load; `split` shares k out over blocks too.
inline MuGraph one_pass(bool split) {
  MuGraph u;
  u.signature = signature();
  for (const ProgramInput& in : u.signature.inputs)
    u.tensors.push_back({in.name, TensorKind::kInput, in.dtype, in.axes});
  u.tensors.push_back({"y", TensorKind::kOutput, DType::kElem, full({kM, kN})});
  u.tensors.push_back({"wg", TensorKind::kPrepared, DType::kElem, full({kK, kN})});
  Graph& p = u.prepare.graph;
  ValueId pg = p.input("g", full({kK}));
  ValueId pw = p.input("w", full({kK, kN}));
  u.prepare.outputs = {{4, p.cast(p.binary(OpKind::kMul, pw, pg), DType::kElem)}};

  BlockGraph b;
  b.grid = {{kM, false}, {kN, false}};
  if (split) b.grid.push_back({kK, true});
  b.loop = {kK};
  Part k_part = split ? kGridLoop : kLoop;
  b.inputs = {{0, {{kGrid, 0}, {k_part, 0}}}, {4, {{k_part, 0}, {kGrid, 0}}}};
  for (const BlockInput& in : b.inputs) {
    const Tensor& t = u.tensors[static_cast<std::size_t>(in.tensor)];
    b.graph.input(t.name, tiled_axes(t, in));
  }
  Graph& g = b.graph;
  b.accumulators.push_back(make_sum_accumulator(g, g.unary(OpKind::kSquare, 0), kK));
  ValueId sum = g.accumulated(0, 0, result_axes(b.accumulators[0], 0));
  b.accumulators.push_back(make_matmul_accumulator(g, 0, 1, kK));
  ValueId product = g.accumulated(1, 0, result_axes(b.accumulators[1], 0));
  ValueId y = g.cast(g.binary(OpKind::kMul, product, scale_of(g, sum)), DType::kElem);
  b.outputs = {{3, y}};
  u.kernels.push_back({"main", b});
  return u;
}

}  // namespace tenon::ir::testing
