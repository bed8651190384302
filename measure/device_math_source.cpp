#include "measure/device_math_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "ir/domain.h"

namespace tenon::measure {

namespace {

using ir::Node;
using ir::OpKind;

// Conversions, comparisons: one block a row.
constexpr const char* kFixed = R"cuda(
typedef long long Index;
typedef unsigned short U16;
typedef unsigned int U32;

__device__ __forceinline__ float bits_f32(U32 b) { return __uint_as_float(b); }
__device__ __forceinline__ float load_bf16(U16 b) { return bits_f32((U32)b << 16); }
__device__ __forceinline__ float load_f16(U16 b) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(b)); return f; }
__device__ __forceinline__ float round_bf16(float v) {
  if (v != v) return v;
  U32 b = __float_as_uint(v);
  if ((b & 0x7f800000u) == 0x7f800000u) return v;
  return bits_f32((b + 0x7fffu + ((b >> 16) & 1u)) & 0xffff0000u);
}
__device__ __forceinline__ float round_f16(float v) {
  U16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
  return load_f16(h);
}
// 0 bf16, 1 fp16, 2 fp32
__device__ __forceinline__ float load_any(const void* p, Index i, int type) {
  if (type == 0) return load_bf16(((const U16*)p)[i]);
  if (type == 1) return load_f16(((const U16*)p)[i]);
  return ((const float*)p)[i];
}

extern "C" __global__ void differences(const unsigned char* a, const unsigned char* b, Index bytes, unsigned long long* count) {
  Index step = (Index)gridDim.x * blockDim.x, at = (Index)blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long n = 0;
  const Index words = bytes / 16;
  const uint4 *wa = (const uint4*)a, *wb = (const uint4*)b;
  for (Index i = at; i < words; i += step) {
    uint4 x = wa[i], y = wb[i];
    n += x.x != y.x || x.y != y.y || x.z != y.z || x.w != y.w;
  }
  for (Index i = words * 16 + at; i < bytes; i += step) n += a[i] != b[i];
  if (n) atomicAdd(count, n);
}

struct RowReport {
  double difference2, norm2, worst_element;
  Index column;  // of the first element that is wrong, or -1
  int finite;    // every float64 element of the row is
};

__device__ double block_sum(double v, double* shared) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  double s = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) s += shared[w];
  return s;
}

// A row of y against float64, by the contract: elements, classes, zero rows.
extern "C" __global__ void compare_rows(const void* y, int type, const double* exact, Index columns, double bound, RowReport* out) {
  __shared__ double shared[32];
  __shared__ unsigned long long first;
  __shared__ double worst_shared[32];
  const Index row = blockIdx.x;
  const double* want = exact + row * columns;
  if (threadIdx.x == 0) first = ~0ull;
  double norm2 = 0, bad = 0;
  for (Index j = threadIdx.x; j < columns; j += blockDim.x) {
    const double w = want[j];
    if (isfinite(w)) norm2 += w * w; else bad += 1;
  }
  norm2 = block_sum(norm2, shared);
  const bool finite = block_sum(bad, shared) == 0;
  const double typical = sqrt(norm2 / (double)columns);
  double difference2 = 0, worst = 0;
  for (Index j = threadIdx.x; j < columns; j += blockDim.x) {
    const double w = want[j];
    const double got = load_any(y, row * columns + j, type);
    bool good;
    if (!isfinite(w)) {
      good = isnan(w) ? isnan(got) : got == w;
    } else if (finite && norm2 == 0) {
      good = got == 0;
    } else {
      const double d = fabs(got - w), reference = fmax(fabs(w), typical);
      double error = d == 0 ? 0 : d / reference;
      if (!isfinite(error)) error = __longlong_as_double(0x7ff0000000000000ll);
      difference2 += d * d;
      if (finite) worst = fmax(worst, error);
      good = error <= 8 * bound;
    }
    if (!good) atomicMin(&first, (unsigned long long)j);
  }
  difference2 = block_sum(difference2, shared);
  for (int d = 16; d > 0; d /= 2) worst = fmax(worst, __shfl_xor_sync(~0u, worst, d));
  if (threadIdx.x % 32 == 0) worst_shared[threadIdx.x / 32] = worst;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < blockDim.x / 32; ++w) worst = fmax(worst, worst_shared[w]);
  out[row] = {difference2, norm2, worst, first == ~0ull ? -1 : (Index)first, finite ? 1 : 0};
}
)cuda";

