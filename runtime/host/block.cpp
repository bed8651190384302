#include "runtime/host/block.h"

#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>

#include <algorithm>

#include "ir/error.h"
#include "runtime/host/block_program.h"
#include "runtime/host/execute.h"
#include "runtime/host/pool.h"

namespace tenon::runtime::host {

namespace {

using ir::Axis;
using ir::DimId;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }
std::int64_t bytes_of(ir::DType type) { return type == ir::DType::kF32 ? 4 : 2; }

// How one dim is cut.
struct Cut {
  bool in_grid = false, in_loop = false, split = false;
  std::int64_t extent = 1;
  std::int64_t share = 1;  // elements of a block; all of them outside of the grid
  std::int64_t tile = 1;   // elements of a loop step
  std::int64_t blocks = 1;
};

// What the schedule says about one dim; 0: not said.
struct CutRule {
  bool in_grid = false, in_loop = false, split = false;
  std::int64_t tile = 0, split_count = 0, grid_share = 0;
};

// All that one launch needs and threads share; pooled, so that a launch allocates nothing
// once sizes have been seen.
struct LaunchState {
  std::vector<Cut> cuts;                // by dim
  std::vector<DimId> parallel, splits;  // grid dims
  std::int64_t blocks = 1, shares = 1;
  AxisExtents largest;
  std::vector<Bound> slots;          // strides, sizes; addresses of arena tiles as offsets
  std::vector<std::int64_t> offset;  // floats into the arena, by slot; -1: external
  std::int64_t arena_floats = 0, scratch_floats = 0;
  std::vector<float> constants;
  std::vector<std::vector<std::int64_t>> tensor_strides;  // by TensorId
  std::vector<std::int64_t> state_offset;  // floats into a share's states, in order of accumulators
  std::int64_t state_floats = 0;
  std::vector<float> states;  // of all shares of a split
};

// What one thread needs for one block.
struct ThreadState {
  std::vector<float> memory;
  std::vector<Bound> slots;
  AxisExtents extents;
  std::vector<std::int64_t> block_index, step_index;  // by dim
};

constexpr std::int64_t kAlign = 16;  // floats: one cache line
std::int64_t aligned(std::int64_t floats) { return (floats + kAlign - 1) / kAlign * kAlign; }

}  // namespace

class BlockProgram::Impl {
 public:
  Impl(const ir::MuGraph& graph, const ir::BlockGraph& block, const ir::KernelSchedule& schedule,
       ir::DType elem)
      : program_(compile_block(graph, block, elem)),
        loop_(block.loop),
        dims_(graph.signature.dims.size()) {
    for (const ir::Tensor& t : graph.tensors) tensors_.push_back({t.axes, ir::bind(t.dtype, elem)});
    rules_.resize(dims_);
    for (std::size_t d = 0; d < dims_; ++d) {
      const std::string& name = graph.signature.dims[d];
      CutRule& rule = rules_[d];
      rule.tile = schedule.get("tile_" + name, 0);
      rule.split_count = schedule.get("split_" + name, schedule.get("splits", 0));
      rule.grid_share = schedule.get("grid_" + name, 0);
      if (rule.tile < 0 || rule.split_count < 0 || rule.grid_share < 0)
        throw UserError("schedule", ir::print(ir::Schedule{{schedule}, false}),
                        "positive tile sizes and split counts");
    }
    for (const ir::GridDim& g : block.grid) {
      grid_.push_back(g.dim);
      rules_[g.dim].in_grid = true;
      rules_[g.dim].split = g.split;
    }
    for (DimId d : block.loop) rules_[d].in_loop = true;
    constants_ = program_.frame.constants;
  }

