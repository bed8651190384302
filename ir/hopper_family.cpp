#include "ir/hopper_family.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/family.h"

namespace tenon::ir {

namespace {

using Reason = std::optional<std::string>;

constexpr std::int64_t kSharedLimit = 232448;  // bytes of a block on sm_90

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
bool one_of(int value, std::initializer_list<int> list) {
  return std::find(list.begin(), list.end(), value) != list.end();
}
std::int64_t padded_columns(std::int64_t k) { return ceil_div(k, 64) * 64; }
bool flag(int value) { return value == 0 || value == 1; }

std::int64_t extent_of(const Workload& workload, int dim) {
  return dim < 0 ? 1 : workload.extents[static_cast<std::size_t>(dim)];
}

// Does `v` depend on x's element and constants alone?
bool of_element(const KernelFacts& facts, ValueId v, int x) {
  const Graph& g = facts.flow.graph;
  if (g.is_input(v)) return v == x;
  const Node& node = g.node(v);
  if (node.op == OpKind::kSum || node.op == OpKind::kMatmul) return false;
  return (node.a == kNoValue || of_element(facts, node.a, x)) &&
         (node.b == kNoValue || of_element(facts, node.b, x));
}

bool is_square_of(const KernelFacts& facts, ValueId v, int x, DType elem) {
  v = strip(facts.flow, v, elem);
  if (facts.flow.graph.is_input(v)) return false;
  const Node& node = facts.flow.graph.node(v);
  auto is_x = [&](ValueId u) { return u != kNoValue && strip(facts.flow, u, elem) == x; };
  return (node.op == OpKind::kSquare && is_x(node.a)) ||
         (node.op == OpKind::kMul && is_x(node.a) && is_x(node.b));
}

Reason not_streamed(const KernelFacts& facts, const Workload& workload, StreamedProduct& out) {
  if (workload.dtype == DType::kF32) return "the tensor cores take 16-bit elements";
  if (facts.kernel_class != KernelClass::kContraction || facts.products.size() != 1)
    return "it takes exactly one product";
  if (facts.flow.merge && facts.flow.merge->first == facts.row) return "its rows are of two dims";
  for (std::size_t i = 0; i < facts.flow.inputs.size(); ++i)
    if (facts.is_periodic(static_cast<int>(i))) return "a parameter repeats along its columns";
  if (facts.row < 0 || facts.column < 0) return "a product of vectors";
  const Operand& a = facts.a_operands[0];
  const Operand& b = facts.b_operands[0];
  auto plain = [&](const Operand& o) {
    return o.source >= 0 && strip(facts.flow, o.value, workload.dtype) == o.source &&
           bind(facts.flow.inputs[static_cast<std::size_t>(o.source)].dtype, workload.dtype) ==
               workload.dtype;
  };
  if (!plain(a) || !plain(b)) return "an operand of the product is computed";
  const Tensor& x = facts.flow.inputs[static_cast<std::size_t>(a.source)];
  const Tensor& w = facts.flow.inputs[static_cast<std::size_t>(b.source)];
  if (x.axes.size() != 2 || x.axes[0].dim != facts.row || x.axes[1].dim != facts.reduced)
    return "x is not [row, reduced]";
  if (w.axes.size() != 2 || find_dim(w.axes, static_cast<DimId>(facts.column)) < 0 ||
      find_dim(w.axes, static_cast<DimId>(facts.reduced)) < 0)
    return "w is not a matrix over the reduced and the column dim";
  if (w.kind != TensorKind::kPrepared && w.kind != TensorKind::kInput)
    return "w changes with every call, so it cannot be repacked";
  for (const SumPass& pass : facts.passes)
    if (!pass.with_product) return "a sum is needed before the product";
  if (facts.sums.size() > 2) return "more than two sums";
  for (const RowSum& sum : facts.sums)
    if (!of_element(facts, sum.operand, a.source)) return "a sum uses more than the elements of x";
  if (facts.flow.outputs.size() != 1) return "it stores more than one tensor";
  const Tensor& y = facts.flow.outputs[0].tensor;
  if (y.axes.size() != 2 || y.axes[0].dim != facts.row || y.axes[1].dim != facts.column)
    return "y is not [row, column]";
  if (bind(y.dtype, workload.dtype) != workload.dtype) return "y has another type than x";
  if (facts.row != dynamic_dim(workload) && dynamic_dim(workload) >= 0)
    return "the rows are not the dynamic dim";
  out.x = a.source;
  out.w = b.source;
  out.w_rows_are_columns = w.axes[0].dim == facts.column;
  out.sums = static_cast<int>(facts.sums.size());
  out.sum_of_squares =
      out.sums == 1 && is_square_of(facts, facts.sums[0].operand, a.source, workload.dtype);
  out.m = extent_of(workload, facts.row);
  out.n = extent_of(workload, facts.column);
  out.k = extent_of(workload, facts.reduced);
  out.x_stride = stride_of(x, facts.row, workload);
  out.y_stride = stride_of(y, facts.row, workload);
  out.split = facts.flow.split;
  return std::nullopt;
}

// Plans serve every m of a bucket.
std::int64_t largest_m(std::int64_t m) { return bucket_of(m).high; }

Reason check_range(const StreamedProduct& f) {
  constexpr std::int64_t kMax = 2147483647 - (1 << 20);
  if (f.m > kMax || f.n > kMax || f.k > kMax)
    return "an extent is too large for 32-bit coordinates";
  return std::nullopt;
}

// The same rules as small_m::Check in codegen/device/small_m/config.cuh.
Reason illegal_small_m(const StreamedProduct& f, const SmallMParams& p, const Target& target) {
  if (!one_of(p.rows, {8, 16, 32, 64}))
    return fmt::format("rows={} is not 8, 16, 32 or 64", p.rows);
  if (largest_m(f.m) > p.rows)
    return fmt::format("m up to {} are more than rows={}", largest_m(f.m), p.rows);
  if (p.rows > 8 && p.rows / 2 >= largest_m(f.m))
    return fmt::format("rows={} are twice the {} needed", p.rows, largest_m(f.m));
  if (p.warps < 1 || p.epilogue_warps < 1 || p.threads() > 1024)
    return fmt::format("{} threads are not between 64 and 1024", p.threads());
  if (p.unit < 32 || p.unit % 32 || p.columns < p.unit || p.columns % p.unit)
    return "columns is a multiple of unit, and that of 32";
  if (!one_of(p.weights, {0, 1, 2, 3})) return fmt::format("weights={} is not 0 to 3", p.weights);
  if (target.name != "sm_90a" && (p.cluster > 1 || p.weights == 0))
    return fmt::format("clusters and bulk copies need sm_90a, not {}", target.name);
  if (p.weights == 3 && p.unit != 32 && p.unit % 64)
    return "units of row-major weights are 32 columns or a multiple of 64";
  if (!one_of(p.cluster, {1, 2, 4, 8}))
    return fmt::format("cluster={} is not 1, 2, 4 or 8", p.cluster);
  if ((p.cluster > 1) != f.split)
    return f.split ? "cluster=1, but the kernel splits its reduction"
                   : "cluster > 1, but the kernel does not split its reduction";
  if (p.rows / 4 % p.epilogue_warps)
    return fmt::format("epilogue_warps={} does not divide rows / 4", p.epilogue_warps);
  if (p.partials < 1 || p.partials > 8)
    return fmt::format("partials={} is not between 1 and 8", p.partials);
  if (!one_of(p.chains, {1, 2}) || !flag(p.interleaved) || !flag(p.staged) ||
      !flag(p.stats_first) || !flag(p.evict_first))
    return "chains is 1 or 2, and interleaved, staged, stats_first, evict_first are 0 or 1";
  if (p.blocks_per_sm < 1 || p.blocks_per_sm > 4 || p.stages < 1 || p.early < 0 ||
      p.early > p.stages)
    return "blocks_per_sm is 1 to 4, stages at least 1, early at most stages";
  if (p.weights == 2 && p.stages != p.columns / p.unit)
    return "weights in registers are a whole tile deep";
  std::int64_t covered = std::int64_t{p.cluster} * p.warps * p.columns;
  if (covered < padded_columns(f.k))
    return fmt::format("{} columns do not cover k={}", covered, f.k);
  if (covered - padded_columns(f.k) >= std::int64_t{p.cluster} * p.columns * 2 && p.warps > 1)
    return "two warps of every block would have nothing to do";
  int slot = p.unit * 16 / p.rows;
  if (p.staged) {
    if (p.weights == 2) return "X is staged in a ring, and weights in registers have none";
    // Runs of columns in a slot; rows that are not aligned leave a word of each in a partial tile.
    if (!f.x_rows_aligned() && p.columns / std::max(32, std::min(p.unit, slot)) > 4 * p.partials)
      return "the last words of unaligned rows do not fit in the partial tiles";
    if (p.early + ceil_div(p.columns, slot) > p.stages)
      return "staged X does not fit in the ring behind the early units";
    if (slot != 32 && slot % 64) return "a slot of staged X is 32 columns or a multiple of 64";
  }
  if (p.groups < 0 || small_m_groups(p, f.n, target) > ceil_div(f.n, 16))
    return "more clusters than tiles of 16 columns";
  std::int64_t bytes = small_m_shared_bytes(p, small_m_most_tiles(p, f.n, target));
  if (bytes > target.shared_bytes_per_block ||
      (bytes + 1024) * p.blocks_per_sm > target.shared_bytes_per_sm)
    return fmt::format("{} blocks of {} bytes of shared memory do not fit a multiprocessor",
                       p.blocks_per_sm, bytes);
  // X in registers, accumulators and a ring's addresses; beyond this the compiler spills.
  int available =
      65536 /
      (p.blocks_per_sm * 32 * static_cast<int>(ceil_div(p.warps + p.epilogue_warps, 4)) * 4) / 8 *
      8;
  int registers = p.columns / 32 * (p.rows / 8) * 4 + p.rows / 2 * p.chains + 25 +
                  (p.weights == 2 ? p.columns / 4 : 0) + (p.weights == 3 ? 15 : 0) +
                  (p.staged && !f.x_rows_aligned() ? 10 : 0);
  // Without uniform copies of addresses, and then with an end of K to watch, the compiler takes
  // more: 68 and 137 where sm_90 takes 60 (16 rows, 128 columns, packed weights through cp.async).
  if (target.compute_capability() < 90) registers += covered == f.k ? 4 : 76;
  if (registers > std::min(255, available))
    return fmt::format("about {} registers a thread are more than {}", registers,
                       std::min(255, available));
  return std::nullopt;
}

Reason illegal_multicast(const StreamedProduct& f, const MulticastParams& p) {
  if (largest_m(f.m) > p.rows)
    return fmt::format("m up to {} are more than rows={}", largest_m(f.m), p.rows);
  if (f.split) return "the kernel splits its reduction";
  if (f.sums > 0 && !f.sum_of_squares) return "its row sums are not the sum of squares";
  if (!f.x_rows_aligned()) return "rows of x are not multiples of 16 bytes";
  if (p.tile_n < 8 || p.tile_n % 8 || p.tile_n > 192)
    return fmt::format("tile_n={} is not a multiple of 8 up to 192", p.tile_n);
  if (!one_of(p.share, {1, 2, 4, 8})) return fmt::format("share={} is not 1, 2, 4 or 8", p.share);
  if (p.rows < 8 || p.rows > 64 || p.rows % (8 * p.share))
    return fmt::format("rows={} is not a multiple of 8 share={} up to 64", p.rows, p.share);
  if (p.stages < 2 || p.early < 0 || p.early > p.stages || !flag(p.evict_first))
    return "at least two stages; early ones fit in the ring";
  if (multicast_shared_bytes(p) > kSharedLimit)
    return fmt::format("{} bytes of shared memory", multicast_shared_bytes(p));
  return std::nullopt;
}

Reason illegal_gemm(const StreamedProduct& f, const GemmParams& p, const Target& target) {
  int team = p.ping_pong ? 1 : p.consumers;
  if (!one_of(p.tile_m, {64, 128, 192, 256}))
    return fmt::format("tile_m={} is not 64, 128, 192 or 256", p.tile_m);
  if (p.tile_n < 8 || p.tile_n % 8 || p.tile_n > 256)
    return fmt::format("tile_n={} is not a multiple of 8 up to 256", p.tile_n);
  if (p.consumers < 1 || p.consumers > 3 || !flag(p.ping_pong))
    return "1 to 3 consumers; ping_pong is 0 or 1";
  if (p.ping_pong && p.consumers != 2) return "ping-pong has two consumers";
  if (p.tile_m % (64 * team)) return "a warpgroup has whole blocks of 64 rows";
  if (p.tile_m / 64 / team * p.tile_n / 2 > 200) return "more than 200 accumulators a thread";
  // One wgmma holds its accumulators and about 26 registers more; the assembler works with what a
  // launch gives every thread, before the consumers take the producers' share.
  const int launch_registers = std::min(255, 65536 / p.threads() / 8 * 8);
  if (p.tile_n / 2 + 26 > launch_registers)
    return fmt::format("tile_n={} needs {} registers of the {} that {} threads have", p.tile_n,
                       p.tile_n / 2 + 26, launch_registers, p.threads());
  if (p.stages < 2 || p.stages > 12) return "2 to 12 stages";
  if (p.cluster_m < 1 || p.cluster_n < 1 || p.split_k < 1 || p.cluster() > 8)
    return "a cluster has 1 to 8 blocks";
  if (p.tile_m % (8 * p.cluster_n) || p.tile_n % (8 * p.cluster_m) || p.tile_n % (8 * p.split_k))
    return "tiles are not divisible by what the cluster shares";
  if ((p.split_k > 1) != f.split)
    return f.split ? "split_k=1, but the kernel splits its reduction"
                   : "split_k > 1, but the kernel does not split its reduction";
  if (p.split_k > 1 && p.ping_pong) return "split k is cooperative";
  if (f.sums == 0 ? p.statistics != 0 : !one_of(p.statistics, {2, 3, 4, 5}))
    return "statistics do not fit the sums of the kernel";
  if (p.statistics == 5 && 2 * f.k > std::int64_t{p.tile_m + p.tile_n} * 128)
    return fmt::format("a row of {} elements is larger than a stage", f.k);
  // At the largest m that the plan serves: a cluster has one tile with split k.
  std::int64_t tiles =
      ceil_div(largest_m(f.m), p.tile_m * p.cluster_m) * ceil_div(f.n, p.tile_n * p.cluster_n);
  if (p.split_k > 1 && p.exchanges_sums() &&
      tiles * p.cluster() > resident_blocks(p.cluster(), target))
    return "rows summed once need all blocks resident";
  if (p.statistics == 3 &&
      (p.slices < p.cluster_n * p.split_k || p.slices % 4 || p.slices % p.split_k))
    return "a multiple of 4 slices, as many in each part of k, at least cluster_n";
  if (!one_of(p.rotate, {0, 1, 2})) return fmt::format("rotate={} is not 0, 1 or 2", p.rotate);
  if (p.statistics == 3 && p.split_k > 1 && ceil_div(f.k, 64) < p.slices)
    return "a part of k has fewer steps than slices";
  if (ceil_div(f.k, 64) < std::max(p.split_k, p.cluster_n)) return "fewer k steps than parts";
  if (!one_of(p.hint_x, {0, 1, 2}) || !one_of(p.hint_w, {0, 1, 2}) || !flag(p.hint_y))
    return "cache hints are 0, 1 or 2; of y 0 or 1";
  if (!flag(p.raster) || p.group < 1 || p.group > 64) return "raster is 0 or 1, group 1 to 64";
  if (p.producer_registers < 24 || p.producer_registers > 96 || p.producer_registers % 8)
    return "producer_registers is a multiple of 8 from 24 to 96";
  if (!flag(p.stores)) return fmt::format("stores={} is not 0 or 1", p.stores);
  if (p.stores == 1 && (f.n % 8 || f.y_stride % 8))
    return "rows of y are not multiples of 16 bytes: they are stored element by element";
  if (p.slices < 1 || p.slices > 64 || p.row_slots < 1 || p.row_slots > 16 || !flag(p.late_trigger))
    return "slices is 1 to 64, row_slots 1 to 16";
  if (p.promotion != 128 && p.promotion != 256) return "promotion is 128 or 256";
  std::int64_t bytes = gemm_shared_bytes(p, f.sums);
  if (bytes > kSharedLimit)
    return fmt::format("{} bytes of shared memory are more than {}", bytes, kSharedLimit);
  return std::nullopt;
}

using Params = std::map<std::string, std::int64_t>;

// Values that name a parameter and differ from the default are what a schedule's text shows.
void put(Params& params, const char* name, std::int64_t value, std::int64_t fallback, bool all) {
  if (all || value != fallback) params[name] = value;
}

KernelSchedule schedule_of(const SmallMParams& p, bool all = false) {
  const SmallMParams d;
  KernelSchedule s{"small_m",
                   {{"rows", p.rows},
                    {"warps", p.warps},
                    {"columns", p.columns},
                    {"unit", p.unit},
                    {"stages", p.stages},
                    {"early", p.early},
                    {"weights", p.weights}}};
  put(s.params, "cluster", p.cluster, d.cluster, all);
  put(s.params, "groups", p.groups, d.groups, all);
  put(s.params, "epilogue_warps", p.epilogue_warps, d.epilogue_warps, all);
  put(s.params, "partials", p.partials, d.partials, all);
  put(s.params, "chains", p.chains, d.chains, all);
  put(s.params, "blocks_per_sm", p.blocks_per_sm, d.blocks_per_sm, all);
  put(s.params, "interleaved", p.interleaved, d.interleaved, all);
  put(s.params, "staged", p.staged, d.staged, all);
  put(s.params, "stats_first", p.stats_first, d.stats_first, all);
  put(s.params, "evict_first", p.evict_first, d.evict_first, all);
  return s;
}

KernelSchedule schedule_of(const MulticastParams& p, bool all = false) {
  KernelSchedule s{"multicast",
                   {{"rows", p.rows},
                    {"tile_n", p.tile_n},
                    {"stages", p.stages},
                    {"share", p.share},
                    {"early", p.early}}};
  put(s.params, "evict_first", p.evict_first, MulticastParams{}.evict_first, all);
  return s;
}

KernelSchedule schedule_of(const GemmParams& p, bool all = false) {
  const GemmParams d;
  KernelSchedule s{"gemm", {{"tile_m", p.tile_m}, {"tile_n", p.tile_n}, {"stages", p.stages}}};
  put(s.params, "consumers", p.consumers, d.consumers, all);
  put(s.params, "ping_pong", p.ping_pong, d.ping_pong, all);
  put(s.params, "cluster_m", p.cluster_m, d.cluster_m, all);
  put(s.params, "cluster_n", p.cluster_n, d.cluster_n, all);
  put(s.params, "split_k", p.split_k, d.split_k, all);
  put(s.params, "raster", p.raster, d.raster, all);
  put(s.params, "group", p.group, d.group, all);
  put(s.params, "hint_x", p.hint_x, d.hint_x, all);
  put(s.params, "hint_w", p.hint_w, d.hint_w, all);
  put(s.params, "hint_y", p.hint_y, d.hint_y, all);
  put(s.params, "producer_registers", p.producer_registers, d.producer_registers, all);
  put(s.params, "statistics", p.statistics, d.statistics, all);
  put(s.params, "slices", p.slices, d.slices, all);
  put(s.params, "rotate", p.rotate, d.rotate, all);
  put(s.params, "row_slots", p.row_slots, d.row_slots, all);
  put(s.params, "promotion", p.promotion, d.promotion, all);
  put(s.params, "late_trigger", p.late_trigger, d.late_trigger, all);
  put(s.params, "stores", p.stores, d.stores, all);
  return s;
}

// Warps × columns that cover k exactly where there is such a factorization: a ragged share costs.
std::vector<KernelSchedule> candidates_small_m(const StreamedProduct& f, const Target& target) {
  std::vector<KernelSchedule> out;
  const bool hopper = target.name == "sm_90a";
  SmallMParams p;
  p.rows = 8;
  while (p.rows < largest_m(f.m)) p.rows *= 2;
  const std::int64_t k = padded_columns(f.k);
  p.epilogue_warps = p.rows >= 16 ? 4 : 2;
  struct Share {
    int cluster, columns;
  };
  std::vector<Share> exact, ragged;
  for (int cluster : f.split ? std::vector<int>{2, 4, 8} : std::vector<int>{1})
    for (int columns = 32; columns <= 1024; columns += 32) {
      const std::int64_t warps = ceil_div(k, std::int64_t{cluster} * columns);
      if (warps > 24 || (warps < 3 && columns > 64)) continue;
      if (k % (std::int64_t{cluster} * columns) == 0)
        exact.push_back({cluster, columns});
      else if (one_of(columns, {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024}))
        ragged.push_back({cluster, columns});
    }
  if (exact.size() < 3) exact.insert(exact.end(), ragged.begin(), ragged.end());
  for (const Share& share : exact)
    for (int unit : {32, 64, 96, 128, 160, 192, 256, 320})
      for (int weights : {0, 1, 2, 3})
        for (int early : {1, 2, 3, 4})
          for (int style : {0, 1, 2, 3}) {
            p.cluster = share.cluster;
            p.columns = share.columns;
            p.unit = unit;
            p.weights = weights;
            p.early = early;
            p.interleaved = style & 1;
            p.chains = style & 2 ? 2 : 1;
            p.partials = style & 2 ? 1 : 2;
            p.staged = weights != 2;
            if (p.columns % unit || unit * 8 < p.columns || (p.interleaved && p.columns == unit))
              continue;
            if (weights == 2 && (early > 1 || p.interleaved)) continue;
            p.warps = static_cast<int>(ceil_div(k, std::int64_t{p.cluster} * p.columns));
            // The deepest ring that fits, up to a tile and a half, or what X needs.
            const int x_slots = static_cast<int>(ceil_div(p.columns, unit * 16 / p.rows));
            p.stages = weights == 2
                           ? p.columns / unit
                           : std::max({2, 3 * p.columns / unit / 2, hopper ? early + x_slots : 0});
            const int most = small_m_most_tiles(p, f.n, target);
            // Where one tile is all, nothing follows that could hide its sums.
            p.stats_first = weights == 2 || most == 1;
            while (weights != 2 && p.stages > 1 &&
                   small_m_shared_bytes(p, most) > target.shared_bytes_per_block)
              --p.stages;
            // Smaller cards have no room for X in the ring.
            if (!hopper && early + x_slots > p.stages) p.staged = 0;
            out.push_back(schedule_of(p));
            // Which way is faster for rows that begin anywhere depends on how many loads a warp
            // has.
            if (p.staged && !f.x_rows_aligned()) {
              p.staged = 0;
              out.push_back(schedule_of(p));
            }
          }
  return out;
}

std::vector<KernelSchedule> candidates_multicast(const StreamedProduct& f) {
  std::vector<KernelSchedule> out;
  for (int tile_n : {16, 24, 32, 40, 48, 56, 64, 80, 96, 128, 192})
    for (int share : {1, 2, 4, 8})
      for (int early : {2, 4, 8}) {
        MulticastParams p;
        p.rows = static_cast<int>(ceil_div(largest_m(f.m), 8 * share)) * 8 * share;
        p.tile_n = tile_n;
        p.share = share;
        p.stages = 16;
        while (p.stages > 2 && multicast_shared_bytes(p) > kSharedLimit) --p.stages;
        p.early = std::min(early, p.stages);
        out.push_back(schedule_of(p));
      }
  return out;
}

std::vector<KernelSchedule> candidates_gemm(const StreamedProduct& f) {
  std::vector<KernelSchedule> out;
  struct Shape {
    int tile_m, consumers, ping_pong;
  };
  const bool large = f.m > 512;
  for (const Shape& shape : {Shape{64, 1, 0}, Shape{128, 1, 0}, Shape{128, 2, 0}, Shape{128, 2, 1},
                             Shape{192, 3, 0}, Shape{256, 2, 0}}) {
    if (shape.tile_m > 64 && shape.tile_m / 2 >= f.m) continue;
    if (large && shape.tile_m < 128) continue;
    for (int tile_n = large ? 96 : 16; tile_n <= 256; tile_n += 8) {
      if (tile_n > 16 && tile_n - 8 >= f.n) continue;
      for (int cluster : {0, 1, 2})
        for (int split : f.split ? std::vector<int>{2, 3, 4} : std::vector<int>{1})
          for (int statistics : f.sums == 0 ? std::vector<int>{0} : std::vector<int>{2, 3, 4, 5})
            for (int hints : {0, 1, 2, 3})
              for (int group : {4, 8, 11, 16}) {
                GemmParams p;
                p.tile_m = shape.tile_m;
                p.consumers = shape.consumers;
                p.ping_pong = shape.ping_pong;
                p.tile_n = tile_n;
                p.cluster_m = cluster == 1 ? 2 : 1;
                p.cluster_n = cluster == 2 ? 2 : 1;
                p.split_k = split;
                p.statistics = statistics;
                p.hint_w = hints & 1;
                p.hint_y = hints >> 1;
                p.group = group;
                if (!large && group != 8) continue;
                if (statistics == 2) p.row_slots = 6;
                if (statistics == 3)
                  p.slices = split == 3 || group == 11 ? 12 : group == 16 ? 4 : 8;
                // One wave: X stays in the L2 whatever the order, and the sums are known early.
                // More of them: the last steps alone are walked in another order.
                if (statistics == 3) p.rotate = large ? 2 : 1;
                if (statistics == 2 || statistics == 3)
                  p.producer_registers = p.ping_pong && statistics == 2 ? 48 : 56;
                // More rows of X than the L2 has room for: W in groups, X from top to bottom.
                p.raster = f.m > 8192 && group == 8;
                // Few rows: what stores leave free of shared memory makes the ring deeper.
                p.stores = !large && f.n % 8 == 0 && f.y_stride % 8 == 0;
                p.stages = 12;
                while (p.stages > 2 && gemm_shared_bytes(p, f.sums) > kSharedLimit) --p.stages;
                out.push_back(schedule_of(p));
              }
    }
  }
  return out;
}

}  // namespace

bool pads_rows(const StreamedProduct& form, const KernelSchedule& schedule) {
  return schedule.family == "gemm" && !form.x_rows_aligned();
}

std::optional<StreamedProduct> streamed_product(const KernelFacts& facts, const Workload& workload,
                                                std::string* why) {
  StreamedProduct out;
  Reason reason = not_streamed(facts, workload, out);
  if (!reason) return out;
  if (why) *why = *reason;
  return std::nullopt;
}

SmallMParams small_m_params(const KernelSchedule& s) {
  SmallMParams p;
  auto read = [&](const char* name, int& value) { value = static_cast<int>(s.get(name, value)); };
  read("rows", p.rows), read("warps", p.warps), read("columns", p.columns), read("unit", p.unit),
      read("stages", p.stages);
  read("cluster", p.cluster), read("groups", p.groups), read("epilogue_warps", p.epilogue_warps),
      read("partials", p.partials);
  read("chains", p.chains), read("blocks_per_sm", p.blocks_per_sm), read("early", p.early),
      read("weights", p.weights);
  read("interleaved", p.interleaved), read("staged", p.staged), read("stats_first", p.stats_first),
      read("evict_first", p.evict_first);
  return p;
}

MulticastParams multicast_params(const KernelSchedule& s) {
  MulticastParams p;
  auto read = [&](const char* name, int& value) { value = static_cast<int>(s.get(name, value)); };
  read("rows", p.rows);
  read("tile_n", p.tile_n), read("stages", p.stages), read("share", p.share),
      read("early", p.early), read("evict_first", p.evict_first);
  return p;
}

GemmParams gemm_params(const KernelSchedule& s) {
  GemmParams p;
  auto read = [&](const char* name, int& value) { value = static_cast<int>(s.get(name, value)); };
  read("tile_m", p.tile_m), read("tile_n", p.tile_n), read("stages", p.stages),
      read("consumers", p.consumers), read("ping_pong", p.ping_pong);
  read("cluster_m", p.cluster_m), read("cluster_n", p.cluster_n), read("split_k", p.split_k),
      read("raster", p.raster), read("group", p.group);
  read("hint_x", p.hint_x), read("hint_w", p.hint_w), read("hint_y", p.hint_y),
      read("producer_registers", p.producer_registers);
  read("statistics", p.statistics), read("slices", p.slices), read("rotate", p.rotate),
      read("row_slots", p.row_slots), read("promotion", p.promotion),
      read("late_trigger", p.late_trigger), read("stores", p.stores);
  return p;
}

bool reads_weights_in_place(const StreamedProduct& form, const KernelSchedule& schedule,
                            bool keep) {
  const bool small_m = schedule.family == "small_m";
  if (!form.w_rows_are_columns || (small_m && small_m_params(schedule).packed())) return false;
  // small_m's copies run on to the next multiple of 64; the copy engine stops at k by itself, and
  // takes rows that are multiples of 16 bytes, as those of x must be.
  return form.k % 64 == 0 || (keep && !small_m && form.k % 8 == 0);
}

int resident_blocks(int cluster, const Target& target) {
  // Clusters live inside a graphics processing cluster, whose multiprocessors they need not divide:
  // measured on an H200 with 132 multiprocessors, clusters of 4 fill 120 of them and clusters of 8
  // fill 112.
  if (cluster <= 2) return target.sm_count / cluster * cluster;
  return target.sm_count * (cluster <= 4 ? 120 : 112) / 132 / cluster * cluster;
}

int small_m_groups(const SmallMParams& p, std::int64_t n, const Target& target) {
  if (p.groups > 0) return p.groups;
  std::int64_t tiles = ceil_div(n, 16);
  std::int64_t most = std::max(1, resident_blocks(p.cluster, target) * p.blocks_per_sm / p.cluster);
  std::int64_t share = ceil_div(tiles, most);
  return static_cast<int>(ceil_div(tiles, share));
}

int small_m_most_tiles(const SmallMParams& p, std::int64_t n, const Target& target) {
  return static_cast<int>(ceil_div(ceil_div(n, 16), small_m_groups(p, n, target)));
}

std::int64_t small_m_shared_bytes(const SmallMParams& p, int most_tiles) {
  std::int64_t unit = std::int64_t{p.unit} * 32;
  bool ring = p.weights != 2;
  std::int64_t partial = std::int64_t{p.rows} * 64;
  std::int64_t peers = p.cluster - 1;
  std::int64_t owned = p.cluster == 1 ? 0 : ceil_div(most_tiles, p.cluster);
  std::int64_t sums = 2 * std::int64_t{p.rows} * 4;
  std::int64_t barriers =
      (p.weights == 0 ? std::int64_t{p.warps} * p.stages : 0) + p.partials + 1 + owned;
  return (ring ? p.warps * p.stages * unit : 0) + std::int64_t{p.partials} * p.warps * partial +
         owned * peers * partial + p.warps * sums + peers * sums + barriers * 8;
}

std::int64_t multicast_shared_bytes(const MulticastParams& p) {
  return std::int64_t{p.stages} * ((p.tile_n + 64) * 128 + 16) + 1024;
}

std::int64_t gemm_shared_bytes(const GemmParams& p, int sums) {
  int blocks = p.tile_m / 64 / (p.ping_pong ? 1 : p.consumers);
  std::int64_t bytes = std::int64_t{p.stages} * (p.tile_m + p.tile_n) * 128 +
                       (p.stores == 0 ? p.consumers * 8192 : 0);
  bytes += std::int64_t{p.split_k - 1} * blocks * (p.tile_n / 8 / p.split_k * 16 + 2 * sums * 4) *
           128 * p.consumers;
  if (sums > 0 && p.statistics != 4) bytes += std::int64_t{2} * p.tile_m * sums * 4;
  bool rows = sums > 0 && p.statistics == 2;
  if (rows) bytes += std::int64_t{3} * p.row_slots * 1024;
  return (bytes + 7) / 8 * 8 + 8 * (2 * std::int64_t{p.stages} + 12 + (rows ? 3 * p.row_slots : 0));
}

bool is_hopper_family(const std::string& name) {
  return name == "small_m" || name == "multicast" || name == "gemm";
}

KernelSchedule complete_hopper(const KernelSchedule& schedule) {
  if (schedule.family == "small_m") return schedule_of(small_m_params(schedule), true);
  if (schedule.family == "multicast") return schedule_of(multicast_params(schedule), true);
  if (schedule.family == "gemm") return schedule_of(gemm_params(schedule), true);
  return schedule;
}

KernelSchedule canonical_hopper(const KernelSchedule& schedule) {
  if (schedule.family == "small_m") return schedule_of(small_m_params(schedule));
  if (schedule.family == "multicast") return schedule_of(multicast_params(schedule));
  if (schedule.family == "gemm") {
    // Parameters of sums that are taken in another way, or not at all, change nothing.
    GemmParams p = gemm_params(schedule);
    const GemmParams d;
    if (p.statistics != 3) p.slices = d.slices, p.rotate = d.rotate;
    if (p.statistics != 2) p.row_slots = d.row_slots;
    return schedule_of(p);
  }
  return schedule;
}

std::optional<std::string> illegal_hopper(const KernelFacts& facts, const KernelSchedule& schedule,
                                          const Workload& workload, const Target& target) {
  const bool streams_anywhere = schedule.family == "small_m" && target.compute_capability() >= 80;
  if (target.name != "sm_90a" && !streams_anywhere)
    return fmt::format("family {} needs sm_90a, not {}", schedule.family, target.name);
  std::string why;
  std::optional<StreamedProduct> form = streamed_product(facts, workload, &why);
  if (!form) return why;
  if (Reason r = check_range(*form)) return r;
  if (workload.keep_weights && !reads_weights_in_place(*form, schedule, true))
    return "it reads w from a copy in another order, and weights are to be kept as they are";
  if (schedule.family == "small_m") return illegal_small_m(*form, small_m_params(schedule), target);
  if (schedule.family == "multicast") return illegal_multicast(*form, multicast_params(schedule));
  return illegal_gemm(*form, gemm_params(schedule), target);
}

std::vector<KernelSchedule> candidates_hopper(const std::string& name, const KernelFacts& facts,
                                              const Workload& workload, const Target& target) {
  const bool hopper = target.name == "sm_90a";
  if (!hopper && (name != "small_m" || target.compute_capability() < 80)) return {};
  std::optional<StreamedProduct> form = streamed_product(facts, workload);
  if (!form) return {};
  if (name == "small_m")
    return form->m <= 64 ? candidates_small_m(*form, target) : std::vector<KernelSchedule>{};
  if (name == "multicast")
    return form->m <= 64 && form->m > 8 ? candidates_multicast(*form)
                                        : std::vector<KernelSchedule>{};
  return form->m > 16 ? candidates_gemm(*form) : std::vector<KernelSchedule>{};
}

}  // namespace tenon::ir