// A tiled product for [m, k] × [k, n] with any strides; S and the name are put in.
constexpr const char* kTiled = R"cuda(
extern "C" __global__ void __launch_bounds__(256) {entry}({S}* out, const {S}* a, const {S}* b) {{
  const Index M = {m}, N = {n}, K = {k};
  __shared__ {S} ta[16][65], tb[16][65];
  const int t = threadIdx.x, tx = t % 16, ty = t / 16;
  const Index row0 = (Index)(blockIdx.x / {column_blocks}) * 64, col0 = (Index)(blockIdx.x % {column_blocks}) * 64;
  {S} acc[4][4] = {{}};
  for (Index k0 = 0; k0 < K; k0 += 16) {{
    for (int e = t; e < 1024; e += 256) {{
      const int r = e / 16, p = e % 16;
      ta[p][r] = row0 + r < M && k0 + p < K ? a[(row0 + r) * {a_row} + (k0 + p) * {a_step}] : ({S})0;
      const int c = e % 64, q = e / 64;
      tb[q][c] = col0 + c < N && k0 + q < K ? b[(col0 + c) * {b_column} + (k0 + q) * {b_step}] : ({S})0;
    }}
    __syncthreads();
    for (int p = 0; p < 16; ++p) {{
      {S} x[4], w[4];
      for (int i = 0; i < 4; ++i) x[i] = ta[p][ty + 16 * i];
      for (int j = 0; j < 4; ++j) w[j] = tb[p][tx + 16 * j];
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) acc[i][j] += x[i] * w[j];
    }}
    __syncthreads();
  }}
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      if (row0 + ty + 16 * i < M && col0 + tx + 16 * j < N) out[(row0 + ty + 16 * i) * N + col0 + tx + 16 * j] = acc[i][j];
}}
)cuda";

// Expressions of a pointwise operator over `S` values x and y.
std::optional<std::string> expression(OpKind op) {
  static const std::map<std::string_view, std::string> all = {
      {"add", "x + y"},
      {"sub", "x - y"},
      {"mul", "x * y"},
      {"div", "x / y"},
      {"square", "x * x"},
      {"sqrt", "sqrt(x)"},
      {"rsqrt", "(S)1 / sqrt(x)"},
      {"exp", "exp(x)"},
      {"tanh", "tanh(x)"},
      {"erf", "erf(x)"},
      {"sigmoid", "(S)1 / ((S)1 + exp(-x))"},
      {"silu", "x / ((S)1 + exp(-x))"},
      {"gelu", "x * (S)0.5 * erfc(-x * (S)0.70710678118654752440)"},
      {"gelu_tanh", "x / ((S)1 + exp((S)-1.5957691216057307118 * (x + (S)0.044715 * x * x * x)))"}};
  auto it = all.find(ir::info(op).name);
  if (it == all.end()) return std::nullopt;
  return it->second;
}

std::int64_t count_of(const ir::Axes& axes, const ir::Extents& extents) {
  std::int64_t n = 1;
  for (const ir::Axis& axis : axes) n *= extents[axis.dim];
  return n;
}

class Writer {
 public:
  explicit Writer(const ir::Workload& workload)
      : workload_(workload), graph_(workload.program.graph), extents_(workload.extents) {}

