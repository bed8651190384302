// The functors that a generated kernel hands to the device library: how rows, operands, sums
// and outputs are computed element by element. Their shapes are documented where they are used:
// codegen/device/portable/{row_sums,rows,operand_tile,contraction}.cuh.
#pragma once

#include <string>
#include <vector>

#include "codegen/expression.h"

namespace tenon::codegen {

// struct <name> { … static make(args, m, sums); }: the values of a row that `values` use.
std::string row_struct(const KernelContext& context, const std::string& name,
                       const std::vector<ir::ValueId>& values);

// How a chain walks its tensors: coordinate r, then runs along coordinate c.
struct Walk {
  int r_dim = -1;
  int c_dim = -1;
  std::string r = "m", c = "k";  // their names
  int source = -1;               // the input that arrives as `x`, or -1
};

// A sum pass: struct <name> with accumulate. `row_name` is the struct of its row values.
std::string pass_struct(const KernelContext& context, const std::string& name,
                        const ir::SumPass& pass, const std::string& row_name, bool cached);

// An operand of products. Throws Rejected when its chain needs what its place does not have.
std::string operand_struct(const KernelContext& context, const std::string& name,
                           const ir::Operand& operand, const Walk& walk,
                           const std::string& row_name, bool uses_rows, bool transposed);

// An output with two axes of a rows kernel.
std::string output_struct(const KernelContext& context, const std::string& name,
                          const ir::Dataflow::Output& output, const std::string& member,
                          const std::string& row_name, int source, bool cached);

// An output with at most the row axis.
std::string row_output_struct(const KernelContext& context, const std::string& name,
                              const ir::Dataflow::Output& output, const std::string& member,
                              const std::string& row_name);

// An output [row, column] of a contraction: { Args, Row, row(args, m, sums),
// apply(args, row, acc…, m, n) }.
std::string epilogue_struct(const KernelContext& context, const std::string& name,
                            const ir::Dataflow::Output& output, const std::string& member);

// The input that an output's chain streams: one along `c_dim`, or -1.
int output_source(const KernelContext& context, const ir::Dataflow::Output& output, int c_dim);

// The dim of an output that is not the row, or -1.
int inner_dim(const KernelContext& context, const ir::Tensor& tensor);

}  // namespace tenon::codegen
