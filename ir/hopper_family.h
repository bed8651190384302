// Schedule families whose operands need no arithmetic on their way to the tensor cores, so that
// they can pass through the copy engines:
//
// - small_m, M up to 64: weights stream through per-warp rings into mma.sync, bound by reading
// them.
//   Clusters and bulk copies need sm_90a; the rest is there from sm_80 on.
// - multicast, M up to 64, sm_90a: wgmma, X delivered to the blocks of a cluster at once.
// - gemm, sm_90a: persistent, warp-specialized wgmma with bulk copies.
//
// Their device code is codegen/device/{small_m,gemm}; what makes a schedule legal is stated there
// next to each template and here as sentences.
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

// A kernel that the families can lower: Y = epilogue(row sums of x, x · w), with x [row, reduced]
// and w over {reduced, column}, both of the workload's 16-bit type and used as they are.
struct StreamedProduct {
  int x = -1;                       // index in Dataflow::inputs
  int w = -1;                       // likewise
  bool w_rows_are_columns = false;  // w is [column, reduced]; otherwise [reduced, column]
  int sums = 0;  // of functions of x's elements alone, gathered along with the product
  bool sum_of_squares = false;  // the only sum is Σ x²
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t x_stride = 1, y_stride = 1;  // elements between rows
  bool split = false;                       // the µGraph splits the reduction over blocks
  // Rows of x are whole pieces of 16 bytes and begin at multiples of them.
  bool x_rows_aligned() const { return k % 8 == 0 && x_stride % 8 == 0; }
};
// Does the kernel read x from a copy whose rows the copy engines can read?
bool pads_rows(const StreamedProduct& form, const KernelSchedule& schedule);
// Nothing when the kernel is of another form; `why` then says what is different.
std::optional<StreamedProduct> streamed_product(const KernelFacts& facts, const Workload& workload,
                                                std::string* why = nullptr);

struct SmallMParams {
  int rows = 16, warps = 16, columns = 256, unit = 128, stages = 3, cluster = 1;
  int groups = 0;  // clusters; 0: as few as keep the longest share as short
  int epilogue_warps = 4, partials = 2, chains = 1, blocks_per_sm = 1, early = 2;
  int weights =
      0;  // 0 packed bulk copies, 1 packed cp.async, 2 packed registers, 3 rows [column, reduced]
  int interleaved = 0, staged = 1, stats_first = 0, evict_first = 1;
  bool packed() const { return weights != 3; }
  int threads() const { return 32 * (warps + epilogue_warps); }
};
struct MulticastParams {
  int rows = 64, tile_n = 48, stages = 14, share = 1, early = 4, evict_first = 1;
};
struct GemmParams {
  int tile_m = 128, tile_n = 128, stages = 4, consumers = 2, ping_pong = 0;
  int cluster_m = 1, cluster_n = 1, split_k = 1;
  int raster = 0, group = 8;               // 0 along m, 1 along n
  int hint_x = 0, hint_w = 0, hint_y = 0;  // 0 none, 1 evict first, 2 evict last
  int producer_registers = 40;
  // 0 none, 2 rows once a launch, 3 slices by tiles, 4 by every tile, 5 rows by spare blocks
  int statistics = 0;
  int slices = 8, rotate = 0, row_slots = 3, promotion = 256, late_trigger = 0;
  int stores = 0;  // 0 staged in shared memory, 1 shuffled between lanes
  int cluster() const { return cluster_m * cluster_n * split_k; }
  int threads() const { return 128 * (consumers + 1); }
  // Blocks wait for what others publish, so all must be resident.
  bool exchanges_sums() const { return statistics == 2 || statistics == 3 || statistics == 5; }
};
SmallMParams small_m_params(const KernelSchedule& schedule);
MulticastParams multicast_params(const KernelSchedule& schedule);
GemmParams gemm_params(const KernelSchedule& schedule);

// Does a kernel of this schedule read W where it is, or a copy in an order of its own that prepare
// makes? Rows of W that are no multiple of 128 bytes are read in place only for the sake of `keep`:
// padded ones touch fewer sectors of memory.
bool reads_weights_in_place(const StreamedProduct& form, const KernelSchedule& schedule, bool keep);

// Clusters a launch has, and the most tiles of 16 columns that one gets (small_m).
int small_m_groups(const SmallMParams& p, std::int64_t n, const Target& target);
int small_m_most_tiles(const SmallMParams& p, std::int64_t n, const Target& target);
// Dynamic shared memory of a block.
std::int64_t small_m_shared_bytes(const SmallMParams& p, int most_tiles);
std::int64_t multicast_shared_bytes(const MulticastParams& p);
std::int64_t gemm_shared_bytes(const GemmParams& p, int sums);
// Blocks of clusters of `cluster` that an H200 keeps resident at one block a multiprocessor.
int resident_blocks(int cluster, const Target& target);

// Why the schedule is not legal, or nothing.
std::optional<std::string> illegal_hopper(const KernelFacts& facts, const KernelSchedule& schedule,
                                          const Workload& workload, const Target& target);
// Schedules worth trying, legal or not, in a fixed order.
std::vector<KernelSchedule> candidates_hopper(const std::string& family, const KernelFacts& facts,
                                              const Workload& workload, const Target& target);
bool is_hopper_family(const std::string& name);
// The same schedule with parameters that have their default values left out, as `candidates_hopper`
// writes them; of another family, the schedule itself.
KernelSchedule canonical_hopper(const KernelSchedule& schedule);
// The same schedule with every parameter of its family written out.
KernelSchedule complete_hopper(const KernelSchedule& schedule);

}  // namespace tenon::ir