  std::optional<MathSource> write(std::string* why) {
    out_.text = "// Reference and comparison kernels of " + ir::print(workload_) + "\n";
    out_.text += kFixed;
    const int inputs = static_cast<int>(graph_.inputs().size());
    for (int v = 0; v < graph_.value_count(); ++v) {
      out_.counts.push_back(count_of(graph_.axes(v), extents_));
      for (bool exact : {true, false}) {
        MathKernel kernel;
        kernel.entry = fmt::format("{}_v{}", exact ? "f64" : "f32", v);
        kernel.count = out_.counts.back();
        kernel.blocks = std::max<std::int64_t>(1, (kernel.count + 255) / 256);
        if (v < inputs) {
          input(kernel, v, exact);
        } else if (auto problem = node(kernel, v, exact)) {
          if (why) *why = *problem;
          return std::nullopt;
        }
        (exact ? out_.exact : out_.rounded).push_back(std::move(kernel));
      }
    }
    return std::move(out_);
  }

 private:
  static const char* scalar(bool exact) { return exact ? "double" : "float"; }
  std::int64_t stride(const ir::Axes& axes, ir::DimId dim) const {
    std::int64_t s = 1;
    for (std::size_t a = axes.size(); a-- > 0;) {
      if (axes[a].dim == dim) return s;
      s *= extents_[axes[a].dim];
    }
    return 0;
  }
  // Offset in a value with `of` axes, of the element of `axes` whose index is `i`.
  std::string offset(const ir::Axes& of, const ir::Axes& axes) const {
    std::string text = "(Index)0";
    std::int64_t below = 1;
    for (std::size_t a = axes.size(); a-- > 0;) {
      const std::int64_t s = stride(of, axes[a].dim), extent = extents_[axes[a].dim];
      if (s != 0) text += fmt::format(" + i / {} % {} * {}", below, extent, s);
      below *= extent;
    }
    return text;
  }
  int type_of(ir::DType dtype) const {
    switch (ir::bind(dtype, workload_.dtype)) {
      case ir::DType::kBF16:
        return 0;
      case ir::DType::kF16:
        return 1;
      default:
        return 2;
    }
  }

  void input(MathKernel& kernel, int v, bool exact) {
    out_.text += fmt::format(
        "extern \"C\" __global__ void {}({}* out, const void* a) {{\n"
        "  const Index i = (Index)blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i < {}) out[i] = load_any(a, i, {});\n}}\n",
        kernel.entry, scalar(exact), kernel.count,
        type_of(workload_.program.signature.inputs[static_cast<std::size_t>(v)].dtype));
  }

  // The head of a kernel with one thread an element, up to where it computes.
  std::string head(const MathKernel& kernel, bool exact) const {
    std::string text =
        fmt::format("extern \"C\" __global__ void {}({}* out", kernel.entry, scalar(exact));
    for (std::size_t p = 0; p < kernel.operands.size(); ++p)
      text += fmt::format(", const {}* {}", scalar(exact), p == 0 ? "a" : "b");
    return text + fmt::format(
                      ") {{\n  typedef {} S;\n"
                      "  const Index i = (Index)blockIdx.x * blockDim.x + threadIdx.x;\n"
                      "  if (i >= {}) return;\n",
                      scalar(exact), kernel.count);
  }

  std::optional<std::string> node(MathKernel& kernel, int v, bool exact) {
    const Node& n = graph_.node(v);
    if (n.a != ir::kNoValue) kernel.operands.push_back(n.a);
    if (n.b != ir::kNoValue) kernel.operands.push_back(n.b);
    const ir::Axes none;
    const ir::Axes& a = n.a == ir::kNoValue ? none : graph_.axes(n.a);
    const ir::Axes& b = n.b == ir::kNoValue ? none : graph_.axes(n.b);
    switch (n.op) {
      case OpKind::kConst: {
        const double value = ir::DoubleDomain(workload_.attributes).constant(n.constant, extents_);
        out_.text += head(kernel, exact) + fmt::format("  out[i] = (S){:.17g};\n}}\n", value);
        return std::nullopt;
      }
      case OpKind::kSum:
        sum(kernel, n, a, exact);
        return std::nullopt;
      case OpKind::kMatmul:
        product(kernel, n, a, b, exact);
        return std::nullopt;
      case OpKind::kBroadcast:
        out_.text +=
            head(kernel, exact) + fmt::format("  out[i] = a[{}];\n}}\n", offset(a, n.axes));
        return std::nullopt;
      case OpKind::kCast: {
        const int type = type_of(n.dtype);
        const char* how = exact || type == 2 ? "" : type == 0 ? "round_bf16" : "round_f16";
        out_.text += head(kernel, exact) +
                     fmt::format("  out[i] = {}(a[{}]);\n}}\n", how, offset(a, n.axes));
        return std::nullopt;
      }
      default:
        break;
    }
    auto text = expression(n.op);
    if (!text) return fmt::format("operator {}", ir::info(n.op).name);
    out_.text += head(kernel, exact) + fmt::format("  const S x = a[{}];\n", offset(a, n.axes));
    if (n.b != ir::kNoValue) out_.text += fmt::format("  const S y = b[{}];\n", offset(b, n.axes));
    out_.text += fmt::format("  out[i] = {};\n}}\n", *text);
    return std::nullopt;
  }

