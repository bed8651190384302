// The small-M kernels on one GPU: correctness against float64, then times of many schedules
// beside cuBLASLt's bare product and the cold read of the same bytes, in the same run.
//
// build: nvcc -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a -Icodegen
//        bench/device/small_m_bench.cu -lcublasLt -o small_m_bench
//        (-DTENON_BENCH_PARTS=<bit mask> builds some of the shape classes only)
// run:   small_m_bench [results file]
//
// Settings: "plain", calls one after another in a graph; "chain", each call a dependent
// launch after the previous one, whose output it reads as its X where K <= N. Weights (and X
// in the plain setting) rotate over more than four times the L2. Contenders interleave,
// A B C A B C …; times are medians over 21 replays with the 10th and 90th percentiles.
#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "small_m_configs.cuh"

std::string last_schedule;  // named when a call fails

#define CHECK(call)                                                                       \
  do {                                                                                    \
    auto status = (call);                                                                 \
    if (status != 0) {                                                                    \
      printf("%s:%d: %s failed with %d (last schedule: %s)\n", __FILE__, __LINE__, #call, \
             (int)status, last_schedule.c_str());                                         \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)

namespace {

cudaStream_t stream;

// ---- data -------------------------------------------------------------------------------

__device__ uint32_t hash(uint64_t i, uint32_t seed) {
  uint32_t h = (uint32_t)(i * 2654435761u) ^ (uint32_t)(i >> 32) * 40503u ^ seed;
  h ^= h >> 16, h *= 0x7feb352du, h ^= h >> 15, h *= 0x846ca68bu, h ^= h >> 16;
  return h;
}
template <class T>
__device__ uint16_t to_bits(float v) {
  return (uint16_t)Element<T>::pack(v, 0.f);
}
template <class T>
__device__ double from_bits(uint16_t bits) {
  return (double)Element<T>::low(bits);
}
// Roughly normal, unit variance, times scale.
__device__ float noise(uint64_t i, uint32_t seed) {
  const uint32_t h = hash(i, seed);
  return ((h & 255) + (h >> 8 & 255) + (h >> 16 & 255) + (h >> 24) - 510.f) * (1.f / 147.8f);
}
// pitch >= columns; the padding gets `padding` bits.
template <class T>
__global__ void fill(uint16_t* p, long long rows, int columns, long long pitch, uint32_t seed,
                     float scale, uint16_t padding) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < rows * pitch;
       i += (long long)gridDim.x * blockDim.x) {
    p[i] = i % pitch < columns ? to_bits<T>(noise(i, seed) * scale) : padding;
  }
}
// Row m of X is zero but for one element, at the m-th of the columns where a schedule may have a
// boundary.
template <class T>
__global__ void fill_one_hot(uint16_t* x, int m, int k, long long pitch) {
  const int at[] = {0, 1, 31, 32, 63, 64, 127, 128, 255, 256, 511, 512, 1023, 1024, k - 2, k - 1};
  for (int i = threadIdx.x; i < k; i += blockDim.x) {
    x[blockIdx.x * pitch + i] =
        i == min(at[blockIdx.x % 16] + (int)blockIdx.x / 16 * 7, k - 1) ? to_bits<T>(1.5f) : 0;
  }
}
__global__ void pack(uint16_t* to, const uint16_t* from, int n, int k, long long pitch) {
  const int kp = padded_columns(k);
  const long long total = (long long)padded_rows(n) * kp;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < total;
       i += (long long)gridDim.x * blockDim.x) {
    const int row = (int)(i / kp), column = (int)(i % kp);
    to[packed_index(row, column, kp)] = row < n && column < k ? from[row * pitch + column] : 0;
  }
}
// Y in float64, without normalization if !scaled.
template <class T>
__global__ void reference(double* y, const uint16_t* x, long long x_pitch, const uint16_t* w,
                          long long w_pitch, int n, int k, float eps, bool scaled) {
  __shared__ double sums[2][4];
  const int row = blockIdx.y, column = blockIdx.x;
  double dot = 0, squares = 0;
  for (int i = threadIdx.x; i < k; i += 128) {
    const double a = from_bits<T>(x[row * x_pitch + i]);
    dot += a * from_bits<T>(w[column * w_pitch + i]), squares += a * a;
  }
  for (int d = 16; d; d /= 2)
    dot += __shfl_xor_sync(~0u, dot, d), squares += __shfl_xor_sync(~0u, squares, d);
  if (threadIdx.x % 32 == 0) sums[0][threadIdx.x / 32] = dot, sums[1][threadIdx.x / 32] = squares;
  __syncthreads();
  if (threadIdx.x == 0) {
    dot = squares = 0;
    for (int i = 0; i < 4; ++i) dot += sums[0][i], squares += sums[1][i];
    y[(long long)row * n + column] = scaled ? dot / sqrt(squares / k + eps) : dot;
  }
}

