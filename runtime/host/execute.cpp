#include "runtime/host/execute.h"

#include <tbb/blocked_range.h>
#include <tbb/blocked_range2d.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cstring>

#include "ir/error.h"

namespace tenon::runtime::host {

namespace {

inline std::int64_t bytes_of(ir::DType type) { return type == ir::DType::kF32 ? 4 : 2; }

// Part of the iteration space of a chain: [begin, end) of one axis.
struct Range {
  int axis = -1;
  std::int64_t begin = 0, end = 0;
};

void zero(const Bound& slot) {
  std::memset(slot.data, 0, static_cast<std::size_t>(slot.elements) * sizeof(float));
}

// The loops of a chain: extents and, for each view, strides in elements. Axes of extent 1 are
// dropped and neighbours that every view crosses contiguously are merged, which lengthens strips.
class ChainLoops {
 public:
  ChainLoops(const Chain& chain, const Context& context, const Range& range)
      : chain_(chain), context_(context) {
    const std::size_t views = chain.views.size();
    for (std::size_t v = 0; v < views; ++v) address_[v] = slot(v).data;
    for (std::size_t i = 0; i < chain.axes.size(); ++i) {
      std::int64_t extent = context.extents->of(chain.axes[i]);
      if (static_cast<int>(i) == range.axis) {
        for (std::size_t v = 0; v < views; ++v)
          if (address_[v]) address_[v] += range.begin * stride(v, i) * bytes_of(type(v));
        extent = range.end - range.begin;
      }
      push(extent, i);
    }
    if (rank_ == 0) {
      extent_[rank_++] = 1;
      for (std::size_t v = 0; v < views; ++v) strides_[v].by_loop[0] = 0;
    }
  }

  template <class F>
  void each_strip(F&& f) {
    for (int i = 0; i < rank_; ++i)
      if (extent_[i] == 0) return;
    std::int64_t index[kMaxRank + 1] = {};
    const int inner = rank_ - 1;
    for (;;) {
      for (std::int64_t s = 0; s < extent_[inner]; s += kStrip)
        f(s, std::min(kStrip, extent_[inner] - s));
      int i = inner - 1;
      for (; i >= 0; --i) {
        if (++index[i] < extent_[i]) {
          advance(i, 1);
          break;
        }
        advance(i, 1 - extent_[i]);
        index[i] = 0;
      }
      if (i < 0) return;
    }
  }

  // Address of element `s` of the current strip's row, and the distance of neighbours.
  std::byte* at(int view, std::int64_t s) const {
    std::size_t v = static_cast<std::size_t>(view);
    return address_[v] ? address_[v] + s * inner_stride(view) * bytes_of(type(v)) : nullptr;
  }
  std::int64_t inner_stride(int view) const {
    return strides_[static_cast<std::size_t>(view)].by_loop[rank_ - 1];
  }
  ir::DType type(std::size_t v) const {
    return context_.frame->slots[static_cast<std::size_t>(chain_.views[v].slot)].type;
  }

 private:
  struct Strides {
    std::int64_t by_loop[kMaxRank + 1];
  };

  const Bound& slot(std::size_t v) const { return context_.slots[chain_.views[v].slot]; }
  std::int64_t stride(std::size_t v, std::size_t axis) const {
    int own = chain_.views[v].axis[axis];
    return own < 0 ? 0 : slot(v).stride[own];
  }

  void push(std::int64_t extent, std::size_t axis) {
    const std::size_t views = chain_.views.size();
    if (extent == 1) return;
    bool merges = rank_ > 0;
    for (std::size_t v = 0; v < views && merges; ++v)
      merges = strides_[v].by_loop[rank_ - 1] == stride(v, axis) * extent;
    if (merges)
      extent_[rank_ - 1] *= extent;
    else
      extent_[rank_++] = extent;
    for (std::size_t v = 0; v < views; ++v) strides_[v].by_loop[rank_ - 1] = stride(v, axis);
  }

  void advance(int loop, std::int64_t steps) {
    for (std::size_t v = 0; v < chain_.views.size(); ++v)
      if (address_[v]) address_[v] += steps * strides_[v].by_loop[loop] * bytes_of(type(v));
  }

  const Chain& chain_;
  const Context& context_;
  int rank_ = 0;
  std::int64_t extent_[kMaxRank + 1];
  std::byte* address_[kMaxViews];
  Strides strides_[kMaxViews];
};

// What a register holds during one strip.
struct Value {
  const float* data = nullptr;
  bool scalar = false;  // one element that stands for all
};

class ChainRun {
 public:
  ChainRun(const Chain& chain, const Context& context, const Range& range, float* strips)
      : chain_(chain),
        context_(context),
        kernels_(*context.kernels),
        loops_(chain, context, range),
        strips_(strips) {}

  void run() {
    loops_.each_strip([this](std::int64_t s, std::int64_t n) {
      for (const Instruction& in : chain_.instructions) step(in, s, n);
    });
  }