  // One block an element; partial sums of 256 threads, then a tree.
  void sum(MathKernel& kernel, const Node& n, const ir::Axes& a, bool exact) {
    kernel.blocks = std::max<std::int64_t>(1, kernel.count);
    out_.text += fmt::format(
        "extern \"C\" __global__ void {0}({1}* out, const {1}* a) {{\n  typedef {1} S;\n"
        "  __shared__ S part[256];\n  const Index i = blockIdx.x;\n"
        "  const S* from = a + ({2});\n  S s = 0;\n"
        "  for (Index p = threadIdx.x; p < {3}; p += 256) s += from[p * {4}];\n"
        "  part[threadIdx.x] = s;\n  __syncthreads();\n"
        "  for (int d = 128; d > 0; d /= 2) {{\n"
        "    if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];\n"
        "    __syncthreads();\n  }}\n  if (threadIdx.x == 0) out[i] = part[0];\n}}\n",
        kernel.entry, scalar(exact), offset(a, n.axes), extents_[n.dim], stride(a, n.dim));
  }

  void product(MathKernel& kernel, const Node& n, const ir::Axes& a, const ir::Axes& b,
               bool exact) {
    const bool matrix = n.axes.size() == 2 && stride(a, n.axes[0].dim) != 0 &&
                        stride(a, n.axes[1].dim) == 0 && stride(b, n.axes[0].dim) == 0 &&
                        stride(b, n.axes[1].dim) != 0;
    const std::int64_t k = extents_[n.dim];
    if (!matrix) {
      out_.text += head(kernel, exact) +
                   fmt::format(
                       "  const S *x = a + ({}), *w = b + ({});\n  S s = 0;\n"
                       "  for (Index p = 0; p < {}; ++p) s += x[p * {}] * w[p * {}];\n"
                       "  out[i] = s;\n}}\n",
                       offset(a, n.axes), offset(b, n.axes), k, stride(a, n.dim), stride(b, n.dim));
      return;
    }
    const std::int64_t rows = extents_[n.axes[0].dim], columns = extents_[n.axes[1].dim];
    const std::int64_t column_blocks = (columns + 63) / 64;
    kernel.blocks = (rows + 63) / 64 * column_blocks;
    out_.text += fmt::format(
        kTiled, fmt::arg("entry", kernel.entry), fmt::arg("S", scalar(exact)), fmt::arg("m", rows),
        fmt::arg("n", columns), fmt::arg("k", k), fmt::arg("column_blocks", column_blocks),
        fmt::arg("a_row", stride(a, n.axes[0].dim)), fmt::arg("a_step", stride(a, n.dim)),
        fmt::arg("b_column", stride(b, n.axes[1].dim)), fmt::arg("b_step", stride(b, n.dim)));
  }

  const ir::Workload& workload_;
  const ir::Graph& graph_;
  const ir::Extents& extents_;
  MathSource out_;
};

}  // namespace

std::optional<MathSource> write_math(const ir::Workload& workload, std::string* why) {
  return Writer(workload).write(why);
}

}  // namespace tenon::measure
