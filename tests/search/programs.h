// Programs and helpers of the search's tests.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/mugraph.h"
#include "ir/program.h"
#include "search/search.h"

namespace tenon::search::test {

inline ir::Program rmsnorm_linear() {
  return ir::parse_program(R"(program rmsnorm_linear
dims m, k, n
attribute eps = 1e-6
input x: T[m, k] activation
input g: T[k] parameter
input w: T[k, n] parameter
%sq = square(x)
%ss = sum(%sq, k)
%inv = const(1/k)
%ms = mul(%ss, %inv)
%eps = const(eps)
%ve = add(%ms, %eps)
%r = rsqrt(%ve)
%xr = mul(x, %r)
%xg = mul(%xr, g)
%xc = cast(%xg, T)
%y = matmul(%xc, w, k)
%yc = cast(%y, T)
output y: T = %yc
)");
}

inline ir::Program rmsnorm() {
  return ir::parse_program(R"(program rmsnorm
dims m, k
attribute eps = 1e-6
input x: T[m, k] activation
input g: T[k] parameter
%sq = square(x)
%ss = sum(%sq, k)
%inv = const(1/k)
%ms = mul(%ss, %inv)
%eps = const(eps)
%ve = add(%ms, %eps)
%r = rsqrt(%ve)
%xr = mul(x, %r)
%xg = mul(%xr, g)
%yc = cast(%xg, T)
output y: T = %yc
)");
}

inline ir::Program linear() {
  return ir::parse_program(R"(program linear
dims m, k, n
input x: T[m, k] activation
input w: T[k, n] parameter
%y = matmul(x, w, k)
%yc = cast(%y, T)
output y: T = %yc
)");
}

inline ir::Program two_linears() {
  return ir::parse_program(R"(program two_linears
dims m, k, n
input x: T[m, k] activation
input w: T[k, n] parameter
input v: T[k, n] parameter
%y = matmul(x, w, k)
%yc = cast(%y, T)
%z = matmul(x, v, k)
%zc = cast(%z, T)
output y: T = %yc
output z: T = %zc
)");
}

// Rows of unit length: the smallest program with a norm.
inline ir::Program unit_rows() {
  return ir::parse_program(R"(program unit_rows
dims m, k
input x: T[m, k] activation
%sq = square(x)
%ss = sum(%sq, k)
%r = rsqrt(%ss)
%xr = mul(x, %r)
%yc = cast(%xr, T)
output y: T = %yc
)");
}

// Columns of X scaled, then a product: the smallest program with something to fold.
inline ir::Program scaled_linear() {
  return ir::parse_program(R"(program scaled_linear
dims m, k, n
input x: T[m, k] activation
input g: T[k] parameter
input w: T[k, n] parameter
%xg = mul(x, g)
%xc = cast(%xg, T)
%y = matmul(%xc, w, k)
%yc = cast(%y, T)
output y: T = %yc
)");
}

// A residual that is summed, kept, and multiplied.
inline ir::Program add_linear() {
  return ir::parse_program(R"(program add_linear
dims m, k, n
input x: T[m, k] activation
input e: T[m, k] activation
input w: T[k, n] parameter
%h = add(x, e)
%hc = cast(%h, T)
%y = matmul(%hc, w, k)
%yc = cast(%y, T)
output h: T = %hc
output y: T = %yc
)");
}

inline std::set<std::string> identities(const Result& result) {
  std::set<std::string> out;
  for (const ir::MuGraph& g : result.graphs) out.insert(ir::identity(g));
  return out;
}

inline int count_nodes(const ir::Graph& graph, ir::OpKind op) {
  int n = 0;
  for (const ir::Node& node : graph.nodes()) n += node.op == op;
  return n;
}

inline int count_accumulators(const ir::BlockGraph& block, const std::string& kind) {
  int n = 0;
  for (const ir::Accumulator& acc : block.accumulators) n += acc.kind == kind;
  return n;
}

inline bool is_split(const ir::BlockGraph& block) {
  for (const ir::GridDim& d : block.grid)
    if (d.split) return true;
  return false;
}

}  // namespace tenon::search::test