 private:
  Value value(const Operand& operand) const {
    if (operand.kind == Operand::kConstant) return {context_.constants + operand.index, true};
    return registers_[static_cast<std::size_t>(operand.index)];
  }

  void step(const Instruction& in, std::int64_t s, std::int64_t n) {
    float* out = in.strip >= 0 ? strips_ + in.strip * kStrip : nullptr;
    switch (in.kind) {
      case Instruction::kLoad: {
        const std::byte* from = loops_.at(in.view, s);
        const std::int64_t stride = loops_.inner_stride(in.view);
        const ir::DType type = loops_.type(static_cast<std::size_t>(in.view));
        Value& v = registers_[static_cast<std::size_t>(in.to)];
        if (type == ir::DType::kF32 && stride <= 1) {
          v = {reinterpret_cast<const float*>(from), stride == 0};
        } else {
          kernels_.load(out, from, type, stride, stride == 0 ? 1 : n);
          v = {out, stride == 0};
        }
        return;
      }
      case Instruction::kRound: {
        Value a = value(in.a);
        kernels_.round(out, a.data, in.type, a.scalar ? 1 : n);
        registers_[static_cast<std::size_t>(in.to)] = {out, a.scalar};
        return;
      }
      case Instruction::kApply: {
        Value a = value(in.a);
        bool scalar = a.scalar;
        if (in.binary) {
          Value b = value(in.b);
          scalar = a.scalar && b.scalar;
          kernels_.binary(in.op, out, a.data, a.scalar, b.data, b.scalar, scalar ? 1 : n);
        } else {
          kernels_.unary(in.op, out, a.data, scalar ? 1 : n);
        }
        registers_[static_cast<std::size_t>(in.to)] = {out, scalar};
        return;
      }
      case Instruction::kStore: {
        std::byte* to = loops_.at(in.view, s);
        if (to)
          kernels_.store(to, loops_.type(static_cast<std::size_t>(in.view)),
                         loops_.inner_stride(in.view), spread(value(in.a), n), n);
        return;
      }
      case Instruction::kSum: {
        float* to = reinterpret_cast<float*>(loops_.at(in.view, s));
        const float* from = spread(value(in.a), n);
        if (loops_.inner_stride(in.view) == 0)
          *to += kernels_.sum(from, n);
        else
          kernels_.accumulate(to, loops_.inner_stride(in.view), from, n);
        return;
      }
    }
  }

  const float* spread(Value v, std::int64_t n) {
    if (!v.scalar || n == 1) return v.data;
    float* to = strips_ + (chain_.strips - 1) * kStrip;
    std::fill(to, to + n, v.data[0]);
    return to;
  }