// ---- the cold-read floor ------------------------------------------------------------------

template <int kUnroll>
__global__ void __launch_bounds__(512) read_all(const uint4* p, size_t n, uint32_t* out) {
  uint32_t s = 0;
  const size_t step = (size_t)gridDim.x * blockDim.x * kUnroll;
  for (size_t i = blockIdx.x * (size_t)blockDim.x * kUnroll + threadIdx.x; i < n; i += step) {
    uint4 v[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      v[u] = i + u * blockDim.x < n ? __ldcs(p + i + u * blockDim.x) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) s ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
  }
  if (s == 0x12345) *out = s;
}

// ---- launching ----------------------------------------------------------------------------

// A map over a row-major matrix of 16-bit elements, boxes of 64 columns × `box_rows`.
tenon::device::TensorMap encode(const void* base, int rows, int columns, long long stride,
                                int box_rows, bool fp16) {
  static decltype(&cuTensorMapEncodeTiled) encode_tiled = [] {
    void* f = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault,
                                           &found));
    return (decltype(&cuTensorMapEncodeTiled))f;
  }();
  CUtensorMap map;
  const cuuint64_t extents[] = {(cuuint64_t)columns, (cuuint64_t)rows},
                   strides[] = {(cuuint64_t)stride * 2};
  const cuuint32_t box[] = {64, (cuuint32_t)box_rows}, steps[] = {1, 1};
  CHECK(encode_tiled(&map,
                     fp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                     (void*)base, extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                     CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  tenon::device::TensorMap result;
  memcpy(&result, &map, sizeof result);
  return result;
}

void launch(const Variant& v, Params p, int groups, bool dependent) {
  last_schedule = v.name;
  RmsNorm::Args args{1e-6f, 1.f / p.k};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(groups * v.cluster);
  config.blockDim = dim3(v.threads);
  config.dynamicSmemBytes = v.shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attributes[2];
  if (v.cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs].val.clusterDim.x = v.cluster;
    attributes[config.numAttrs].val.clusterDim.y = attributes[config.numAttrs].val.clusterDim.z = 1;
    ++config.numAttrs;
  }
  if (dependent) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs].val.programmaticStreamSerializationAllowed = 1;
    ++config.numAttrs;
  }
  config.attrs = attributes;
  if (v.tile_n != 0) {
    config.gridDim = dim3(((p.n + v.tile_n - 1) / v.tile_n + v.share - 1) / v.share * v.share);
    auto x = encode(p.x, p.m, p.k, p.x_stride, v.mc_rows / v.share, v.fp16);
    auto w = encode(p.w, p.n, padded_columns(p.k), p.w_stride, v.tile_n, v.fp16);
    void* parameters[] = {&x, &w, &p, &args};
    CHECK(cudaLaunchKernelExC(&config, v.kernel, parameters));
    return;
  }
  void* parameters[] = {&p, &args};
  CHECK(cudaLaunchKernelExC(&config, v.kernel, parameters));
}

