// Costs of the families of sm_90a. Their terms follow what measurements of these kernels on an
// H200 found (docs/performance.md): small M is bound by reading the weights once, large M by the
// tensor cores and by how tiles fill the last wave. Against bench/results of 2026-11-30 (537
// schedules near the winners, 19 pairs of family and shape) the model's first choice is on
// average 3% (gemm) and 2% (multicast, small_m) slower than the best one measured. Ranks within a
// pair, whose times differ by a few percent, correlate by 0.63 (gemm), and by 0.36 and 0.49
// (multicast, small_m) with 12 more shapes of 2026-12-01, of which the fastest 16 each were kept.
#include "search/hopper_cost.h"

#include <algorithm>
#include <cmath>

#include "ir/error.h"

namespace tenon::search {

namespace {

constexpr double kStartUs = 1.5;        // launch to first bytes, and the tail
constexpr double kReaders = 106;        // blocks that read as fast as the whole device
constexpr double kClusterUs = 0.35;     // a cluster's exchange of partial results
constexpr double kExtraBlockUs = 0.25;  // a second block's start on a multiprocessor
constexpr double kKeptInL2 = 1.06;      // weights that do not leave L2 first
constexpr double kShortSegment = 1.3;   // loads of less than 128 bytes of a row
constexpr double kDramLatencyUs = 0.89;
constexpr double kPortableMma = 0.62;    // mma.sync against wgmma
constexpr double kGemmStartUs = 2.6;     // descriptors, ring, first tile
constexpr double kTileEpilogueUs = 1.0;  // a tile of 128 × 256, where nothing hides it
constexpr double kL2Rate = 1.75;         // of the memory's rate
constexpr double kBulkL2Rate = 2.6;      // the same through the bulk copy engine
// Multicast: wgmma leaves copies little time, and its ring waits for all blocks of a cluster.
constexpr double kMulticastStartUs = 2.3;
constexpr double kMulticastLatencyUs = 0.75;
constexpr double kMulticastReaders = 96;
constexpr double kPadUs = 2.5;            // a launch that copies x, beside the bytes that it moves
constexpr double kSpareBytesPerUs = 7e4;  // of X that one spare block sums
constexpr double kClockPerUs = 1700;
constexpr double kBytesPerClock = 64;  // from L2 into one multiprocessor

double ceil_div(double a, double b) { return std::ceil(a / b); }
double memory_rate(const ir::Target& t) { return t.memory_tb_per_s * 1e6; }
// Multiply-adds of a multiprocessor in a microsecond.
double product_rate(const ir::Target& t) { return t.matrix_tflops * 1e6 / 2 / t.sm_count; }

// Copy engines and tensor cores run beside each other almost undisturbed.
KernelCost overlapped(const ir::Target& t) {
  KernelCost cost;
  cost.launch_us = t.launch_us;
  cost.overlap = 0.04;
  return cost;
}

KernelCost small_m_cost(const ir::StreamedProduct& f, const ir::SmallMParams& p, double bytes,
                        const ir::Target& t) {
  KernelCost cost = overlapped(t);
  const double blocks = static_cast<double>(ir::small_m_groups(p, f.n, t)) * p.cluster;
  const double most = ir::small_m_most_tiles(p, f.n, t);
  // Bytes of weights that the busiest block reads, and a block's share of the device's rate.
  const double k_block = ceil_div(ceil_div(static_cast<double>(f.k), p.unit), p.cluster) * p.unit;
  const double busiest = most * 16 * k_block * 2;
  const double slot = p.unit * 16.0 * 2;
  const double ring = p.warps * (p.weights == 2 ? p.columns * 16.0 * 2 : p.stages * slot);
  const double rate = memory_rate(t);
  // What does not fit in the rings is asked for as it drains: a trip to memory for each ring.
  const double refills = std::max(0.0, busiest / ring - 1);
  double slow = 1.0;
  if (!p.evict_first) slow *= kKeptInL2;
  if (p.weights == 3 && p.unit < 64) slow *= kShortSegment;
  if (p.weights == 1 && p.unit < 64) slow *= 1.02;
  // What streams tile after tile can starve: bulk copies too small to issue fast enough, a
  // whole tile in registers before the next one is asked for.
  const bool streams = most > 1;
  if (p.weights == 0 && streams) slow *= slot < 2048 ? 1.3 : slot < 4096 ? 1.1 : 1.0;
  if (p.weights == 2 && streams) slow *= f.m > 8 ? 1.15 : 1.04;
  if (p.weights == 3 && p.unit >= 128 && streams) slow *= 0.99;
  if (p.interleaved && streams) slow *= 0.99;
  if (p.warps >= 16 && p.unit >= 128 && streams) slow *= 0.99;
  cost.memory_us =
      std::max({bytes / rate, busiest / (rate / kReaders), refills * kDramLatencyUs}) * slow;
  cost.compute_us = static_cast<double>(p.rows) * most * 16 * k_block /
                    (product_rate(t) * kPortableMma) * std::max(1, p.blocks_per_sm);
  const double x_bytes = static_cast<double>(p.rows) * k_block * 2;
  cost.serial_us = kStartUs - t.launch_us + 0.5 * x_bytes * blocks / (memory_rate(t) * kL2Rate);
  // A ring that holds little at the start, and one that asks for so much that X waits behind it:
  // worst where all weights are asked for before X.
  const double before_x = p.early * p.unit / (most * p.columns);
  cost.serial_us += p.staged || !streams ? 0.0 : 0.25;
  if (streams) cost.serial_us += 0.35 * std::abs(before_x - 0.25);
  if (streams && before_x >= 1) cost.serial_us += 0.05 * p.rows;
  // Rows that are not aligned are shifted word by word, unstaged one load after another.
  const double loads = p.columns / 32.0 * p.rows / 8.0;
  if (!f.x_rows_aligned()) cost.serial_us += p.staged ? 0.1 + 0.02 * loads : 0.25 * loads;
  // One tile a block: nothing follows that could hide its sums, reduction and stores.
  if (!streams && f.sums > 0 && !p.stats_first) cost.serial_us += 0.15;
  if (!streams && p.chains == 1) cost.serial_us += 0.05;
  if (!streams && p.weights == 3) cost.serial_us += 0.2;
  if (!streams && p.weights == 1) cost.serial_us += 0.1;
  cost.serial_us += 0.02 * std::abs(p.warps - 8) * (streams ? 0.2 : 1.0);
  // A few tiles of many rows: the sooner they are there the better, and few warps take long over X.
  if (p.rows > 8 && streams && most <= 6)
    cost.serial_us += p.weights == 3 ? 0.25 : p.weights == 1 ? 0.15 : 0.0;
  if (p.rows > 8 && streams) cost.serial_us += 0.003 * p.rows * std::max(0, 8 - p.warps);
  if (p.cluster > 1) cost.serial_us += kClusterUs * (p.cluster == 2 ? 1.0 : 1.8);
  if (p.blocks_per_sm > 1) cost.serial_us += kExtraBlockUs;
  if (f.sums > 0) cost.serial_us += 0.15;
  return cost;
}

KernelCost multicast_cost(const ir::StreamedProduct& f, const ir::MulticastParams& p, double bytes,
                          const ir::Target& t) {
  const double blocks = ceil_div(ceil_div(static_cast<double>(f.n), p.tile_n), p.share) * p.share;
  const double resident = ir::resident_blocks(p.share, t);
  const double waves = ceil_div(blocks, resident);
  const double k = static_cast<double>(f.k);
  KernelCost cost = overlapped(t);
  cost.overlap = 0.1;
  // Every wave keeps the memory as busy as its blocks allow.
  const double in_flight = std::min(blocks, resident) * p.stages * p.tile_n * 128.0;
  const double balance = waves > 1 ? waves * resident / blocks : kMulticastReaders / blocks;
  cost.memory_us =
      bytes / std::min(memory_rate(t), in_flight / kMulticastLatencyUs) * std::max(1.0, balance);
  const double arriving = (p.tile_n + p.rows) * k * 2;  // bytes at one multiprocessor
  cost.cache_us = waves * arriving / kBytesPerClock / kClockPerUs;
  cost.compute_us =
      waves * k / 64 * std::max(0.035, 64.0 * (p.tile_n + 64) * 64 / 4096 / kClockPerUs);
  cost.serial_us = kMulticastStartUs - t.launch_us + (p.share > 1 ? 0.15 : 0) +
                   0.01 * (8 - p.early) + (waves > 1 ? 2.0 * (waves - 1) : 0);
  return cost;
}

// The part of the tensor cores' rate that tiles of this shape sustain.
double tile_efficiency(const ir::GemmParams& p) {
  const double team = p.ping_pong ? 1 : p.consumers;
  const double group_rows = p.tile_m / team;
  // Each wgmma reads its columns again; taller groups and wider tiles read less for each product.
  const double wide = p.tile_n / (p.tile_n + 14.0);
  const double tall = group_rows / (group_rows + 6.0);
  const double deep = std::min(1.0, 0.86 + 0.04 * p.stages);
  return std::min(1.1, 1.25 * wide * tall * deep);
}

// What summing the rows adds to the products' time. Idle warps that read every tile keep up with
// tall tiles only; rows read once a launch compete with ping-pong's two tiles in flight.
double statistics_factor(const ir::StreamedProduct& f, const ir::GemmParams& p) {
  if (f.sums == 0) return 1.0;
  // Where a product is a few steps long its stores take the time, and two warpgroups that share a
  // tile sum it in passing (20.2 against 20.0 us at 4096 x 256 x 4096).
  if (p.statistics == 4 && f.k <= 512 && !p.ping_pong) return 1.02;
  if (p.statistics == 4) return p.tile_m >= 256 ? 1.02 : p.split_k > 1 ? 1.05 : 1.25;
  if (p.statistics == 5) return 1.002;
  if (p.statistics == 3) return p.ping_pong ? 1.03 : p.rotate == 0 ? 1.01 : 1.006;
  if (p.statistics == 2) {
    const double starved = p.producer_registers < 48 ? 1.06 : 1.0;
    return starved * (p.ping_pong ? (f.k > 4096 ? 1.2 : 1.05) : 1.012);
  }
  return 1.0;
}

KernelCost gemm_cost(const ir::StreamedProduct& f, const ir::GemmParams& p, double bytes,
                     const ir::Target& t) {
  KernelCost cost = overlapped(t);
  const double m = static_cast<double>(f.m), n = static_cast<double>(f.n),
               k = static_cast<double>(f.k);
  const double clusters =
      ceil_div(ceil_div(m, p.tile_m), p.cluster_m) * ceil_div(ceil_div(n, p.tile_n), p.cluster_n);
  const double resident = std::max(
      1.0, std::floor(ir::resident_blocks(p.cluster(), t) / static_cast<double>(p.cluster())));
  const double rounds = ceil_div(clusters, resident);
  const double k_part = k / p.split_k;
  const double tile_us =
      p.tile_m * static_cast<double>(p.tile_n) * k_part / (product_rate(t) * tile_efficiency(p));
  const double epilogue = kTileEpilogueUs * p.tile_m * p.tile_n / (128.0 * 256.0);
  double compute = rounds * tile_us;
  if (!p.ping_pong) compute += (rounds - 1) * epilogue * 0.6;
  compute *= statistics_factor(f, p);
  if (p.hint_x == 2) compute *= 1.08;  // X crowds out weights and results
  // X does not fit the L2: where rows come first, each group of them reads all of W again.
  if (m * k * 2 > 64e6 && p.raster == 0) compute *= 1.006;
  cost.compute_us = compute;

  const double running = std::min(clusters, resident) * p.cluster();
  // Copies bring a tile's rows only (Operands::tile_rows in codegen/device/gemm/plan.cuh).
  const double unit = 8.0 * p.cluster_n,
               tiles_m = ceil_div(ceil_div(m, p.tile_m), p.cluster_m) * p.cluster_m;
  const double tile_rows = unit * ceil_div(m, unit * tiles_m);
  const double stage =
      (tile_rows / p.cluster_n + static_cast<double>(p.tile_n) / p.cluster_m) * 64 * 2;
  const double rate = std::min(memory_rate(t), running * p.stages * stage / kDramLatencyUs);
  // Few blocks cannot draw the device's whole rate.
  cost.memory_us = bytes / (rate * std::min(1.0, running / kReaders));
  const double copied = clusters * p.cluster() * k_part / 64 * stage;
  cost.cache_us = copied / (memory_rate(t) * kBulkL2Rate);
  cost.serial_us = kGemmStartUs - t.launch_us + epilogue;
  // A launch before this one copies x.
  if (!f.x_rows_aligned()) cost.serial_us += kPadUs + 4 * m * k / memory_rate(t);
  if (f.sums > 0 && p.statistics == 2) cost.serial_us += 0.4;
  // One wave: a walk that begins with the slice leaves the tile's whole time for the exchange.
  if (f.sums > 0 && p.statistics == 3)
    cost.serial_us += clusters > resident ? 0.3 : p.rotate == 1 ? 0.5 : p.rotate == 2 ? 0.9 : 2.0;
  if (f.sums > 0 && p.statistics == 5) {
    // Rows that the first wave needs must be there when its tiles are multiplied; all of them, when
    // the blocks that sum them would have finished one tile less.
    const double spare = (resident - std::fmod(clusters, resident)) * p.cluster();
    const double sums = 2 * m * k / (spare * kSpareBytesPerUs) + 2.0;
    const double first = std::min(1.0, resident / clusters);
    const double slack = spare == resident * p.cluster() ? 0 : tile_us;
    cost.serial_us += std::max(0.0, std::max(sums * first - tile_us, sums - slack)) + 0.2;
    // Whole rows read beside the first stages of one wave's tiles hold up some of those.
    if (clusters <= resident) cost.serial_us += 1.0;
  }
  if (p.split_k > 1) cost.serial_us += 0.6;
  // Few rows: the weights are read once, so they need not stay; many: Y need not.
  if (f.m <= 512 && p.hint_w == 0) cost.memory_us *= 1.03;
  if (f.m > 512 && p.hint_w == 1) cost.serial_us += 0.02 * k / 1000;
  if (f.m * f.n > (std::int64_t{1} << 26) && p.hint_y == 0) cost.serial_us += 1;
  return cost;
}

}  // namespace

KernelCost hopper_cost(const ir::KernelFacts& facts, const ir::KernelSchedule& schedule,
                       const ir::Workload& workload, const ir::Target& target) {
  const std::optional<ir::StreamedProduct> f = ir::streamed_product(facts, workload);
  TENON_CHECK(f.has_value(), "a legal schedule of a family of sm_90a");
  const double m = static_cast<double>(f->m), n = static_cast<double>(f->n),
               k = static_cast<double>(f->k);
  const double bytes = 2 * (n * k + m * k + m * n);
  if (schedule.family == "small_m")
    return small_m_cost(*f, ir::small_m_params(schedule), bytes, target);
  if (schedule.family == "multicast")
    return multicast_cost(*f, ir::multicast_params(schedule), bytes, target);
  return gemm_cost(*f, ir::gemm_params(schedule), bytes, target);
}

}  // namespace tenon::search