  void run(const BlockLaunch& launch) const {
    auto state = launches_.take();
    prepare(*state, launch);
    const LaunchState& s = *state;
    const std::int64_t blocks = s.blocks, shares = s.shares;
    if (shares == 1) {
      spread(blocks, [&](std::int64_t i) {
        ThreadState& t = threads_.local();
        begin_block(t, s, i, 0, launch);
        run_share(t, s, launch);
        finish(t, s, launch);
      });
    } else {
      state->states.resize(static_cast<std::size_t>(blocks * shares * s.state_floats));
      float* states = state->states.data();
      spread(blocks * shares, [&](std::int64_t i) {
        ThreadState& t = threads_.local();
        begin_block(t, s, i / shares, i % shares, launch);
        bind_states(t, s, states + i * s.state_floats, false);
        run_share(t, s, launch);
      });
      spread(blocks, [&](std::int64_t i) {
        ThreadState& t = threads_.local();
        begin_block(t, s, i, 0, launch);
        bind_states(t, s, states + i * shares * s.state_floats, false);
        rerun_prologue(t, s, launch);
        for (std::int64_t share = 1; share < shares; ++share) {
          bind_states(t, s, states + (i * shares + share) * s.state_floats, true);
          Context c = context(t, s);
          for (const CompiledAccumulator& acc : program_.accumulators) host::run(acc.merge, c);
        }
        finish(t, s, launch);
      });
    }
    launches_.give(std::move(state));
  }

 private:
  struct TensorShape {
    ir::Axes axes;
    ir::DType type;
  };

  template <class F>
  static void spread(std::int64_t count, const F& f) {
    if (count == 1)
      f(0);
    else
      tbb::parallel_for(std::int64_t{0}, count, f);
  }

  // Tile sizes where the schedule is silent: enough blocks for every thread, otherwise as
  // large as the second-level cache likes.
  static std::int64_t default_tile(const CutRule& rule, bool innermost) {
    if (rule.in_grid && !rule.split) return innermost ? 256 : 96;
    return 512;
  }

  void cut_dims(LaunchState& s, const ir::Extents& extents) const {
    s.cuts.assign(dims_, {});
    s.parallel.clear();
    s.splits.clear();
    s.blocks = s.shares = 1;
    for (std::size_t d = 0; d < dims_; ++d) {
      const CutRule& rule = rules_[d];
      Cut& cut = s.cuts[d];
      cut.in_grid = rule.in_grid;
      cut.in_loop = rule.in_loop;
      cut.split = rule.split;
      cut.extent = extents[d];
      const std::int64_t extent = std::max<std::int64_t>(1, cut.extent);
      const bool innermost = !grid_.empty() && grid_.back() == d;
      std::int64_t tile = rule.tile > 0 ? rule.tile : default_tile(rule, innermost);
      cut.share = extent;
      if (rule.in_grid && rule.split)
        cut.share = ceil_div(extent, std::clamp<std::int64_t>(
                                         rule.split_count > 0 ? rule.split_count : 2, 1, extent));
      else if (rule.in_grid && rule.in_loop)
        cut.share = std::min(extent, rule.grid_share > 0 ? rule.grid_share : 8 * tile);
      else if (rule.in_grid)
        cut.share = std::min(extent, tile);
      cut.tile = rule.in_loop ? std::min(cut.share, tile) : cut.share;
      cut.blocks = ceil_div(extent, cut.share);
    }
    for (DimId d : grid_) {
      (s.cuts[d].split ? s.splits : s.parallel).push_back(d);
      (s.cuts[d].split ? s.shares : s.blocks) *= s.cuts[d].blocks;
    }
  }