// Clusters that can be resident at once.
int resident_clusters(const Variant& v) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(v.cluster * 512);
  config.blockDim = dim3(v.threads);
  config.dynamicSmemBytes = v.shared_bytes;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = v.cluster,
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.attrs = &attribute, config.numAttrs = 1;
  int clusters = 0;
  CHECK(cudaOccupancyMaxActiveClusters(&clusters, v.kernel, &config));
  return clusters;
}

// As many clusters as can be resident, then as few as keep the longest share as short.
int balanced_groups(const Variant& v, int n) {
  const int most = resident_clusters(v), tiles = (n + 15) / 16;
  const int share = (tiles + most - 1) / most;
  return (tiles + share - 1) / share;
}

// ---- timing -------------------------------------------------------------------------------

struct Contender {
  std::string name;
  std::function<void(int)> call;  // enqueues call i
  cudaGraphExec_t graph = nullptr;
  std::vector<float> us;
};

void capture(Contender& c, int calls) {
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < calls; ++i) c.call(i);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&c.graph, graph, 0));
  CHECK(cudaGraphDestroy(graph));
}

void time_interleaved(std::vector<Contender>& all, int calls, int rounds) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (auto& c : all) capture(c, calls);
  for (int r = -2; r < rounds; ++r) {
    for (auto& c : all) {
      CHECK(cudaEventRecord(begin, stream));
      CHECK(cudaGraphLaunch(c.graph, stream));
      CHECK(cudaEventRecord(end, stream));
      CHECK(cudaStreamSynchronize(stream));
      float ms;
      CHECK(cudaEventElapsedTime(&ms, begin, end));
      if (r >= 0) c.us.push_back(ms * 1e3f / calls);
    }
  }
  for (auto& c : all) {
    std::sort(c.us.begin(), c.us.end());
    CHECK(cudaGraphExecDestroy(c.graph));
  }
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
}

// ---- cuBLASLt -----------------------------------------------------------------------------

struct Library {
  cublasLtHandle_t handle;
  void* workspace;
  size_t workspace_bytes = 64 << 20;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, c;
  std::vector<cublasLtMatmulHeuristicResult_t> results;

  Library(int m, int n, int k, long long x_pitch, long long w_pitch) {
    CHECK(cublasLtCreate(&handle));
    CHECK(cudaMalloc(&workspace, workspace_bytes));
    CHECK(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t transpose = CUBLAS_OP_T;
    CHECK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                         sizeof transpose));
    CHECK(cublasLtMatrixLayoutCreate(&a, CUDA_R_16BF, k, n, w_pitch));
    CHECK(cublasLtMatrixLayoutCreate(&b, CUDA_R_16BF, k, m, x_pitch));
    CHECK(cublasLtMatrixLayoutCreate(&c, CUDA_R_16BF, n, m, n));
    cublasLtMatmulPreference_t preference;
    CHECK(cublasLtMatmulPreferenceCreate(&preference));
    CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &workspace_bytes, sizeof workspace_bytes));
    results.resize(32);
    int found = 0;
    CHECK(cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, c, c, preference, 32, results.data(),
                                         &found));
    results.resize(found);
    cublasLtMatmulPreferenceDestroy(preference);
  }
  ~Library() {
    cublasLtMatrixLayoutDestroy(a), cublasLtMatrixLayoutDestroy(b), cublasLtMatrixLayoutDestroy(c);
    cublasLtMatmulDescDestroy(desc), cublasLtDestroy(handle), cudaFree(workspace);
  }
  bool call(int i, const void* x, const void* w, void* y) {
    const float one = 1, zero = 0;
    return cublasLtMatmul(handle, desc, &one, w, a, x, b, &zero, y, c, y, c, &results[i].algo,
                          workspace, workspace_bytes, stream) == CUBLAS_STATUS_SUCCESS;
  }
};

// ---- correctness --------------------------------------------------------------------------

