#include "ir/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <set>

#include "ir/error.h"
#include "ir/hopper_family.h"

namespace tenon::ir {

namespace {

constexpr std::int64_t kMaxGrid = 2147483647;  // blocks along x
constexpr std::int64_t kMaxExtent = 2147483647 - (1 << 20);
constexpr int kMaxSplits = 256;
constexpr int kMaxStream = 65535;
constexpr std::int64_t kLibraryAlgorithms = 8;  // of its heuristics; each wins somewhere

bool power_of_two(std::int64_t v) {
  return v > 0 && std::has_single_bit(static_cast<std::uint64_t>(v));
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t extent_of(const Workload& workload, int dim) {
  return dim < 0 ? 1 : workload.extents[static_cast<std::size_t>(dim)];
}

const std::string& dim_name(const Workload& workload, int dim) {
  return workload.program.signature.dims[static_cast<std::size_t>(dim)];
}

using Reason = std::optional<std::string>;

Reason check_static(const Workload& workload, int dim, const std::string& what) {
  if (dim >= 0 && dim == dynamic_dim(workload))
    return fmt::format("{} is {}, whose extent varies between launches", what,
                       dim_name(workload, dim));
  if (extent_of(workload, dim) > kMaxExtent)
    return fmt::format("{} is {} = {}, more than {}", what, dim_name(workload, dim),
                       extent_of(workload, dim), kMaxExtent);
  return std::nullopt;
}

// Splits: an obligation of µGraphs that split a reduction, and of no others.
Reason check_splits(const KernelFacts& facts, std::int64_t splits, std::int64_t steps) {
  if (splits < 1 || splits > kMaxSplits)
    return fmt::format("splits={} is not between 1 and {}", splits, kMaxSplits);
  if (splits > 1 && !facts.flow.split)
    return fmt::format("splits={}, but the kernel does not split its reduction", splits);
  if (splits == 1 && facts.flow.split && steps > 1)
    return "splits=1, but the kernel splits its reduction";
  if (splits > 1 && splits > steps)
    return fmt::format("splits={} is more than the {} steps of the reduction", splits, steps);
  return std::nullopt;
}

// Stream-K cuts reductions wherever a block's share ends, so it is a way to split one.
Reason check_stream(const KernelFacts& facts, const ContractionParams& p, std::int64_t steps) {
  if (p.stream < 0 || p.stream > kMaxStream)
    return fmt::format("stream={} is not between 0 and {}", p.stream, kMaxStream);
  if (!facts.flow.split)
    return fmt::format("stream={}, but the kernel does not split its reduction", p.stream);
  if (p.splits > 1)
    return fmt::format("splits={} and stream={} are two ways to split", p.splits, p.stream);
  if (steps < 2) return fmt::format("stream={}, but the reduction has one step", p.stream);
  return std::nullopt;
}

// --- rows ---------------------------------------------------------------------------------

std::int64_t longest_pass(const KernelFacts& facts, const Workload& workload) {
  std::int64_t longest = 1;
  for (const SumPass& pass : facts.passes)
    longest = std::max(longest, extent_of(workload, pass.dim));
  return longest;
}

int run_elements(DType elem) { return static_cast<int>(16 / size_of(elem)); }

Reason illegal_rows(const KernelFacts& facts, const KernelSchedule& schedule,
                    const Workload& workload) {
  if (facts.kernel_class != KernelClass::kRows) return "the rows family has no products";
  RowsParams p = rows_params(schedule);
  if (p.threads < 32 || p.threads > 1024 || p.threads % 32 != 0)
    return fmt::format("threads={} is not a multiple of 32 up to 1024", p.threads);
  bool part_of_warp = power_of_two(p.group) && p.group <= 32;
  if (!part_of_warp && p.group != p.threads)
    return fmt::format("group={} is neither a power of two up to 32 nor all {} threads", p.group,
                       p.threads);
  for (const SumPass& pass : facts.passes)
    if (Reason r = check_static(workload, pass.dim, "the summed dim")) return r;
  for (const Dataflow::Output& out : facts.flow.outputs)
    for (const Axis& axis : out.tensor.axes)
      if (axis.dim != facts.row)
        if (Reason r = check_static(workload, axis.dim, "the inner dim of " + out.tensor.name))
          return r;
  if (extent_of(workload, facts.row) > kMaxExtent)
    return fmt::format("{} rows are more than {}", extent_of(workload, facts.row), kMaxExtent);
  std::int64_t step = std::int64_t{p.group} * run_elements(workload.dtype);
  if (Reason r = check_splits(facts, p.splits, ceil_div(longest_pass(facts, workload), step)))
    return r;
  if (p.splits > 1 && (facts.passes.empty() || facts.passes.back().phase > 1))
    return "a split kernel has exactly one phase of sums";
  return std::nullopt;
}

// --- contraction --------------------------------------------------------------------------

Reason illegal_tiles(const KernelFacts& facts, const ContractionParams& p, bool tensor_cores,
                     const ContractionLayout& layout) {
  if (p.tile_m < 1 || p.tile_n < 1 || p.tile_k < 1 || p.warps_m < 1 || p.warps_n < 1)
    return "tiles and warps must be positive";
  if (p.threads() > 512)
    return fmt::format("warps_m={} × warps_n={} are more than 16 warps", p.warps_m, p.warps_n);
  int rows = tensor_cores ? 16 : 4;
  int columns = tensor_cores ? 16 : 32;
  if (p.tile_m % (rows * p.warps_m) != 0)
    return fmt::format("tile_m={} is not a multiple of {} rows for each of {} warps", p.tile_m,
                       rows, p.warps_m);
  if (p.tile_n % (columns * p.warps_n) != 0)
    return fmt::format("tile_n={} is not a multiple of {} columns for each of {} warps", p.tile_n,
                       columns, p.warps_n);
  if (p.tile_m > 256 || p.tile_n > 512)
    return fmt::format("tile_m={}, tile_n={} exceed 256 × 512", p.tile_m, p.tile_n);
  int chunk = tensor_cores ? 8 : 4;
  if (!power_of_two(p.tile_k) || p.tile_k < 2 * chunk || p.tile_k > 32 * chunk)
    return fmt::format("tile_k={} is not a power of two from {} to {}", p.tile_k, 2 * chunk,
                       32 * chunk);
  // A thread owns one column of 16-byte chunks of every tile (operand_tile.cuh).
  bool b_rows_are_k = std::find(layout.b_transposed.begin(), layout.b_transposed.end(), false) !=
                      layout.b_transposed.end();
  if (p.threads() % (p.tile_k / chunk) != 0)
    return fmt::format("{} threads do not share out tile_k={} evenly", p.threads(), p.tile_k);
  if (b_rows_are_k && p.threads() % (p.tile_n / chunk) != 0)
    return fmt::format("{} threads do not share out tile_n={} evenly", p.threads(), p.tile_n);
  std::int64_t accumulators =
      static_cast<std::int64_t>(facts.products.size()) * p.tile_m * p.tile_n / p.threads();
  // Fragments of the operands come on top; beyond this the compiler spills.
  std::int64_t limit = tensor_cores ? 128 : 64;
  if (accumulators > limit)
    return fmt::format("{} accumulators a thread are more than {}", accumulators, limit);
  return std::nullopt;
}

// Chunks of row sums that a thread holds, and registers for fragments, next to accumulators.
Reason illegal_registers(const KernelFacts& facts, const ContractionParams& p, bool tensor_cores) {
  int loop_sums = 0;
  for (const SumPass& pass : facts.passes)
    if (pass.with_product) loop_sums = pass.count;
  int chunk = tensor_cores ? 8 : 4;
  std::int64_t owned = ceil_div(std::int64_t{p.tile_m} * p.tile_k / chunk, p.threads());
  std::int64_t registers =
      static_cast<std::int64_t>(facts.products.size()) * p.tile_m * p.tile_n / p.threads() +
      loop_sums * owned;
  std::int64_t warp_m = p.tile_m / p.warps_m;
  if (tensor_cores)
    registers += static_cast<std::int64_t>(facts.a_operands.size()) * warp_m / 16 * 4;
  else
    registers += warp_m + 16;
  registers += 64;  // addresses, chunks in flight
  std::int64_t available = std::min<std::int64_t>(255, 65536 / p.threads());
  if (registers > available)
    return fmt::format("about {} registers a thread are more than {}", registers, available);
  return std::nullopt;
}

Reason illegal_contraction(const KernelFacts& facts, const KernelSchedule& schedule,
                           const Workload& workload, const Target& target) {
  if (!facts.parts.empty()) {
    if (schedule.get("stream", 0) != 0) return "stream-K shares out the tiles of one product only";
    for (const KernelFacts& part : facts.parts)
      if (Reason r = illegal_contraction(part, schedule, workload, target)) return r;
    return std::nullopt;
  }
  if (facts.kernel_class != KernelClass::kContraction) return "the kernel has no product";
  if (facts.products.size() > 3) return "more than three products in one kernel";
  if (Reason r = check_static(workload, facts.column, "the column dim")) return r;
  if (Reason r = check_static(workload, facts.reduced, "the reduced dim")) return r;
  for (const SumPass& pass : facts.passes)
    if (Reason r = check_static(workload, pass.dim, "the summed dim")) return r;
  if (extent_of(workload, facts.row) > kMaxExtent)
    return fmt::format("{} rows are more than {}", extent_of(workload, facts.row), kMaxExtent);
  ContractionParams p = contraction_params(schedule);
  bool tensor_cores = uses_tensor_cores(p, workload.dtype);
  ContractionLayout layout = contraction_layout(facts, workload);
  if (Reason r = illegal_tiles(facts, p, tensor_cores, layout)) return r;
  if (Reason r = illegal_registers(facts, p, tensor_cores)) return r;
  if (p.stages < 2 || p.stages > 8)
    return fmt::format("stages={} is not between 2 and 8", p.stages);
  if (p.group_m < 1 || p.group_m > 64)
    return fmt::format("group_m={} is not between 1 and 64", p.group_m);
  std::int64_t k = extent_of(workload, facts.reduced);
  const std::int64_t steps = ceil_div(k, p.tile_k);
  if (Reason r =
          p.stream != 0 ? check_stream(facts, p, steps) : check_splits(facts, p.splits, steps))
    return r;
  std::int64_t bytes = contraction_shared_bytes(facts, p, workload);
  if (bytes > target.shared_bytes_per_block)
    return fmt::format("{} bytes of shared memory are more than the {} of a block on {}", bytes,
                       target.shared_bytes_per_block, target.name);
  std::int64_t tiles = ceil_div(extent_of(workload, facts.row), p.tile_m) *
                       ceil_div(extent_of(workload, facts.column), p.tile_n);
  if (tiles > kMaxGrid) return fmt::format("{} tiles are more than a grid holds", tiles);
  return std::nullopt;
}

// --- library, host ------------------------------------------------------------------------

Reason illegal_library(const KernelView& kernel, const KernelSchedule& schedule,
                       const Workload& workload) {
  if (!kernel.library) return "the kernel is not a library product";
  const LibraryMatmul& product = *kernel.library;
  const Tensor& a = kernel.tensors[static_cast<std::size_t>(product.a)];
  const Tensor& b = kernel.tensors[static_cast<std::size_t>(product.b)];
  const Tensor& out = kernel.tensors[static_cast<std::size_t>(product.out)];
  if (a.axes.size() != 2 || b.axes.size() != 2 || out.axes.size() != 2)
    return "the library multiplies matrices only";
  if (has_row_stride(a, workload) || has_row_stride(out, workload))
    return "rows that are apart are left to our own kernels";
  if (a.axes[1].dim != product.dim)
    return "the first operand's rows must be contiguous in " + dim_name(workload, product.dim);
  if (out.axes[0].dim != a.axes[0].dim) return "the result's rows are not the first operand's";
  DType type_a = bind(a.dtype, workload.dtype);
  if (type_a != bind(b.dtype, workload.dtype)) return "the operands differ in type";
  DType type_out = bind(out.dtype, workload.dtype);
  if (type_out != type_a && type_out != DType::kF32)
    return "the result is neither of the operands' type nor fp32";
  std::int64_t algorithm = schedule.get("algorithm", 0);
  if (algorithm < 0 || algorithm > 15)
    return fmt::format("algorithm={} is not between 0 and 15", algorithm);
  return std::nullopt;
}

Reason illegal_host(const KernelSchedule& schedule) {
  for (const auto& [name, value] : schedule.params)
    if (value < 1 || value > (1 << 20))
      return fmt::format("{}={} is not between 1 and {}", name, value, 1 << 20);
  return std::nullopt;
}

// --- enumeration --------------------------------------------------------------------------

// Splits worth trying when a reduction of `steps` steps is split.
std::vector<std::int64_t> split_values(bool split, std::int64_t steps) {
  if (!split || steps <= 1) return {1};
  std::vector<std::int64_t> values;
  for (std::int64_t s = 2; s <= std::min<std::int64_t>(steps, 32); s *= 2) values.push_back(s);
  return values;
}

std::vector<KernelSchedule> candidates_rows(const KernelFacts& facts, const Workload& workload) {
  std::vector<KernelSchedule> out;
  bool sums = !facts.passes.empty();
  std::int64_t inner = longest_pass(facts, workload);
  for (const Dataflow::Output& o : facts.flow.outputs)
    for (const Axis& axis : o.tensor.axes)
      if (axis.dim != facts.row) inner = std::max(inner, extent_of(workload, axis.dim));
  for (std::int64_t threads : {64, 128, 256, 512})
    for (std::int64_t group : {std::int64_t{1}, std::int64_t{8}, std::int64_t{32}, threads}) {
      if (group == 1 && sums && inner > 64) continue;
      std::int64_t step = group * run_elements(workload.dtype);
      for (std::int64_t splits : split_values(facts.flow.split, ceil_div(inner, step))) {
        KernelSchedule s{"rows", {{"threads", threads}, {"group", group}}};
        if (splits > 1) s.params["splits"] = splits;
        out.push_back(s);
      }
    }
  return out;
}

// Blocks worth trying for stream-K: as many as run together, one or two on a multiprocessor, where
// tiles do not already come out even and a block has steps enough to fill its ring.
std::vector<std::int64_t> stream_values(const KernelFacts& facts, std::int64_t tiles,
                                        std::int64_t steps, std::int64_t stages,
                                        const Target& target) {
  std::vector<std::int64_t> values;
  if (!facts.flow.split || !facts.parts.empty() || steps < 2) return values;
  for (std::int64_t blocks : {target.sm_count, 2 * target.sm_count})
    if (tiles % blocks != 0 && tiles * steps >= stages * blocks) values.push_back(blocks);
  return values;
}

std::vector<KernelSchedule> candidates_contraction(const KernelFacts& facts,
                                                   const Workload& workload, const Target& target) {
  std::vector<KernelSchedule> out;
  bool tensor_cores = uses_tensor_cores({}, workload.dtype);
  std::int64_t m = extent_of(workload, facts.row);
  std::int64_t n = extent_of(workload, facts.column);
  for (const KernelFacts& part : facts.parts) n = std::max(n, extent_of(workload, part.column));
  std::int64_t k = extent_of(workload, facts.reduced);
  std::vector<std::int64_t> tiles_k = tensor_cores ? std::vector<std::int64_t>{32, 64, 128, 256}
                                                   : std::vector<std::int64_t>{16, 32};
  for (std::int64_t tile_m : {16, 32, 64, 128})
    for (std::int64_t tile_n : {32, 64, 128, 256})
      for (std::int64_t tile_k : tiles_k)
        for (std::int64_t warps_m : {1, 2, 4})
          for (std::int64_t warps_n : {1, 2, 4, 8})
            for (std::int64_t stages : {2, 3, 4, 6}) {
              // Larger tiles than the problem only waste work.
              if (tile_m > 16 && tile_m / 2 >= m) continue;
              if (tile_n > 32 && tile_n / 2 >= n) continue;
              if (warps_m * warps_n < 2 || warps_m * warps_n > 8) continue;
              const std::int64_t steps = ceil_div(k, tile_k);
              const auto add = [&](const char* way, std::int64_t value) {
                KernelSchedule s{"contraction",
                                 {{"tile_m", tile_m},
                                  {"tile_n", tile_n},
                                  {"tile_k", tile_k},
                                  {"warps_m", warps_m},
                                  {"warps_n", warps_n},
                                  {"stages", stages}}};
                if (value > 1) s.params[way] = value;
                out.push_back(s);
              };
              for (std::int64_t splits : split_values(facts.flow.split, steps))
                add("splits", splits);
              const std::int64_t tiles = ceil_div(m, tile_m) * ceil_div(n, tile_n);
              for (std::int64_t blocks : stream_values(facts, tiles, steps, stages, target))
                add("stream", blocks);
            }
  return out;
}

std::vector<KernelSchedule> candidates_host(const KernelView& kernel) {
  std::vector<KernelSchedule> out;
  bool product = kernel.library || (kernel.facts && !kernel.facts->products.empty());
  if (!product) {
    for (std::int64_t tile_m : {1, 4, 16}) out.push_back({"host", {{"tile_m", tile_m}}});
    return out;
  }
  for (std::int64_t tile_m : {16, 32, 64})
    for (std::int64_t tile_n : {32, 64, 128})
      for (std::int64_t tile_k : {64, 256, 512})
        out.push_back({"host", {{"tile_m", tile_m}, {"tile_n", tile_n}, {"tile_k", tile_k}}});
  return out;
}

}  // namespace

const std::vector<FamilySpec>& families() {
  static const std::vector<FamilySpec> all = {
      {"rows",
       "one row by part of a warp or by a block",
       {{"threads", "threads of a block"},
        {"group", "threads that share a row"},
        {"splits", "blocks that share a row's sums"}}},
      {"contraction",
       "one tile of outputs by a block, mma.sync or fused multiply-adds, cp.async ring",
       {{"tile_m", "rows of a tile"},
        {"tile_n", "columns of a tile"},
        {"tile_k", "reduced elements of a step"},
        {"warps_m", "warps along the rows"},
        {"warps_n", "warps along the columns"},
        {"stages", "steps in the ring"},
        {"splits", "blocks that share a tile's reduction"},
        {"stream", "blocks that share the steps of all tiles evenly (stream-K); 0: off"},
        {"group_m", "rows of tiles that are walked together"},
        {"fma", "1: no tensor cores"}}},
      {"small_m",
       "M up to 64: weights stream through per-warp rings into mma.sync",
       {{"rows", "rows of X, padded: 8, 16, 32 or 64"},
        {"warps", "streaming warps of a block; they split the reduction"},
        {"columns", "reduced elements that a warp owns"},
        {"unit", "reduced elements of one ring slot"},
        {"stages", "slots of a warp's ring"},
        {"cluster", "blocks that split the reduction; more than one on sm_90a"},
        {"groups", "clusters; 0: as few as keep the longest share as short"},
        {"epilogue_warps", "warps that reduce, scale and store"},
        {"partials", "tiles in flight to them"},
        {"chains", "independent accumulators"},
        {"blocks_per_sm", "blocks of a multiprocessor"},
        {"early", "slots requested before X and before the dependency"},
        {"weights",
         "0 packed, bulk copies (sm_90a); 1 packed, cp.async; 2 packed, registers; 3 rows, "
         "cp.async"},
        {"interleaved", "1: the warps of a block alternate along the reduction"},
        {"staged", "1: X passes through the ring"},
        {"stats_first", "1: sums before the first tile's products"},
        {"evict_first", "1: weights leave L2 first"}}},
      {"multicast",
       "M up to 64 on sm_90a: wgmma, X delivered to the blocks of a cluster at once",
       {{"rows", "rows of X, padded to a multiple of 8 for each block of a cluster"},
        {"tile_n", "columns of a block"},
        {"stages", "tiles of 64 reduced elements in the ring"},
        {"share", "blocks of a cluster"},
        {"early", "stages whose weights are requested before the dependency"},
        {"evict_first", "1: weights leave L2 first"}}},
      {"gemm",
       "persistent, warp-specialized wgmma on sm_90a",
       {{"tile_m", "rows of a tile"},
        {"tile_n", "columns of a tile"},
        {"stages", "tiles of 64 reduced elements in the ring"},
        {"consumers", "warpgroups on the tensor cores"},
        {"ping_pong", "1: each has tiles of its own"},
        {"cluster_m", "blocks that share weights"},
        {"cluster_n", "blocks that share X"},
        {"split_k", "blocks that split the reduction"},
        {"raster", "0: tiles run along m first, 1: along n"},
        {"group", "tiles walked together"},
        {"hint_x", "L2 policy of X: 0 none, 1 evict first, 2 evict last"},
        {"hint_w", "the same of the weights"},
        {"hint_y", "of Y: 0 none, 1 evict first"},
        {"producer_registers", "registers of a producer thread"},
        {"statistics",
         "row sums: 2 once a launch by idle warps, 3 slices by tiles, 4 by every tile, 5 by the "
         "blocks with a tile less than others"},
        {"slices", "parts of the reduction that tiles sum for each other"},
        {"rotate",
         "1: a tile begins with the slice that it sums; 2: slices are spread over the reduction, "
         "and a tile begins the last steps with its own"},
        {"row_slots", "KB of rows in flight for each warp that sums them"},
        {"promotion", "L2 sector promotion of the tensor maps, bytes"},
        {"late_trigger", "1: the next launch may start when all loads are issued"},
        {"stores",
         "of Y: 0 staged in shared memory, 1 shuffled between lanes, which leaves room"}}},
      {"library",
       "the vendor's product",
       {{"algorithm",
         "which of the library's suggestions, in its order; the last where it has fewer"}}},
      {"host",
       "blocked loops on the CPU",
       {{"tile_m", "rows of a tile"},
        {"tile_n", "columns of a tile"},
        {"tile_k", "reduced elements of a tile"}}},
  };
  return all;
}

const FamilySpec& family(const std::string& name) {
  std::string accepted;
  for (const FamilySpec& f : families()) {
    if (f.name == name) return f;
    accepted += (accepted.empty() ? "" : ", ") + f.name;
  }
  throw UserError("schedule family", name, accepted);
}

KernelView view(const MuGraph& graph, std::size_t kernel) {
  KernelView out;
  const Kernel& k = graph.kernels[kernel];
  out.name = k.name;
  if (k.library()) {
    out.library = k.library();
    out.tensors = graph.tensors;
    return out;
  }
  try {
    out.facts = analyze(graph, *k.block());
  } catch (const NotLowerable& e) {
    out.reason = e.what();
  }
  return out;
}

Workload kernel_workload(const KernelFacts& facts, const Workload& workload) {
  Workload own = workload;
  own.extents = merged_extents(facts.flow, std::move(own.extents));
  return own;
}

std::optional<std::string> illegal(const KernelView& kernel, const KernelSchedule& schedule,
                                   const Workload& given, const Target& target) {
  std::optional<Workload> own;
  if (kernel.facts && kernel.facts->flow.merge) own = kernel_workload(*kernel.facts, given);
  const Workload& workload = own ? *own : given;
  const FamilySpec* spec = nullptr;
  for (const FamilySpec& f : families())
    if (f.name == schedule.family) spec = &f;
  if (!spec) return fmt::format("there is no schedule family '{}'", schedule.family);
  for (const auto& [name, value] : schedule.params) {
    bool known = std::any_of(spec->params.begin(), spec->params.end(),
                             [&n = name](const ParamSpec& p) { return p.name == n; });
    if (!known) return fmt::format("family {} has no parameter '{}'", spec->name, name);
    if (value < 0 || value > (std::int64_t{1} << 30))
      return fmt::format("{}={} is out of range", name, value);
  }
  if (schedule.family == "host") {
    if (!target.is_host()) return "the host family needs the host";
    return illegal_host(schedule);
  }
  if (kernel.facts && kernel.facts->flow.merge &&
      kernel.facts->flow.merge->first == kernel.facts->row) {
    auto apart = [&](const Tensor& tensor) { return has_row_stride(tensor, workload); };
    const Dataflow& flow = kernel.facts->flow;
    if (std::any_of(flow.inputs.begin(), flow.inputs.end(), apart) ||
        std::any_of(flow.outputs.begin(), flow.outputs.end(),
                    [&](const Dataflow::Output& o) { return apart(o.tensor); }))
      return "its rows are of two dims, and those of a tensor are apart";
  }
  if (target.is_host()) return fmt::format("family {} needs a GPU", schedule.family);
  if (target.compute_capability() < 80) return fmt::format("{} is older than sm_80", target.name);
  if (schedule.family == "library") return illegal_library(kernel, schedule, workload);
  if (!kernel.facts)
    return kernel.library ? "a library product has no other family" : kernel.reason;
  if (is_hopper_family(schedule.family))
    return illegal_hopper(*kernel.facts, schedule, workload, target);
  if (schedule.family == "rows") return illegal_rows(*kernel.facts, schedule, workload);
  return illegal_contraction(*kernel.facts, schedule, workload, target);
}

std::vector<std::string> families_for(const KernelView& kernel, const Workload& workload,
                                      const Target& target, std::string* why) {
  std::vector<std::string> out;
  std::string last;
  for (const FamilySpec& f : families()) {
    bool any = false;
    std::vector<KernelSchedule> legal = enumerate_schedules(kernel, f.name, workload, target);
    any = !legal.empty();
    if (any) out.push_back(f.name);
  }
  if (out.empty() && why) {
    const char* natural = kernel.library ? "library"
                          : kernel.facts && kernel.facts->kernel_class == KernelClass::kRows
                              ? "rows"
                              : "contraction";
    auto reason = illegal(kernel, {target.is_host() ? "host" : natural, {}}, workload, target);
    *why = fmt::format("kernel {}: {}", kernel.name,
                       reason ? *reason : "no combination of parameters is legal");
  }
  return out;
}

std::vector<KernelSchedule> enumerate_schedules(const KernelView& kernel, const std::string& name,
                                                const Workload& given, const Target& target) {
  std::optional<Workload> own;
  if (kernel.facts && kernel.facts->flow.merge) own = kernel_workload(*kernel.facts, given);
  const Workload& workload = own ? *own : given;
  std::vector<KernelSchedule> all;
  if (name == "host") {
    if (target.is_host()) all = candidates_host(kernel);
  } else if (name == "library") {
    if (kernel.library)
      for (std::int64_t algorithm = 0; algorithm < kLibraryAlgorithms; ++algorithm)
        all.push_back({"library", {{"algorithm", algorithm}}});
  } else if (kernel.facts && !target.is_host()) {
    bool rows = kernel.facts->kernel_class == KernelClass::kRows;
    if (name == "rows" && rows) all = candidates_rows(*kernel.facts, workload);
    if (name == "contraction" && !rows)
      all = candidates_contraction(*kernel.facts, workload, target);
    if (is_hopper_family(name) && !rows)
      all = candidates_hopper(name, *kernel.facts, workload, target);
  }
  std::vector<KernelSchedule> out;
  for (KernelSchedule& s : all)
    if (!illegal(kernel, s, given, target)) out.push_back(std::move(s));
  return out;
}

RowsParams rows_params(const KernelSchedule& schedule) {
  RowsParams p;
  p.threads = static_cast<int>(schedule.get("threads", p.threads));
  p.group = static_cast<int>(schedule.get("group", p.group));
  p.splits = static_cast<int>(schedule.get("splits", p.splits));
  return p;
}

ContractionParams contraction_params(const KernelSchedule& schedule) {
  ContractionParams p;
  auto read = [&](const char* name, int& value) {
    value = static_cast<int>(schedule.get(name, value));
  };
  read("tile_m", p.tile_m);
  read("tile_n", p.tile_n);
  read("tile_k", p.tile_k);
  read("warps_m", p.warps_m);
  read("warps_n", p.warps_n);
  read("stages", p.stages);
  read("splits", p.splits);
  read("stream", p.stream);
  read("group_m", p.group_m);
  read("fma", p.fma);
  return p;
}

bool uses_tensor_cores(const ContractionParams& params, DType elem) {
  return elem != DType::kF32 && params.fma == 0;
}

KernelSchedule default_schedule(const KernelView& kernel, const Workload& workload,
                                const Target& target) {
  KernelSchedule s;
  if (target.is_host()) {
    s.family = "host";
  } else if (kernel.library) {
    s = {"library", {{"algorithm", 0}}};
  } else if (kernel.facts && kernel.facts->kernel_class == KernelClass::kRows) {
    s = {"rows", {{"threads", 128}, {"group", 32}}};
  } else if (kernel.facts && uses_tensor_cores({}, workload.dtype)) {
    s = {"contraction",
         {{"tile_m", 64},
          {"tile_n", 64},
          {"tile_k", 64},
          {"warps_m", 2},
          {"warps_n", 2},
          {"stages", 3}}};
  } else {
    s = {"contraction",
         {{"tile_m", 64},
          {"tile_n", 64},
          {"tile_k", 16},
          {"warps_m", 2},
          {"warps_n", 2},
          {"stages", 3}}};
  }
  std::optional<std::string> reason = illegal(kernel, s, workload, target);
  for (std::int64_t splits = 2; reason && splits <= 4; splits *= 2) {
    s.params["splits"] = splits;
    reason = illegal(kernel, s, workload, target);
  }
  if (reason) {
    // Uncommon shapes: the first legal one of what search would try.
    for (const std::string& name : families_for(kernel, workload, target))
      return enumerate_schedules(kernel, name, workload, target).front();
    throw NotLowerable(*reason);
  }
  return s;
}

ContractionLayout contraction_layout(const KernelFacts& facts, const Workload& workload) {
  ContractionLayout layout;
  std::vector<ValueId> values;
  for (const Operand& a : facts.a_operands) values.push_back(a.value);
  for (const SumPass& pass : facts.passes)
    if (pass.with_product)
      for (int i = 0; i < pass.count; ++i)
        values.push_back(facts.sums[static_cast<std::size_t>(pass.first + i)].operand);
  layout.row_floats = static_cast<int>(row_values_of(facts, values, workload).size());
  layout.uses_rows = layout.row_floats > 0;
  for (const Operand& b : facts.b_operands) {
    bool transposed = false;
    if (b.source >= 0) {
      const Tensor& tensor = facts.flow.inputs[static_cast<std::size_t>(b.source)];
      transposed = tensor.axes.back().dim == facts.reduced && tensor.axes.size() == 2;
    }
    layout.b_transposed.push_back(transposed);
  }
  return layout;
}

std::int64_t contraction_shared_bytes(const KernelFacts& facts, const ContractionParams& p,
                                      const Workload& workload) {
  ContractionLayout layout = contraction_layout(facts, workload);
  bool tensor_cores = uses_tensor_cores(p, workload.dtype);
  std::int64_t size = tensor_cores ? 2 : 4;
  std::int64_t pad = 16 / size;
  std::int64_t stage =
      static_cast<std::int64_t>(facts.a_operands.size()) * p.tile_m * (p.tile_k + pad);
  for (bool transposed : layout.b_transposed)
    stage += transposed ? p.tile_n * (p.tile_k + pad) : p.tile_k * (p.tile_n + pad);
  std::int64_t rows = layout.uses_rows ? std::int64_t{4} * layout.row_floats * p.tile_m : 0;
  return p.stages * stage * size + ceil_div(rows, 16) * 16 +
         std::int64_t{4} * p.tile_m * static_cast<std::int64_t>(facts.sums.size());
}

std::int64_t contraction_partial_floats(const KernelFacts& facts, const ContractionParams& p) {
  std::int64_t loop_sums = 0;
  for (const SumPass& pass : facts.passes)
    if (pass.with_product) loop_sums += pass.count;
  return static_cast<std::int64_t>(facts.products.size()) * p.tile_m * p.tile_n +
         p.tile_m * loop_sums;
}

std::vector<ValueId> row_values_of(const KernelFacts& facts, const std::vector<ValueId>& values,
                                   const Workload& workload) {
  const Graph& graph = facts.flow.graph;
  int dynamic = dynamic_dim(workload);
  std::function<bool(ValueId)> varies = [&](ValueId v) {
    if (graph.is_input(v)) return true;
    const Node& node = graph.node(v);
    if (node.op == OpKind::kSum || node.op == OpKind::kMatmul) return true;
    if (node.op == OpKind::kConst)
      return dynamic >= 0 && node.constant.dims.count(static_cast<DimId>(dynamic)) > 0;
    return (node.a != kNoValue && varies(node.a)) || (node.b != kNoValue && varies(node.b));
  };
  std::set<ValueId> found;
  std::set<ValueId> visited;
  std::function<void(ValueId)> visit = [&](ValueId v) {
    v = strip(facts.flow, v, workload.dtype);
    if (!visited.insert(v).second) return;
    if (facts.is_row_value(v)) {
      if (varies(v)) found.insert(v);
      return;
    }
    if (graph.is_input(v)) return;
    const Node& node = graph.node(v);
    if (node.op == OpKind::kSum || node.op == OpKind::kMatmul) return;
    if (node.a != kNoValue) visit(node.a);
    if (node.b != kNoValue) visit(node.b);
  };
  for (ValueId v : values) visit(v);
  return {found.begin(), found.end()};
}

Bucket bucket_of(std::int64_t m) {
  // Rows are padded to multiples of 8 up to 64 and of 64 up to 512; tiny and huge ones double.
  if (m > 8 && m <= 512) {
    const std::int64_t step = m <= 64 ? 8 : 64;
    return {(m - 1) / step * step + 1, ceil_div(m, step) * step};
  }
  std::int64_t high = 1;
  while (high < m) high *= 2;
  return {high / 2 + 1, high};
}

int dynamic_dim(const Workload& workload) {
  const std::vector<std::string>& dims = workload.program.signature.dims;
  auto it = std::find(dims.begin(), dims.end(), "m");
  return it == dims.end() ? -1 : static_cast<int>(it - dims.begin());
}

}  // namespace tenon::ir