  void prepare(LaunchState& s, const BlockLaunch& launch) const {
    const Frame& frame = program_.frame;
    cut_dims(s, *launch.extents);
    s.largest.resize(dims_);
    for (std::size_t d = 0; d < dims_; ++d) {
      DimId dim = static_cast<DimId>(d);
      s.largest.of({dim, ir::kFull}) = s.cuts[d].extent;
      s.largest.of({dim, ir::kGrid}) = std::min(s.cuts[d].share, s.cuts[d].extent);
      s.largest.of({dim, ir::kLoop}) = s.largest.of({dim, ir::kGridLoop}) =
          std::min(s.cuts[d].tile, s.cuts[d].extent);
    }
    s.tensor_strides.resize(tensors_.size());
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      std::int64_t stride = 1;
      s.tensor_strides[t].resize(tensors_[t].axes.size());
      for (std::size_t a = tensors_[t].axes.size(); a-- > 0;) {
        s.tensor_strides[t][a] = stride;
        stride *= (*launch.extents)[tensors_[t].axes[a].dim];
      }
    }
    bind_slots(s);
    s.constants.resize(constants_.size());
    for (std::size_t i = 0; i < constants_.size(); ++i)
      s.constants[i] = launch.domain->constant(constants_[i], *launch.extents);
    std::int64_t scratch = std::max({scratch_floats(program_.prologue, frame, s.largest),
                                     scratch_floats(program_.body, frame, s.largest),
                                     scratch_floats(program_.epilogue, frame, s.largest)});
    for (const CompiledAccumulator& acc : program_.accumulators)
      for (const Steps* steps : {&acc.init, &acc.update, &acc.merge, &acc.finalize})
        scratch = std::max(scratch, scratch_floats(*steps, frame, s.largest));
    s.scratch_floats = scratch;
  }

  // Strides of every slot, and room in the arena for tiles.
  void bind_slots(LaunchState& s) const {
    const Frame& frame = program_.frame;
    s.slots.assign(frame.slots.size(), {});
    s.offset.assign(frame.slots.size(), -1);
    s.arena_floats = s.state_floats = 0;
    s.state_offset.clear();
    for (std::size_t i = 0; i < frame.slots.size(); ++i) {
      const Slot& slot = frame.slots[i];
      std::int64_t stride = 1;
      for (std::size_t a = slot.axes.size(); a-- > 0;) {
        s.slots[i].stride[a] = stride;
        stride *= s.largest.of(slot.axes[a]);
      }
      s.slots[i].elements = stride;
      if (slot.external) continue;
      s.offset[i] = s.arena_floats;
      s.arena_floats += aligned(stride);
    }
    for (const auto* list : {&program_.inputs, &program_.outputs})
      for (const TensorSlot& t : *list)
        std::copy(s.tensor_strides[static_cast<std::size_t>(t.tensor)].begin(),
                  s.tensor_strides[static_cast<std::size_t>(t.tensor)].end(),
                  s.slots[static_cast<std::size_t>(t.slot)].stride);
    for (const CompiledAccumulator& acc : program_.accumulators)
      for (int slot : acc.states) {
        s.state_offset.push_back(s.state_floats);
        s.state_floats += aligned(s.slots[static_cast<std::size_t>(slot)].elements);
      }
  }

  Context context(ThreadState& t, const LaunchState& s) const {
    float* scratch = align(t.memory.data()) + s.arena_floats;
    return {&kernels(), &program_.frame, t.slots.data(), s.constants.data(), &t.extents, scratch};
  }

  static float* align(float* p) {
    auto address = reinterpret_cast<std::uintptr_t>(p);
    return reinterpret_cast<float*>((address + 63) / 64 * 64);
  }

  void begin_block(ThreadState& t, const LaunchState& s, std::int64_t block, std::int64_t share,
                   const BlockLaunch& launch) const {
    std::size_t need = static_cast<std::size_t>(s.arena_floats + s.scratch_floats + 2 * kAlign);
    if (t.memory.size() < need) t.memory.resize(need);
    t.slots = s.slots;
    float* arena = align(t.memory.data());
    for (std::size_t i = 0; i < t.slots.size(); ++i)
      if (s.offset[i] >= 0) t.slots[i].data = reinterpret_cast<std::byte*>(arena + s.offset[i]);
    t.block_index.assign(dims_, 0);
    t.step_index.assign(dims_, 0);
    for (DimId d : s.parallel) {
      t.block_index[d] = block % s.cuts[d].blocks;
      block /= s.cuts[d].blocks;
    }
    for (DimId d : s.splits) {
      t.block_index[d] = share % s.cuts[d].blocks;
      share /= s.cuts[d].blocks;
    }
    t.extents = s.largest;
    for (std::size_t d = 0; d < dims_; ++d) {
      const Cut& cut = s.cuts[d];
      DimId dim = static_cast<DimId>(d);
      t.extents.of({dim, ir::kGrid}) =
          std::clamp<std::int64_t>(cut.extent - t.block_index[d] * cut.share, 0, cut.share);
      set_step(t, s, dim, 0);
    }
    bind_tensors(t, s, launch, false);
  }

  // First element of a part of a dim for the current block and step.
  static std::int64_t begin(const ThreadState& t, const LaunchState& s, Axis axis) {
    const Cut& cut = s.cuts[axis.dim];
    std::int64_t at = 0;
    if (axis.part & ir::kGrid) at += t.block_index[axis.dim] * cut.share;
    if (axis.part & ir::kLoop) at += t.step_index[axis.dim] * cut.tile;
    return at;
  }

  // Extents of the loop's parts of `dim` at step `step`.
  static void set_step(ThreadState& t, const LaunchState& s, DimId dim, std::int64_t step) {
    const Cut& cut = s.cuts[dim];
    t.step_index[dim] = step;
    std::int64_t share = t.extents.of({dim, ir::kGrid});
    t.extents.of({dim, ir::kLoop}) =
        std::clamp<std::int64_t>(cut.extent - step * cut.tile, 0, cut.tile);
    t.extents.of({dim, ir::kGridLoop}) =
        std::clamp<std::int64_t>(share - step * cut.tile, 0, cut.tile);
  }

  // Addresses of tensors' parts; `mute` hides outputs.
  void bind_tensors(ThreadState& t, const LaunchState& s, const BlockLaunch& launch,
                    bool mute) const {
    auto bind = [&](const TensorSlot& at) {
      const TensorShape& tensor = tensors_[static_cast<std::size_t>(at.tensor)];
      const ir::Axes& axes = program_.frame.slots[static_cast<std::size_t>(at.slot)].axes;
      std::int64_t offset = 0;
      for (std::size_t a = 0; a < axes.size(); ++a)
        offset += begin(t, s, axes[a]) * s.tensor_strides[static_cast<std::size_t>(at.tensor)][a];
      t.slots[static_cast<std::size_t>(at.slot)].data =
          launch.tensors[at.tensor] + offset * bytes_of(tensor.type);
    };
    for (const TensorSlot& in : program_.inputs) bind(in);
    for (const TensorSlot& out : program_.outputs) {
      if (mute || !writes(t, s, out))
        t.slots[static_cast<std::size_t>(out.slot)].data = nullptr;
      else
        bind(out);
    }
  }

  // Over grid dims that the value lacks, block 0 is the one writer.
  bool writes(const ThreadState& t, const LaunchState& s, const TensorSlot& out) const {
    const ir::Axes& axes = program_.frame.slots[static_cast<std::size_t>(out.slot)].axes;
    return std::all_of(grid_.begin(), grid_.end(), [&](DimId d) {
      int a = ir::find_dim(axes, d);
      bool along = a >= 0 && (axes[static_cast<std::size_t>(a)].part & ir::kGrid);
      return along || t.block_index[d] == 0;
    });
  }

  // Loads of a neighbour's share: element j of an axis is element (begin + j + shift·share) mod
  // extent.
  void load_shifted(ThreadState& t, const LaunchState& s, const BlockLaunch& launch,
                    bool in_loop) const {
    for (const ShiftedLoad& load : program_.shifted) {
      if (load.in_loop != in_loop) continue;
      const ir::Axes& axes = program_.frame.slots[static_cast<std::size_t>(load.slot)].axes;
      copy_shifted(t, s, launch, load, axes, 0, 0, 0);
    }
  }

  void copy_shifted(ThreadState& t, const LaunchState& s, const BlockLaunch& launch,
                    const ShiftedLoad& load, const ir::Axes& axes, std::size_t a, std::int64_t from,
                    std::int64_t to) const {
    const Bound& tile = t.slots[static_cast<std::size_t>(load.slot)];
    if (a == axes.size()) {
      const ir::DType type = tensors_[static_cast<std::size_t>(load.tensor)].type;
      kernels().load(reinterpret_cast<float*>(tile.data) + to,
                     launch.tensors[load.tensor] + from * bytes_of(type), type, 1, 1);
      return;
    }
    const Cut& cut = s.cuts[axes[a].dim];
    for (std::int64_t j = 0; j < t.extents.of(axes[a]); ++j) {
      std::int64_t element =
          (begin(t, s, axes[a]) + j + load.maps[a].shift * cut.share) % cut.extent;
      if (element < 0) element += cut.extent;
      copy_shifted(t, s, launch, load, axes, a + 1,
                   from + element * s.tensor_strides[static_cast<std::size_t>(load.tensor)][a],
                   to + j * tile.stride[a]);
    }
  }

  void bind_states(ThreadState& t, const LaunchState& s, float* states, bool right) const {
    std::size_t i = 0;
    for (const CompiledAccumulator& acc : program_.accumulators)
      for (int slot : right ? acc.right : acc.states)
        t.slots[static_cast<std::size_t>(slot)].data =
            reinterpret_cast<std::byte*>(states + s.state_offset[i++]);
  }

  // Prologue and loop of one share.
  void run_share(ThreadState& t, const LaunchState& s, const BlockLaunch& launch) const {
    Context c = context(t, s);
    for (const CompiledAccumulator& acc : program_.accumulators) host::run(acc.init, c);
    load_shifted(t, s, launch, false);
    host::run(program_.prologue, c);
    run_loop(t, s, launch, 0);
  }

  void rerun_prologue(ThreadState& t, const LaunchState& s, const BlockLaunch& launch) const {
    bind_tensors(t, s, launch, true);
    load_shifted(t, s, launch, false);
    host::run(program_.prologue, context(t, s));
    bind_tensors(t, s, launch, false);
  }

  void run_loop(ThreadState& t, const LaunchState& s, const BlockLaunch& launch,
                std::size_t level) const {
    if (level == loop_.size()) {
      bind_tensors(t, s, launch, false);
      load_shifted(t, s, launch, true);
      Context c = context(t, s);
      host::run(program_.body, c);
      for (const CompiledAccumulator& acc : program_.accumulators) host::run(acc.update, c);
      return;
    }
    DimId d = loop_[level];
    const Cut& cut = s.cuts[d];
    std::int64_t elements = cut.in_grid ? t.extents.of({d, ir::kGrid}) : cut.extent;
    for (std::int64_t step = 0; step < ceil_div(elements, cut.tile); ++step) {
      set_step(t, s, d, step);
      run_loop(t, s, launch, level + 1);
    }
    set_step(t, s, d, 0);
  }

  void finish(ThreadState& t, const LaunchState& s, const BlockLaunch& launch) const {
    if (!loop_.empty()) bind_tensors(t, s, launch, false);
    Context c = context(t, s);
    for (const CompiledAccumulator& acc : program_.accumulators) host::run(acc.finalize, c);
    host::run(program_.epilogue, c);
  }

  CompiledBlock program_;
  std::vector<DimId> loop_, grid_;
  std::size_t dims_;
  std::vector<TensorShape> tensors_;
  std::vector<CutRule> rules_;
  std::vector<ir::Constant> constants_;
  mutable Pool<LaunchState> launches_;
  mutable tbb::enumerable_thread_specific<ThreadState> threads_;
};

BlockProgram::BlockProgram(const ir::MuGraph& graph, const ir::BlockGraph& block,
                           const ir::KernelSchedule& schedule, ir::DType elem)
    : impl_(std::make_unique<Impl>(graph, block, schedule, elem)) {}
BlockProgram::~BlockProgram() = default;
void BlockProgram::run(const BlockLaunch& launch) const { impl_->run(launch); }

}  // namespace tenon::runtime::host