double to_double(uint16_t bits, bool fp16) {
  if (!fp16) {
    const uint32_t u = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
  }
  const int e = bits >> 10 & 31, f = bits & 1023, s = bits >> 15;
  const double v = e == 31 ? (f ? NAN : INFINITY)
                   : e     ? std::ldexp(1024 + f, e - 25)
                           : std::ldexp(f, -24);
  return s ? -v : v;
}

// Largest relative row error; NaN where an element lies outside the bounds, a zero row is not
// zero, or a finite row holds a NaN. Rows whose reference is NaN must be NaN.
double compare(const std::vector<uint16_t>& y, long long pitch, const std::vector<double>& ref,
               int m, int n, bool fp16) {
  const double bound = fp16 ? 6e-4 : 4.5e-3;
  double worst = 0;
  for (int i = 0; i < m; ++i) {
    double error = 0, norm = 0;
    bool nan_row = false;
    for (int j = 0; j < n; ++j) nan_row |= std::isnan(ref[(size_t)i * n + j]);
    for (int j = 0; j < n; ++j) {
      const double v = to_double(y[i * pitch + j], fp16), r = ref[(size_t)i * n + j];
      if (nan_row) {
        if (!std::isnan(v)) return NAN;
        continue;
      }
      error += (v - r) * (v - r), norm += r * r;
    }
    if (nan_row) continue;
    const double rms = std::sqrt(norm / n);
    for (int j = 0; j < n; ++j) {
      const double v = to_double(y[i * pitch + j], fp16), r = ref[(size_t)i * n + j];
      if (!(std::fabs(v - r) <= 8 * bound * std::max(std::fabs(r), rms))) return NAN;
    }
    const double relative = norm > 0 ? std::sqrt(error / norm) : (error == 0 ? 0 : NAN);
    if (!(relative <= bound)) return NAN;
    worst = std::max(worst, relative);
  }
  return worst;
}

int failures = 0;

template <class T>
void test(const Variant& v, int m, int n, int k, int x_offset, long long x_pitch, int groups) {
  const bool fp16 = std::is_same<T, Fp16>::value;
  const int kp = padded_columns(k);
  const long long y_pitch = n + (n % 2 ? 2 : 3);  // odd pitches too
  uint16_t *x, *w, *packed, *y;
  double* ref;
  CHECK(cudaMalloc(&x, (m * x_pitch + x_offset + 64) * 2));
  CHECK(cudaMalloc(&w, (size_t)n * kp * 2));
  CHECK(cudaMalloc(&packed, (size_t)padded_rows(n) * kp * 2));
  CHECK(cudaMalloc(&y, m * y_pitch * 2));
  CHECK(cudaMalloc(&ref, (size_t)m * n * 8));
  fill<T><<<512, 256, 0, stream>>>(w, n, k, kp, 11, 0.02f, 0);
  pack<<<512, 256, 0, stream>>>(packed, w, n, k, kp);
  double worst = 0;
  for (int pattern = 0; pattern < 3; ++pattern) {
    uint16_t* xs = x + x_offset;
    CHECK(
        cudaMemsetAsync(x, 0xff, (m * x_pitch + x_offset + 64) * 2, stream));  // NaN where X is not
    if (pattern == 1) {
      fill_one_hot<T><<<m, 256, 0, stream>>>(xs, m, k, x_pitch);
    } else {
      fill<T><<<512, 256, 0, stream>>>(xs, m, k, x_pitch, 5, 1.f, 0xffff);
    }
    if (pattern == 2) {  // a zero row, a row with one NaN
      CHECK(cudaMemsetAsync(xs, 0, k * 2, stream));
      if (m > 1) CHECK(cudaMemsetAsync(xs + x_pitch + k / 2, 0xff, 2, stream));
    }
    reference<T><<<dim3(n, m), 128, 0, stream>>>(ref, xs, x_pitch, w, kp, n, k, 1e-6f, true);
    std::vector<uint16_t> first, second(m * y_pitch);
    for (int pass = 0; pass < 2; ++pass) {
      CHECK(cudaMemsetAsync(y, 0xff, m * y_pitch * 2, stream));
      launch(v, {xs, v.packed ? packed : w, y, x_pitch, kp, y_pitch, m, n, k}, groups, false);
      CHECK(cudaMemcpyAsync(second.data(), y, m * y_pitch * 2, cudaMemcpyDeviceToHost, stream));
      CHECK(cudaStreamSynchronize(stream));
      if (pass == 0) first = second;
    }
    std::vector<double> expected((size_t)m * n);
    CHECK(cudaMemcpy(expected.data(), ref, expected.size() * 8, cudaMemcpyDeviceToHost));
    double error = compare(second, y_pitch, expected, m, n, fp16);
    if (first != second) error = NAN;
    for (int i = 0; i < m; ++i) {  // nothing written past N
      for (long long j = n; j < y_pitch; ++j)
        if (second[i * y_pitch + j] != 0xffff) error = NAN;
    }
    worst = std::isnan(error) ? error : std::max(worst, error);
    if (std::isnan(error)) {
      ++failures;
      printf("FAIL %s m=%d n=%d k=%d groups=%d pattern=%d\n", v.name.c_str(), m, n, k, groups,
             pattern);
      break;
    }
  }
  printf("test %-44s %s %2d x %5d x %5d  groups %3d  x+%d/%lld  worst row error %.2e\n",
         v.name.c_str(), fp16 ? "fp16" : "bf16", m, k, n, groups, x_offset, x_pitch, worst);
  cudaFree(x), cudaFree(w), cudaFree(packed), cudaFree(y), cudaFree(ref);
}

