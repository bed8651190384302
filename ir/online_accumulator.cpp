#include "ir/online_accumulator.h"

#include "ir/error.h"

namespace tenon::ir {

namespace {

ValueId zero(Graph& graph, const Axes& axes) {
  ValueId v = graph.constant(Constant{Rational{0, 1}, {}, {}});
  return axes.empty() ? v : graph.broadcast(v, axes);
}

// How many elements of `dim` the value `x` has.
ValueId count_of(Graph& graph, ValueId x, DimId dim) {
  const Axes& axes = graph.axes(x);
  Axes along = {axes[static_cast<std::size_t>(find_dim(axes, dim))]};
  ValueId one = graph.constant(Constant{Rational{1, 1}, {}, {}});
  return graph.sum(graph.broadcast(one, along), dim);
}

// left·right over the axes of both.
ValueId outer(Graph& graph, ValueId left, ValueId right, const Axes& axes) {
  return graph.binary(OpKind::kMul, graph.broadcast(left, axes), right);
}

Axes without(const Axes& axes, DimId dim) {
  Axes out;
  for (const Axis& axis : axes)
    if (axis.dim != dim) out.push_back(axis);
  return out;
}

struct Moved {
  ValueId mean, by, count;  // the mean of all so far, what it moved by, how many they are
  ValueId deviation;        // of this step's elements from it
};

// The mean with another step's elements (there may be none, but some came before then). What is
// left about it is spread once more, so that it is exact to the last place however large it is.
Moved move_mean(Graph& g, ValueId mean, ValueId count, ValueId x, DimId dim) {
  ValueId total = g.binary(OpKind::kAdd, count, count_of(g, x, dim));
  auto left = [&](ValueId about) { return g.sum(g.binary(OpKind::kSub, x, about), dim); };
  ValueId rough = g.binary(OpKind::kAdd, mean, g.binary(OpKind::kDiv, left(mean), total));
  ValueId before =
      g.binary(OpKind::kMul, g.binary(OpKind::kSub, rough, mean), count);  // of those before
  ValueId rest = g.binary(OpKind::kDiv, g.binary(OpKind::kSub, left(rough), before), total);
  ValueId moved = g.binary(OpKind::kAdd, rough, rest);
  return {moved, g.binary(OpKind::kSub, moved, mean), total, g.binary(OpKind::kSub, x, moved)};
}

struct Merged {
  ValueId apart, mean, count, share;  // apart = right mean - left mean; share = part of the right
};

Merged merge_means(Graph& g, ValueId left_mean, ValueId left_count, ValueId right_mean,
                   ValueId right_count) {
  ValueId total = g.binary(OpKind::kAdd, left_count, right_count);
  ValueId apart = g.binary(OpKind::kSub, right_mean, left_mean);
  ValueId share = g.binary(OpKind::kDiv, right_count, total);
  ValueId mean = g.binary(OpKind::kAdd, left_mean, g.binary(OpKind::kMul, apart, share));
  return {apart, mean, total, share};
}

}  // namespace

Accumulator make_deviation_accumulator(const Graph& body, ValueId x, DimId dim) {
  const Axes given = body.axes(x);
  const Axes row = without(given, dim);
  Accumulator acc;
  acc.kind = "custom";
  acc.dim = dim;
  acc.operands = {x};
  acc.states = {row, row, {}};  // mean, sum of squared deviations, count
  acc.init_out = {zero(acc.init, row)};
  acc.init_out.push_back(acc.init_out[0]);
  acc.init_out.push_back(row.empty() ? acc.init_out[0] : zero(acc.init, {}));

  Graph& u = acc.update;
  ValueId mean = u.input("mean", row);
  ValueId squares = u.input("squares", row);
  ValueId count = u.input("count", {});
  ValueId in = u.input("x", given);
  Moved moved = move_mean(u, mean, count, in, dim);
  ValueId more = u.binary(OpKind::kAdd, u.sum(u.unary(OpKind::kSquare, moved.deviation), dim),
                          u.binary(OpKind::kMul, u.unary(OpKind::kSquare, moved.by), count));
  acc.update_out = {moved.mean, u.binary(OpKind::kAdd, squares, more), moved.count};

  Graph& m = acc.merge;
  ValueId lm = m.input("mean.left", row);
  ValueId ls = m.input("squares.left", row);
  ValueId lc = m.input("count.left", {});
  ValueId rm = m.input("mean.right", row);
  ValueId rs = m.input("squares.right", row);
  ValueId rc = m.input("count.right", {});
  Merged merged = merge_means(m, lm, lc, rm, rc);
  ValueId between = m.binary(OpKind::kMul, m.unary(OpKind::kSquare, merged.apart),
                             m.binary(OpKind::kMul, merged.share, lc));
  acc.merge_out = {merged.mean, m.binary(OpKind::kAdd, m.binary(OpKind::kAdd, ls, rs), between),
                   merged.count};

  ValueId fm = acc.finalize.input("mean", row);
  ValueId fs = acc.finalize.input("squares", row);
  acc.finalize.input("count", {});
  acc.finalize_out = {fm, fs};
  return acc;
}

Accumulator make_centered_matmul_accumulator(const Graph& body, ValueId x, ValueId b, DimId dim) {
  const Axes given = body.axes(x);
  const Axes other = body.axes(b);
  const Axes row = without(given, dim);
  const Axes column = without(other, dim);
  Graph probe;
  ValueId px = probe.input("x", given);
  ValueId pb = probe.input("b", other);
  const Axes both = probe.axes(probe.matmul(px, pb, dim));
  Accumulator acc;
  acc.kind = "custom";
  acc.dim = dim;
  acc.operands = {x, b};
  acc.states = {both, row, column, {}};  // sum of products, mean, sum of b, count
  for (const Axes& axes : acc.states) acc.init_out.push_back(zero(acc.init, axes));

  Graph& u = acc.update;
  ValueId products = u.input("products", both);
  ValueId mean = u.input("mean", row);
  ValueId sum = u.input("sum", column);
  ValueId count = u.input("count", {});
  ValueId in = u.input("x", given);
  ValueId weights = u.input("b", other);
  Moved moved = move_mean(u, mean, count, in, dim);
  ValueId centered = u.cast(moved.deviation, DType::kElem);
  ValueId more = u.binary(OpKind::kAdd, products, u.matmul(centered, weights, dim));
  acc.update_out = {u.binary(OpKind::kSub, more, outer(u, moved.by, sum, both)), moved.mean,
                    u.binary(OpKind::kAdd, sum, u.sum(weights, dim)), moved.count};

  Graph& m = acc.merge;
  ValueId lp = m.input("products.left", both);
  ValueId lm = m.input("mean.left", row);
  ValueId ls = m.input("sum.left", column);
  ValueId lc = m.input("count.left", {});
  ValueId rp = m.input("products.right", both);
  ValueId rm = m.input("mean.right", row);
  ValueId rs = m.input("sum.right", column);
  ValueId rc = m.input("count.right", {});
  Merged merged = merge_means(m, lm, lc, rm, rc);
  auto about = [&](ValueId p, ValueId from, ValueId s) {
    return m.binary(OpKind::kSub, p, outer(m, m.binary(OpKind::kSub, merged.mean, from), s, both));
  };
  acc.merge_out = {m.binary(OpKind::kAdd, about(lp, lm, ls), about(rp, rm, rs)), merged.mean,
                   m.binary(OpKind::kAdd, ls, rs), merged.count};

  acc.finalize_out = {acc.finalize.input("products", both)};
  acc.finalize.input("mean", row);
  acc.finalize.input("sum", column);
  acc.finalize.input("count", {});
  return acc;
}

bool is_deviation_accumulator(const Accumulator& acc, const Graph& body) {
  return acc.kind == "custom" && acc.operands.size() == 1 &&
         find_dim(body.axes(acc.operands[0]), acc.dim) >= 0 &&
         acc == make_deviation_accumulator(body, acc.operands[0], acc.dim);
}

bool is_centered_matmul_accumulator(const Accumulator& acc, const Graph& body) {
  if (acc.kind != "custom" || acc.operands.size() != 2) return false;
  for (ValueId operand : acc.operands)
    if (find_dim(body.axes(operand), acc.dim) < 0) return false;
  return acc == make_centered_matmul_accumulator(body, acc.operands[0], acc.operands[1], acc.dim);
}

}  // namespace tenon::ir
