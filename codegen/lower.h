// Lowering of one custom kernel: its functors, its entry, and how it is launched.
#pragma once

#include <optional>
#include <string>

#include "codegen/expression.h"
#include "ir/family.h"
#include "ir/plan.h"

namespace tenon::codegen {

// A tensor map that a kernel takes: of an input, 64 columns to a box, 128-byte swizzle.
struct MapArg {
  int input = -1;  // index in Dataflow::inputs
  ir::SizeExpr rows;
  std::int64_t columns = 0, row_stride = 0;  // elements
  ir::SizeExpr box_rows;
  int promotion = 0;  // of L2 sectors, bytes
};

// An input that the kernel reads in another order (codegen/device/hopper/repack.cuh): a prepare
// launch rewrites it into a buffer of its own, which takes its place among the arguments.
struct Repack {
  int input = -1;
  bool packed = false;        // in small_m's order; otherwise [column][reduced]
  std::int64_t elements = 0;  // of the workload's type
  std::string entry, code;    // extern "C" entry(const T* from, T* to), 256 threads
  int blocks = 1;
};

// An input whose rows the copy engines cannot read: a launch before the kernel's copies them into a
// buffer of their own (codegen/device/hopper/pad_rows.cuh), which takes their place among the
// arguments.
struct Pad {
  int input = -1;
  ir::SizeExpr elements;    // of the workload's type
  std::string entry, code;  // extern "C" entry(const T* from, T* to, int rows), 256 threads
  ir::SizeExpr rows, blocks;
};

struct Lowered {
  std::string includes;  // headers of codegen/ that the code needs, one a line
  std::string code;      // one namespace and its extern "C" entry
  std::string entry;
  ir::SizeExpr grid_x;
  int grid_y = 1;
  int threads = 0;
  std::int64_t shared_bytes = 0;
  // Workspace of a split reduction, elements of 4 bytes; 0 when there is none.
  ir::SizeExpr partials, counters;
  bool uses_workspace = false;
  bool takes_m = false;
  // Kernels of sm_90a.
  int cluster = 1;                      // blocks, along x
  std::vector<MapArg> maps;             // first of the entry's arguments
  std::optional<ir::SizeExpr> scratch;  // zeroed workspace, elements of 4 bytes; after the outputs
  std::optional<Repack> repack;
  std::optional<Pad> pad;
  std::optional<ir::SizeExpr> tile_rows;  // last of the arguments
  // The entry's arguments: inputs and outputs of the dataflow in order, then partials and
  // counters where there is a workspace, then m where there is a dynamic dim.
};

struct LowerOptions {
  std::string name;        // of the kernel, a C++ identifier
  bool dependent = false;  // launched with programmatic dependent launch
};

// Throws Rejected. `schedule` must be legal for the kernel.
Lowered lower_rows(const ir::KernelFacts& facts, const ir::KernelSchedule& schedule,
                   const ir::Workload& workload, const LowerOptions& options);
Lowered lower_contraction(const ir::KernelFacts& facts, const ir::KernelSchedule& schedule,
                          const ir::Workload& workload, const LowerOptions& options);

// What both share.
class KernelWriter {
 public:
  KernelWriter(const ir::KernelFacts& facts, const ir::Workload& workload,
               const LowerOptions& options, bool tensor_cores, bool workspace);
  const KernelContext& context() const { return context_; }
  // Member of Args for output `i`.
  const std::string& output(std::size_t i) const { return outputs_[i]; }
  // struct Args { … };
  std::string args_struct() const;
  // The extern "C" entry that builds Args and runs `runner`.
  std::string entry_function(const std::string& runner, int threads) const;
  std::string entry() const { return "tenon_" + options_.name; }
  // An entry that several kernels share, each with Args of its own: `body` sees the arguments by
  // their members' names, and `block`, the block's index.
  std::string parts_entry(int threads, const std::string& body) const;
  // Members of Args in order.
  std::vector<std::string> member_names() const;
  // The same for a kernel that takes `maps` tensor maps (map0, map1 …) and, where it has them, a
  // scratch buffer and `tile_rows`; `body` sees them and `args`.
  std::string hopper_entry(int maps, bool scratch, bool tile_rows, int threads, int blocks_per_sm,
                           const std::string& body) const;
  // C++ expression of the number of rows.
  std::string rows_expression() const;
  // Rows for each element of the dynamic dim: of a dim merged into it.
  std::int64_t row_factor() const;
  // Text of the row dim's extent in a SizeExpr, "1" without one.
  std::string rows_size() const;
  ir::SizeExpr size(const std::string& text) const;
  bool takes_m() const { return takes_m_; }

 private:
  struct Member {
    std::string type, name;
  };
  const ir::Workload& workload_;
  LowerOptions options_;
  KernelContext context_;
  std::vector<std::string> outputs_;
  std::vector<Member> members_;  // of Args, in the order of the entry's arguments
  bool takes_m_ = false;
};

// Splits outputs into those with the row axis only and those with another one: indices.
struct OutputKinds {
  std::vector<std::size_t> wide, row_only;
};
OutputKinds output_kinds(const KernelContext& context);

// "template <int i> struct <name>; template <> … alias" that maps indices to structs, as a
// member-free table: `template <int i> using <alias> = typename <alias>Table<i>::Type;`.
std::string index_table(const std::string& alias, const std::vector<std::string>& structs);

}  // namespace tenon::codegen