// ---- one shape ----------------------------------------------------------------------------

void bench(const Shape& s, FILE* out, const char* device) {
  const int m = s.m, n = s.n, k = s.k, kp = padded_columns(k);
  const bool reads_previous = k <= n;
  const size_t w_elements = (size_t)padded_rows(n) * kp, w_bytes = w_elements * 2;
  const int copies = std::max<int>(2, (int)(300e6 / w_bytes) + 1);
  const int plain_calls = std::min(300, std::max<int>(2, (int)(400e6 / w_bytes) + 1));
  const int chain_calls = std::max(16, plain_calls);
  uint16_t *w, *packed, *x, *y;
  double* ref;
  uint32_t* sink;
  const size_t x_elements = ((size_t)m * k + 127) / 128 * 128,
               y_elements = ((size_t)m * n + 127) / 128 * 128;
  CHECK(cudaMalloc(&w, copies * w_bytes));
  CHECK(cudaMalloc(&packed, copies * w_bytes));
  CHECK(cudaMalloc(&x, copies * x_elements * 2));
  CHECK(cudaMalloc(&y, copies * y_elements * 2));
  CHECK(cudaMalloc(&ref, (size_t)m * n * 8));
  CHECK(cudaMalloc(&sink, 4));
  for (int i = 0; i < copies; ++i) {
    fill<Bf16><<<1024, 256, 0, stream>>>(w + i * w_elements, n, k, kp, 100 + i, 0.02f, 0);
    pack<<<1024, 256, 0, stream>>>(packed + i * w_elements, w + i * w_elements, n, k, kp);
    fill<Bf16><<<256, 256, 0, stream>>>(x + i * x_elements, m, k, k, 900 + i, 1.f, 0);
  }
  auto ours = [&](const Entry& e, int i, bool chained, bool dependent) {
    const int c = i % copies, previous = (i + copies - 1) % copies;
    const bool linked = chained && reads_previous && i > 0;
    launch(*e.variant,
           {linked ? y + previous * y_elements : x + c * x_elements,
            (e.variant->packed ? packed : w) + c * w_elements, y + c * y_elements, linked ? n : k,
            kp, n, m, n, k},
           e.groups, dependent && e.variant->dependent && i > 0);
  };

  // Correctness, on two copies; and a dependent chain must give the bits of a plain one.
  std::vector<Entry> entries;
  std::vector<uint16_t> got((size_t)m * n), chain_plain((size_t)m * n);
  std::vector<double> expected((size_t)m * n);
  const char* only = getenv("TENON_BENCH_ONLY");
  for (Entry e : s.entries) {
    if (only && e.variant->name.find(only) == std::string::npos) continue;
    if (e.groups == 0) e.groups = balanced_groups(*e.variant, n);
    if ((n + 15) / 16 > e.groups * e.variant->most_tiles) {
      printf("skip %s: more than %d tiles a cluster\n", e.variant->name.c_str(),
             e.variant->most_tiles);
      continue;
    }
    int resident = 0;
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, e.variant->kernel));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &resident, e.variant->kernel, e.variant->threads, e.variant->shared_bytes));
    double worst = 0;
    for (int c = 0; c < 2; ++c) {
      CHECK(cudaMemsetAsync(y, 0xff, copies * y_elements * 2, stream));
      ours(e, c, false, false);
      reference<Bf16><<<dim3(n, m), 128, 0, stream>>>(ref, x + c * x_elements, k,
                                                      w + c * w_elements, kp, n, k, 1e-6f, true);
      CHECK(cudaMemcpyAsync(got.data(), y + c * y_elements, got.size() * 2, cudaMemcpyDeviceToHost,
                            stream));
      CHECK(cudaMemcpyAsync(expected.data(), ref, expected.size() * 8, cudaMemcpyDeviceToHost,
                            stream));
      CHECK(cudaStreamSynchronize(stream));
      const double error = compare(got, n, expected, m, n, false);
      worst = std::isnan(error) || std::isnan(worst) ? NAN : std::max(worst, error);
    }
    for (int dependent = 0; dependent < 2; ++dependent) {
      CHECK(cudaMemsetAsync(y, 0xff, copies * y_elements * 2, stream));
      for (int i = 0; i < chain_calls; ++i) ours(e, i, true, dependent);
      CHECK(cudaMemcpyAsync((dependent ? got : chain_plain).data(),
                            y + (chain_calls - 1) % copies * y_elements, got.size() * 2,
                            cudaMemcpyDeviceToHost, stream));
      CHECK(cudaStreamSynchronize(stream));
    }
    if (got != chain_plain) worst = NAN;
    e.error = worst;
    if (std::isnan(worst)) {
      ++failures;
      printf("FAIL %s groups=%d at %dx%dx%d%s\n", e.variant->name.c_str(), e.groups, m, k, n,
             got != chain_plain ? " (chain differs)" : "");
      continue;
    }
    if (attributes.localSizeBytes != 0)
      printf("note %s uses %zu bytes of local memory\n", e.variant->name.c_str(),
             attributes.localSizeBytes);
    const int clusters = resident_clusters(*e.variant);
    const int wanted = e.variant->tile_n != 0 ? (n + e.variant->tile_n * e.variant->share - 1) /
                                                    (e.variant->tile_n * e.variant->share)
                                              : e.groups;
    if (clusters < wanted)
      printf("note %s: %d clusters, but %d fit\n", e.variant->name.c_str(), wanted, clusters);
    if (resident < e.variant->blocks_per_sm)
      printf("note %s: %d blocks an SM, not %d\n", e.variant->name.c_str(), resident,
             e.variant->blocks_per_sm);
    entries.push_back(e);
  }

  if (only) return;  // correctness alone, for a look at one schedule under a checker
  Library library(m, n, k, k, kp), chained_library(m, n, k, reads_previous ? n : k, kp);
  for (const bool chained : {false, true}) {
    const int calls = chained ? chain_calls : plain_calls;
    Library& lt = chained ? chained_library : library;
    auto product = [&](int algorithm, int i) {
      const int c = i % copies, previous = (i + copies - 1) % copies;
      return lt.call(
          algorithm,
          chained && reads_previous && i > 0 ? y + previous * y_elements : x + c * x_elements,
          w + c * w_elements, y + c * y_elements);
    };
    std::vector<Contender> all;
    for (int i = 0; i < (int)lt.results.size(); ++i) {
      if (product(i, 0))
        all.push_back({"cublasLt#" + std::to_string(i), [=](int c) { product(i, c); }});
    }
    CHECK(cudaStreamSynchronize(stream));
    const uint4* bytes = (const uint4*)packed;
    const size_t size = w_bytes / 16;
    auto read = [&](const char* name, auto kernel, int blocks) {
      all.push_back({name, [=](int i) {
                       kernel<<<blocks, 512, 0, stream>>>(bytes + i % copies * size, size, sink);
                     }});
    };
    read("read 4x2", read_all<4>, 264), read("read 8x2", read_all<8>, 264),
        read("read 8x4", read_all<8>, 528), read("read 4x4", read_all<4>, 528);
    for (const Entry& e : entries) {
      all.push_back(
          {e.variant->name + (e.variant->tile_n != 0 ? "" : " g" + std::to_string(e.groups)),
           [&, chained](int i) { ours(e, i, chained, chained); }});
    }
    time_interleaved(all, calls, 21);
    std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.us[10] < b.us[10]; });
    printf("== %d x %d x %d  %s, %d calls, %d copies of %.1f MB  (goal %.1f)\n", m, k, n,
           chained ? "chain" : "plain", calls, copies, w_bytes / 1e6,
           chained ? s.goal_chain : s.goal_plain);
    int shown = 0, library_shown = 0, floor_shown = 0;
    for (const auto& c : all) {
      const bool is_library = c.name.rfind("cublasLt", 0) == 0,
                 is_floor = c.name.rfind("read", 0) == 0;
      if (out) {
        fprintf(out,
                "{\"device\":\"%s\",\"m\":%d,\"k\":%d,\"n\":%d,\"setting\":\"%s\",\"calls\":%d,"
                "\"name\":\"%s\",\"median_us\":%.3f,\"p10_us\":%.3f,\"p90_us\":%.3f}\n",
                device, m, k, n, chained ? "chain" : "plain", calls, c.name.c_str(), c.us[10],
                c.us[2], c.us[18]);
      }
      if (is_library ? library_shown++ < 1 : is_floor ? floor_shown++ < 1 : shown++ < 8) {
        printf("  %-52s %7.2f  [%.2f, %.2f]\n", c.name.c_str(), c.us[10], c.us[2], c.us[18]);
      }
    }
  }
  cudaFree(w), cudaFree(packed), cudaFree(x), cudaFree(y), cudaFree(ref), cudaFree(sink);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(cudaStreamCreate(&stream));
  cudaDeviceProp properties;
  int driver;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  CHECK(cudaDriverGetVersion(&driver));
  printf("%s, %d SMs, driver API %d\n", properties.name, properties.multiProcessorCount, driver);
  FILE* out = argc > 1 ? fopen(argv[1], "a") : nullptr;
  const std::vector<Test> all_tests = tests();
  const std::vector<Shape>& all_shapes = shapes();
  for (Variant* v : variants()) {
    if (v->shared_bytes > 48 * 1024)
      CHECK(cudaFuncSetAttribute(v->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 v->shared_bytes));
    if (v->cluster > 8)
      CHECK(cudaFuncSetAttribute(v->kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  }
  for (const Test& t : all_tests) {
    if (t.variant->fp16) {
      test<Fp16>(*t.variant, t.m, t.n, t.k, t.x_offset, t.x_pitch, t.groups);
    } else {
      test<Bf16>(*t.variant, t.m, t.n, t.k, t.x_offset, t.x_pitch, t.groups);
    }
  }
  for (const Shape& s : all_shapes) bench(s, out, properties.name);
  if (out) fclose(out);
  printf("%d failures\n", failures);
  return failures != 0;
}
