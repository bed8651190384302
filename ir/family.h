// Schedule families: the ways in which a kernel can be lowered, their parameters, the values
// worth trying, and which combinations are legal. Search enumerates them, code generation reads
// them; an illegal one is rejected with a reason and never compiled.
//
//   rows         one row by part of a warp, or by a block (kernels without a product)
//   contraction  one tile of outputs by a block, sm_80 and later (kernels with products)
//   library      the vendor's product (cuBLASLt)
//   host         blocked loops on the CPU
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/kernel_facts.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "ir/workload.h"

namespace tenon::ir {

struct ParamSpec {
  std::string name;
  std::string meaning;
};
struct FamilySpec {
  std::string name;
  std::string meaning;
  std::vector<ParamSpec> params;
};
// All families, in the order in which they are tried.
const std::vector<FamilySpec>& families();
// Throws UserError for an unknown name.
const FamilySpec& family(const std::string& name);

// A kernel of a µGraph as families see it.
struct KernelView {
  std::string name;
  const LibraryMatmul* library = nullptr;
  std::vector<Tensor> tensors;       // of the µGraph, when it is a library product
  std::optional<KernelFacts> facts;  // of a custom kernel that can be lowered
  std::string reason;                // why a custom kernel cannot
};
KernelView view(const MuGraph& graph, std::size_t kernel);

// The workload as the kernel sees it: with the extent of its merged dims.
Workload kernel_workload(const KernelFacts& facts, const Workload& workload);

// Why the schedule is not legal for the kernel, or nothing when it is. Every parameter must be
// one that its family has; parameters left out have the values of `complete`.
std::optional<std::string> illegal(const KernelView& kernel, const KernelSchedule& schedule,
                                   const Workload& workload, const Target& target);

// The families that can lower the kernel on the target. Empty: `why` says why.
std::vector<std::string> families_for(const KernelView& kernel, const Workload& workload,
                                      const Target& target, std::string* why = nullptr);

// Every legal schedule of the kernel in a family, in a fixed order.
std::vector<KernelSchedule> enumerate_schedules(const KernelView& kernel, const std::string& family,
                                                const Workload& workload, const Target& target);

// A legal schedule that suits the kernel without search, in the first family for it. Throws
// NotLowerable when there is none.
KernelSchedule default_schedule(const KernelView& kernel, const Workload& workload,
                                const Target& target);

// A row kernel's or contraction's parameters with their defaults filled in.
struct RowsParams {
  int threads = 128;  // of a block
  int group = 32;     // threads that share a row: a power of two up to 32, or `threads`
  int splits = 1;     // blocks that share a row's sums
};
RowsParams rows_params(const KernelSchedule& schedule);

struct ContractionParams {
  int tile_m = 64, tile_n = 64, tile_k = 64;
  int warps_m = 2, warps_n = 2;  // how the block's warps share out the tile
  int stages = 3;                // of the ring in shared memory
  int splits = 1;                // blocks that share a tile's reduction
  int stream = 0;   // stream-K: blocks that share all steps of all tiles evenly; 0: off
  int group_m = 8;  // rows of tiles that are walked together
  int fma = 0;      // 1: fp32 fused multiply-adds although the elements have 16 bits
  int threads() const { return 32 * warps_m * warps_n; }
  bool leaves_parts() const { return splits > 1 || stream > 0; }  // a tile may be of several blocks
};
ContractionParams contraction_params(const KernelSchedule& schedule);

// Whether a contraction runs on the tensor cores: 16-bit elements, unless `fma`.
bool uses_tensor_cores(const ContractionParams& params, DType elem);

// How a contraction lays out what its operands use of row values, and its sums.
struct ContractionLayout {
  bool uses_rows = false;          // operands or loop sums use values of the row
  int row_floats = 0;              // how many
  std::vector<bool> b_transposed;  // per B operand: stored [column, reduced]
};
ContractionLayout contraction_layout(const KernelFacts& facts, const Workload& workload);

// Dynamic shared memory of a contraction's block, and floats of one block's partial state.
std::int64_t contraction_shared_bytes(const KernelFacts& facts, const ContractionParams& params,
                                      const Workload& workload);
std::int64_t contraction_partial_floats(const KernelFacts& facts, const ContractionParams& params);

// Values of the row that `values` use: their maximal operands that have no axis but the row and
// depend on an input, a sum or the extent of the dynamic dim. In order of ValueId.
std::vector<ValueId> row_values_of(const KernelFacts& facts, const std::vector<ValueId>& values,
                                   const Workload& workload);

// Extents of the dynamic dim that one plan serves: those for which the tuned one's schedule suits.
struct Bucket {
  std::int64_t low = 1, high = 1;  // inclusive
};
Bucket bucket_of(std::int64_t m);

// The dim whose extent varies between launches: "m", or -1.
int dynamic_dim(const Workload& workload);

}  // namespace tenon::ir