  const Chain& chain_;
  const Context& context_;
  const Kernels& kernels_;
  ChainLoops loops_;
  float* strips_;
  Value registers_[kMaxRegisters];
};

std::int64_t extent_at(const Context& context, int slot, int axis) {
  return axis < 0 ? 1
                  : context.extents->of(context.frame->slots[static_cast<std::size_t>(slot)]
                                            .axes[static_cast<std::size_t>(axis)]);
}

std::int64_t stride_at(const Context& context, int slot, int axis) {
  return axis < 0 ? 0 : context.slots[slot].stride[axis];
}

// Rows [m0, m1) and columns [n0, n1) of every matrix of the product.
void run_product(const ProductStep& step, const Context& context, std::int64_t m0, std::int64_t m1,
                 std::int64_t n0, std::int64_t n1, float* scratch) {
  const auto& slots = context.frame->slots;
  Product p;
  p.m = m1 - m0;
  p.n = n1 - n0;
  p.k = extent_at(context, step.a, step.a_k);
  if (p.m <= 0 || p.n <= 0 || p.k <= 0) return;
  p.a_type = slots[static_cast<std::size_t>(step.a)].type;
  p.b_type = slots[static_cast<std::size_t>(step.b)].type;
  p.a_row = stride_at(context, step.a, step.a_m);
  p.a_column = stride_at(context, step.a, step.a_k);
  p.b_row = stride_at(context, step.b, step.b_k);
  p.b_column = step.b_n < 0 ? 1 : stride_at(context, step.b, step.b_n);
  p.c_row = stride_at(context, step.out, step.out_m);
  p.scratch = scratch;
  const std::byte* a = context.slots[step.a].data + m0 * p.a_row * bytes_of(p.a_type);
  const std::byte* b = context.slots[step.b].data + n0 * p.b_column * bytes_of(p.b_type);
  float* c = reinterpret_cast<float*>(context.slots[step.out].data) + m0 * p.c_row + n0;

  std::int64_t index[kMaxRank] = {};
  for (;;) {
    std::int64_t oa = 0, ob = 0, oc = 0;
    for (std::size_t i = 0; i < step.outer.size(); ++i) {
      if (extent_at(context, step.out, step.outer[i].out) == 0) return;
      oa += index[i] * stride_at(context, step.a, step.outer[i].a);
      ob += index[i] * stride_at(context, step.b, step.outer[i].b);
      oc += index[i] * stride_at(context, step.out, step.outer[i].out);
    }
    p.a = a + oa * bytes_of(p.a_type);
    p.b = b + ob * bytes_of(p.b_type);
    p.c = c + oc;
    context.kernels->product(p);
    std::size_t i = step.outer.size();
    for (; i > 0; --i) {
      if (++index[i - 1] < extent_at(context, step.out, step.outer[i - 1].out)) break;
      index[i - 1] = 0;
    }
    if (i == 0) return;
  }
}

void run_product_parallel(const ProductStep& step, const Context& context) {
  constexpr std::int64_t kRows = 96, kColumns = 256;
  std::int64_t m = extent_at(context, step.out, step.out_m);
  std::int64_t n = extent_at(context, step.out, step.out_n);
  tbb::parallel_for(
      tbb::blocked_range2d<std::int64_t>(0, m, kRows, 0, n, kColumns), [&](const auto& r) {
        std::vector<float> scratch(
            static_cast<std::size_t>(product_scratch(r.rows().end() - r.rows().begin())));
        run_product(step, context, r.rows().begin(), r.rows().end(), r.cols().begin(),
                    r.cols().end(), scratch.data());
      });
}

// An axis along which every written slot extends, so that threads never meet: the outermost
// that is long enough to share out, else the longest; -1: none.
int parallel_axis(const Chain& chain, const Context& context) {
  constexpr std::int64_t kLong = 64;
  int best = -1;
  for (std::size_t i = 0; i < chain.axes.size(); ++i) {
    bool safe = std::all_of(chain.views.begin(), chain.views.end(),
                            [&](const ChainView& v) { return !v.written || v.axis[i] >= 0; });
    if (!safe) continue;
    std::int64_t extent = context.extents->of(chain.axes[i]);
    if (extent >= kLong) return static_cast<int>(i);
    if (best < 0 || extent > context.extents->of(chain.axes[static_cast<std::size_t>(best)]))
      best = static_cast<int>(i);
  }
  return best;
}

void run_chain_parallel(const Chain& chain, const Context& context) {
  const std::size_t strips = static_cast<std::size_t>(chain.strips * kStrip);
  int axis = parallel_axis(chain, context);
  if (axis < 0) {
    std::vector<float> scratch(strips);
    ChainRun(chain, context, {}, scratch.data()).run();
    return;
  }
  std::int64_t extent = context.extents->of(chain.axes[static_cast<std::size_t>(axis)]);
  std::int64_t all = 1;
  for (const ir::Axis& a : chain.axes) all *= std::max<std::int64_t>(1, context.extents->of(a));
  // A task of about 32 thousand elements; along the innermost axis at least a few cache lines.
  const bool innermost = axis + 1 == static_cast<int>(chain.axes.size());
  std::int64_t grain = std::max<std::int64_t>(
      innermost ? kStrip : 1,
      32768 / std::max<std::int64_t>(1, all / std::max<std::int64_t>(1, extent)));
  tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, extent, static_cast<std::size_t>(grain)),
                    [&](const auto& r) {
                      std::vector<float> scratch(strips);
                      ChainRun(chain, context, {axis, r.begin(), r.end()}, scratch.data()).run();
                    });
}

}  // namespace

std::int64_t scratch_floats(const Steps& steps, const Frame& frame, const AxisExtents& largest) {
  std::int64_t floats = 0;
  for (const Step& step : steps) {
    if (const Chain* chain = std::get_if<Chain>(&step)) {
      floats = std::max<std::int64_t>(floats, chain->strips * kStrip);
    } else {
      const ProductStep& p = std::get<ProductStep>(step);
      std::int64_t m = p.a_m < 0 ? 1
                                 : largest.of(frame.slots[static_cast<std::size_t>(p.a)]
                                                  .axes[static_cast<std::size_t>(p.a_m)]);
      floats = std::max(floats, product_scratch(m));
    }
  }
  return floats;
}

void run(const Steps& steps, const Context& context) {
  for (const Step& step : steps) {
    if (const Chain* chain = std::get_if<Chain>(&step)) {
      for (int slot : chain->zeroed) zero(context.slots[slot]);
      ChainRun(*chain, context, {}, context.scratch).run();
    } else {
      const ProductStep& p = std::get<ProductStep>(step);
      if (p.zero) zero(context.slots[p.out]);
      run_product(p, context, 0, extent_at(context, p.out, p.out_m), 0,
                  extent_at(context, p.out, p.out_n), context.scratch);
    }
  }
}

void run_parallel(const Steps& steps, const Context& context) {
  for (const Step& step : steps) {
    if (const Chain* chain = std::get_if<Chain>(&step)) {
      for (int slot : chain->zeroed) zero(context.slots[slot]);
      run_chain_parallel(*chain, context);
    } else {
      const ProductStep& p = std::get<ProductStep>(step);
      if (p.zero) zero(context.slots[p.out]);
      run_product_parallel(p, context);
    }
  }
}

}  // namespace tenon::runtime::host
