#include "search/cost_model.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "search/hopper_cost.h"

namespace tenon::search {

namespace {

using ir::Axes;

// Constants without a measure of their own were fitted to the times of 168 legal schedules, drawn
// at random over four µGraphs and eleven shapes, on one H200 on 2026-11-30: the
// geometric error is 20%; rank correlation with the measured times is 0.97 over all and 0.80
// within one µGraph and shape, where the model's first choice was 7% slower than the best.
//
// A device's start-up: from launch to the first bytes of DRAM in registers, and the tail; and
// of a contraction, whose ring must fill.
constexpr double kColdStartUs = 1.5;
constexpr double kStartUs = 3.4;
constexpr double kDramLatencyUs = 0.89;
constexpr double kClockPerUs = 1700;  // cycles; boost clocks of the targets are alike
constexpr double kSharedBytesPerClock = 128;
constexpr double kPortableMma = 0.62;  // of the tensor cores' rate, through mma.sync
constexpr double kL2Rate = 1.75;       // of the memory's rate
constexpr double kMergeUs = 0.35;      // a split reduction's exchange through memory
// One step of a contraction, in instructions of a thread and cycles; the counts stand for
// what the instructions wait for as well.
constexpr double kStepInstructions = 95;    // ring, barrier, addresses
constexpr double kCopyInstructions = 16;    // a chunk of 16 bytes
constexpr double kSumInstructions = 53;     // … that a row sum reads
constexpr double kChainInstructions = 320;  // … that a chain changes
constexpr double kStepCycles = 110;         // latencies that follow each other
constexpr double kDependentCycles = 1.55;   // an instruction of a warp that runs alone
constexpr double kIssueRate = 1.55;         // instructions a cycle of a scheduler
constexpr double kRoundUs = 1.2;            // of blocks: fill of the ring, epilogue
constexpr double kProductExposed = 0.5;     // of a product that one block does not hide

double ceil_div(double a, double b) { return std::ceil(a / b); }

double extent_of(const ir::Workload& w, int dim) {
  return dim < 0 ? 1.0 : static_cast<double>(w.extents[static_cast<std::size_t>(dim)]);
}

double bytes_of(const ir::Tensor& tensor, const ir::Workload& w) {
  double count = 1;
  for (const ir::Axis& axis : tensor.axes) count *= extent_of(w, axis.dim);
  return count * static_cast<double>(ir::size_of(ir::bind(tensor.dtype, w.dtype)));
}

// Bytes per microsecond.
double memory_rate(const ir::Target& t) { return t.memory_tb_per_s * 1e6; }

// What the device reads per microsecond with so many bytes in flight (Little's law).
double rate_with(double bytes_in_flight, const ir::Target& t) {
  return std::min(memory_rate(t), bytes_in_flight / kDramLatencyUs);
}

double traffic(const ir::KernelFacts& facts, const ir::Workload& w) {
  double bytes = 0;
  for (const ir::Tensor& in : facts.flow.inputs) bytes += bytes_of(in, w);
  for (const ir::Dataflow::Output& out : facts.flow.outputs) bytes += bytes_of(out.tensor, w);
  return bytes;
}

KernelCost rows_cost(const ir::KernelFacts& facts, const ir::KernelSchedule& schedule,
                     const ir::Workload& w, const ir::Target& t) {
  ir::RowsParams p = ir::rows_params(schedule);
  double rows = extent_of(w, facts.row);
  double rows_per_block = p.threads / p.group;
  double blocks = ceil_div(rows, rows_per_block) * p.splits;
  double resident = std::max(1.0, std::min(2048.0 / p.threads, 16.0));
  double inner = 1;
  for (const ir::SumPass& pass : facts.passes)
    inner = std::max(inner, extent_of(w, pass.dim) / p.splits);
  double out_inner = 0;
  for (const ir::Dataflow::Output& out : facts.flow.outputs)
    for (const ir::Axis& axis : out.tensor.axes)
      if (axis.dim != facts.row) out_inner = std::max(out_inner, extent_of(w, axis.dim));
  double run = 16.0 / static_cast<double>(ir::size_of(w.dtype));
  // A thread has four runs of 16 bytes in flight; what it must load beyond that waits.
  double loads = ceil_div(inner, run * p.group);
  double rounds = ceil_div(loads, 4.0);
  double active = std::min(blocks, t.sm_count * resident);
  KernelCost cost;
  cost.launch_us = t.launch_us;
  cost.memory_us = traffic(facts, w) / rate_with(active * p.threads * 16 * std::min(loads, 4.0), t);
  double waves = ceil_div(blocks, t.sm_count * resident);
  double passes = std::max<double>(1, static_cast<double>(facts.passes.size()));
  bool kept = loads <= 8;
  double latency = rounds * kDramLatencyUs;
  if (!kept) latency += (passes - 1) * rounds * kDramLatencyUs * 0.6;
  if (out_inner > 0) latency += 0.2 * ceil_div(out_inner, run * p.group);
  cost.compute_us = waves * latency;
  cost.serial_us =
      kColdStartUs - t.launch_us + (p.group > 32 ? 0.1 : 0.0) + (p.splits > 1 ? kMergeUs : 0.0);
  return cost;
}

// Blocks of a contraction that one multiprocessor holds.
double resident_blocks(const ir::KernelFacts& facts, const ir::ContractionParams& p,
                       const ir::Workload& w, const ir::Target& t, bool tensor_cores) {
  double shared = static_cast<double>(ir::contraction_shared_bytes(facts, p, w)) + 1024;
  double registers =
      static_cast<double>(facts.products.size()) * p.tile_m * p.tile_n / p.threads() +
      (tensor_cores ? 56 : 72);
  registers = std::min(255.0, std::ceil(registers / 8) * 8);
  double by_shared = std::floor(t.shared_bytes_per_sm / shared);
  double by_registers = std::floor(t.registers_per_sm / (registers * p.threads()));
  return std::max(1.0, std::min({by_shared, by_registers, 2048.0 / p.threads(), 16.0}));
}

// What one step of a contraction's loop asks of a thread and of its multiprocessor.
struct StepWork {
  double instructions = 0;  // of one thread
  double product_us = 0;    // on the tensor cores or FMA units, one block alone
  double shared_us = 0;     // of shared memory's ports, one block
};

StepWork step_work(const ir::KernelFacts& facts, const ir::ContractionParams& p,
                   const ir::Target& t, bool tensor_cores) {
  double size = tensor_cores ? 2 : 4;
  double chunk = 16 / size;
  double threads = p.threads();
  double products = static_cast<double>(facts.products.size());
  double a_chunks = std::ceil(p.tile_m * p.tile_k / chunk / threads);
  double b_chunks = std::ceil(p.tile_n * p.tile_k / chunk / threads);
  double operands_a = static_cast<double>(facts.a_operands.size());
  double operands_b = static_cast<double>(facts.b_operands.size());

  StepWork work;
  work.instructions =
      kStepInstructions + kCopyInstructions * (operands_a * a_chunks + operands_b * b_chunks);
  double touched = 0;  // chunks that a chain or a sum reads, and a chain writes
  for (const ir::SumPass& pass : facts.passes) {
    if (!pass.with_product) continue;
    work.instructions += kSumInstructions * pass.count * a_chunks;
    touched += a_chunks;
  }
  for (const ir::Operand& a : facts.a_operands) {
    if (a.identity) continue;
    work.instructions += kChainInstructions * a_chunks;
    touched += 2 * a_chunks;
  }
  for (const ir::Operand& b : facts.b_operands) {
    if (b.identity) continue;
    work.instructions += kChainInstructions * b_chunks;
    touched += 2 * b_chunks;
  }
  double warp_m = p.tile_m / p.warps_m, warp_n = p.tile_n / p.warps_n;
  if (tensor_cores) {
    double parts = p.tile_k / 16.0;
    work.instructions += parts * (1.5 * (operands_a * warp_m / 16 + operands_b * warp_n / 16) +
                                  products * warp_m / 16 * warp_n / 8);
  } else {
    double parts = p.tile_k / 4.0;
    work.instructions += parts * products * (warp_m / 4 + warp_n / 8 + warp_m * warp_n / 32 * 4);
  }
  double rate =
      (tensor_cores ? t.matrix_tflops * kPortableMma : t.fp32_tflops * 0.9) * 1e6 / 2 / t.sm_count;
  work.product_us = products * p.tile_m * p.tile_n * p.tile_k / rate;
  double fragments = products * size * p.tile_k * (warp_m + warp_n) * p.warps_m * p.warps_n;
  double copied = size * p.tile_k * (operands_a * p.tile_m + operands_b * p.tile_n);
  work.shared_us =
      (fragments + copied + 16 * touched * threads) / kSharedBytesPerClock / kClockPerUs;
  return work;
}

KernelCost contraction_cost(const ir::KernelFacts& facts, const ir::KernelSchedule& schedule,
                            const ir::Workload& w, const ir::Target& t) {
  if (!facts.parts.empty()) {
    // Contractions side by side in one grid: they start together and share the device.
    KernelCost all = contraction_cost(facts.parts[0], schedule, w, t);
    for (std::size_t i = 1; i < facts.parts.size(); ++i) {
      KernelCost part = contraction_cost(facts.parts[i], schedule, w, t);
      all.memory_us += part.memory_us;
      all.cache_us += part.cache_us;
      all.compute_us += part.compute_us;
      all.serial_us = std::max(all.serial_us, part.serial_us);
    }
    return all;
  }
  ir::ContractionParams p = ir::contraction_params(schedule);
  bool tensor_cores = ir::uses_tensor_cores(p, w.dtype);
  double size = tensor_cores ? 2 : 4;
  double m = extent_of(w, facts.row), n = extent_of(w, facts.column),
         k = extent_of(w, facts.reduced);
  double tiles_m = ceil_div(m, p.tile_m), tiles_n = ceil_div(n, p.tile_n);
  double blocks = tiles_m * tiles_n * p.splits;
  double steps = ceil_div(ceil_div(k, p.tile_k), p.splits);
  double tiles_each = 1;  // of a block
  if (p.stream > 0) {
    const double all = tiles_m * tiles_n * ceil_div(k, p.tile_k);
    blocks = std::min<double>(p.stream, all);
    steps = ceil_div(all, blocks);
    tiles_each = ceil_div(tiles_m * tiles_n, blocks);
  }
  double resident = resident_blocks(facts, p, w, t, tensor_cores);
  double on_sm = ceil_div(blocks, t.sm_count);  // of the busiest multiprocessor
  double together = std::min(on_sm, resident);  // of them at a time
  double rounds = ceil_div(on_sm, together);
  double warps = p.warps_m * p.warps_n;

  KernelCost cost;
  cost.launch_us = t.launch_us;
  double stage = size *
                 (static_cast<double>(facts.a_operands.size()) * std::min<double>(p.tile_m, m) +
                  static_cast<double>(facts.b_operands.size()) * std::min<double>(p.tile_n, n)) *
                 std::min<double>(p.tile_k, k);
  double busy = std::min<double>(t.sm_count, blocks);
  double in_flight = busy * together * stage * std::min<double>(p.stages - 1, steps);
  cost.memory_us = traffic(facts, w) / rate_with(in_flight, t);
  cost.cache_us = blocks * steps * stage /
                  std::min(memory_rate(t) * kL2Rate, in_flight / (0.6 * kDramLatencyUs));

  StepWork work = step_work(facts, p, t, tensor_cores);
  double alone = (kStepCycles + work.instructions * kDependentCycles) / kClockPerUs +
                 work.product_us * kProductExposed;
  double issue = work.instructions * warps * together / (4 * kIssueRate) / kClockPerUs;
  double step = std::max({alone, issue, together * work.product_us, together * work.shared_us});
  cost.compute_us = rounds * steps * step;

  // Sums before the loop read the block's rows, a warp a row, from L2 after the first time.
  for (const ir::SumPass& pass : facts.passes) {
    if (pass.with_product) continue;
    double row_loads = ceil_div(extent_of(w, pass.dim), 32 * 16 / size);
    double rows_each = ceil_div(std::min<double>(p.tile_m, m), warps);
    cost.serial_us += rounds * rows_each *
                      (ceil_div(row_loads, 8) * kDramLatencyUs +
                       row_loads * together * warps / 4 * 60 / kClockPerUs);
  }
  double outputs = static_cast<double>(p.tile_m) * p.tile_n / p.threads();
  cost.serial_us +=
      kStartUs - t.launch_us +
      rounds * tiles_each * (kRoundUs + outputs * 12 * warps * together / 4 / kClockPerUs);
  if (p.leaves_parts()) {
    const double partial = static_cast<double>(ir::contraction_partial_floats(facts, p)) * 4;
    // With stream-K a block begins in one tile and ends in another, and most tiles are of two
    // blocks.
    const double left = p.stream > 0 ? 2 * blocks : blocks, merged = p.stream > 0 ? 2 : p.splits;
    cost.serial_us += kMergeUs + 2 * left * partial / (memory_rate(t) * kL2Rate) +
                      merged * partial / (memory_rate(t) / t.sm_count);
  }
  return cost;
}

KernelCost library_cost(const ir::KernelView& kernel, const ir::KernelSchedule& schedule,
                        const ir::Workload& w, const ir::Target& t) {
  const ir::LibraryMatmul& product = *kernel.library;
  double bytes = 0;
  for (ir::TensorId id : {product.a, product.b, product.out})
    bytes += bytes_of(kernel.tensors[static_cast<std::size_t>(id)], w);
  double multiply_adds = extent_of(w, product.dim);
  for (const ir::Axis& axis : kernel.tensors[static_cast<std::size_t>(product.out)].axes)
    multiply_adds *= extent_of(w, axis.dim);
  double rate = w.dtype == ir::DType::kF32 ? t.fp32_tflops * 0.8 : t.matrix_tflops;
  KernelCost cost;
  cost.launch_us = t.launch_us;
  cost.overlap = 0.05;
  cost.memory_us = bytes / memory_rate(t) * 1.08;
  cost.compute_us = 2 * multiply_adds / (rate * 1e6);
  // Rows that are not multiples of 16 bytes take its slow kernels: 17 µs of 4 at 5 x 3001 x 2000
  // (bench/results/2026-11-30-h200-tuning-14s.json).
  for (ir::TensorId id : {product.a, product.b, product.out}) {
    const ir::Tensor& tensor = kernel.tensors[static_cast<std::size_t>(id)];
    if (std::fmod(extent_of(w, tensor.axes.back().dim) * ir::size_of(w.dtype), 16) != 0) {
      cost.memory_us *= 2;
      cost.compute_us *= 2;
      break;
    }
  }
  // Measured on an H200 (bench/results): about 1.5 µs more than a cold read at small M; the
  // heuristics' order is good, but each of the first eight wins somewhere.
  cost.serial_us =
      kColdStartUs - t.launch_us + 1.5 + 0.3 * static_cast<double>(schedule.get("algorithm", 0));
  return cost;
}

KernelCost host_cost(const ir::KernelView& kernel, const ir::KernelSchedule& schedule,
                     const ir::Workload& w, const ir::Target& t) {
  double bytes = 0, multiply_adds = 0, rows = 1;
  if (kernel.library) {
    const ir::LibraryMatmul& product = *kernel.library;
    for (ir::TensorId id : {product.a, product.b, product.out})
      bytes += bytes_of(kernel.tensors[static_cast<std::size_t>(id)], w);
    multiply_adds = extent_of(w, product.dim);
    const Axes& axes = kernel.tensors[static_cast<std::size_t>(product.out)].axes;
    for (const ir::Axis& axis : axes) multiply_adds *= extent_of(w, axis.dim);
    rows = extent_of(w, axes[0].dim);
  } else if (kernel.facts) {
    const ir::KernelFacts& facts = *kernel.facts;
    bytes = traffic(facts, w);
    rows = extent_of(w, facts.row);
    multiply_adds = static_cast<double>(facts.products.size()) * rows * extent_of(w, facts.column) *
                    extent_of(w, facts.reduced);
    for (const ir::SumPass& pass : facts.passes) multiply_adds += rows * extent_of(w, pass.dim);
  }
  KernelCost cost;
  cost.launch_us = t.launch_us;
  cost.memory_us = bytes / memory_rate(t);
  double tile_m = static_cast<double>(schedule.get("tile_m", 32));
  double tile_n = static_cast<double>(schedule.get("tile_n", 64));
  // Work that ragged tiles and few tiles leave on the table, and tiles that leave the cache.
  double waste = ceil_div(rows, tile_m) * tile_m / rows;
  double tile_bytes = 4 * (tile_m + tile_n) * static_cast<double>(schedule.get("tile_k", 256));
  double spill = tile_bytes > 256 * 1024 ? 1.3 : 1.0;
  cost.compute_us = 2 * multiply_adds / (t.fp32_tflops * 1e6) * std::min(waste, 4.0) * spill;
  cost.serial_us = 1.0;
  return cost;
}

}  // namespace

double KernelCost::total_us() const {
  // Memory, cache and compute overlap, but never quite.
  double most = std::max({memory_us, cache_us, compute_us});
  double rest = memory_us + cache_us + compute_us - most;
  return launch_us + serial_us + most + overlap * rest;
}

double cold_read_us(double bytes, const ir::Target& target) {
  return kColdStartUs + bytes / memory_rate(target);
}

KernelCost kernel_cost(const ir::KernelView& kernel, const ir::KernelSchedule& schedule,
                       const ir::Workload& given, const ir::Target& target) {
  std::optional<ir::Workload> own;
  if (kernel.facts && kernel.facts->flow.merge) own = ir::kernel_workload(*kernel.facts, given);
  const ir::Workload& workload = own ? *own : given;
  if (target.is_host()) return host_cost(kernel, schedule, workload, target);
  if (schedule.family == "library") return library_cost(kernel, schedule, workload, target);
  if (ir::is_hopper_family(schedule.family))
    return hopper_cost(*kernel.facts, schedule, workload, target);
  if (schedule.family == "rows") return rows_cost(*kernel.facts, schedule, workload, target);
  return contraction_cost(*kernel.facts, schedule, workload, target);
}

}  // namespace tenon::search
