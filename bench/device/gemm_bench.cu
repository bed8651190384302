// The tensor-core product with normalization (codegen/device/gemm) beside cuBLASLt's bare product:
// correctness against references in higher precision, then times.
//
// build: nvcc -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a gemm_bench.cu
//          -lcuda -lnvrtc -lcublasLt -o gemm_bench
// use:   gemm_bench --headers codegen --suite FILE [--cubins DIR] [--out DIR] [--compile-only]
//          [--check-only] [--screen N] [--samples N] [--keep N]
//
// A suite has lines `shape M K N`, each followed by lines of schedules (gemm_config.h), and
// comments. Kernels are compiled at run time, as the code generator does it.
//
// Protocol ("burst"): a graph of calls, weights and activations rotating over more than four times
// the L2; for each sample the card idles, one replay warms it, one is timed; contenders take
// turns. Screening first, then the best of each kind beside the library's best.
#include <cublasLt.h>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

#include "gemm_compile.h"
#include "gemm_reference.cuh"

using namespace gemm_bench;

#define CHECK(call)                                 \
  do {                                              \
    const int error_ = static_cast<int>(call);      \
    if (error_ != 0) fail(#call, __LINE__, error_); \
  } while (0)

static std::string current;  // what is running, for the message when it fails

static void fail(const char* call, int line, int error) {
  std::printf("FAILED line %d: %s = %d, while running: %s\n", line, call, error, current.c_str());
  std::fflush(stdout);
  _exit(3);
}

static cudaStream_t stream;

// Waits for the stream, but not for ever: a kernel that hangs must not hold the device.
static void synchronize() {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) fail("kernel", __LINE__, state);
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(5))
      fail("hang", __LINE__, -1);
  }
}

// One large allocation, handed out in order and taken back by mark.
struct Pool {
  char* base = nullptr;
  std::size_t size = 0, used = 0;
  void* take(std::size_t bytes) {
    used = (used + 1023) / 1024 * 1024;
    if (used + bytes > size) fail("pool", __LINE__, 0);
    void* p = base + used;
    used += bytes;
    return p;
  }
};
static Pool pool;

struct Shape {
  int m, k, n;
};

static PFN_cuTensorMapEncodeTiled_v12000 encode_tiled;

static CUtensorMap make_map(void* base, int rows, int columns, int box_rows, bool fp16,
                            int promotion) {
  CUtensorMap map;
  const cuuint64_t extents[2] = {cuuint64_t(columns), cuuint64_t(rows)};
  const cuuint64_t strides[1] = {cuuint64_t(columns) * 2};
  const cuuint32_t box[2] = {64, cuuint32_t(box_rows)}, ones[2] = {1, 1};
  CHECK(encode_tiled(
      &map, fp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, base,
      extents, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      promotion == 256 ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

// The library's product Y = X Wᵀ.
struct Library {
  cublasLtMatmulDesc_t description;
  cublasLtMatrixLayout_t a, b, c;
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms;
  static cublasLtHandle_t handle;
  static void* workspace;
  static constexpr std::size_t kWorkspace = 64 << 20;

  Library(Shape s, bool fp16, bool float_output, int wanted) {
    const cudaDataType_t type = fp16 ? CUDA_R_16F : CUDA_R_16BF;
    const cublasOperation_t transpose = CUBLAS_OP_T;
    CHECK(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                   sizeof transpose);
    cublasLtMatrixLayoutCreate(&a, type, s.k, s.n, s.k);
    cublasLtMatrixLayoutCreate(&b, type, s.k, s.m, s.k);
    cublasLtMatrixLayoutCreate(&c, float_output ? CUDA_R_32F : type, s.n, s.m, s.n);
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &kWorkspace, sizeof kWorkspace);
    algorithms.resize(wanted);
    int found = 0;
    CHECK(cublasLtMatmulAlgoGetHeuristic(handle, description, a, b, c, c, preference, wanted,
                                         algorithms.data(), &found));
    algorithms.resize(found);
  }
  bool run(int algorithm, const void* w, const void* x, void* y) const {
    const float one = 1, zero = 0;
    return cublasLtMatmul(handle, description, &one, w, a, x, b, &zero, y, c, y, c,
                          &algorithms[algorithm].algo, workspace, kWorkspace, stream) == 0;
  }
};
cublasLtHandle_t Library::handle;
void* Library::workspace;

constexpr double kEpsilon = 1e-6;
constexpr std::size_t kGuard = 65536;  // bytes after each Y that no kernel may touch

// A shape's buffers and references, for one element type.
struct Problem {
  Shape shape;
  bool fp16;
  std::vector<void*> x, w, y;
  std::map<std::pair<int, int>, std::vector<void*>> packed;  // by tile_n, padded rows
  double* moments;
  float *column_sums, *bias;
  float* product = nullptr;      // float, from the library
  double* product_64 = nullptr;  // small problems

  std::size_t y_bytes() const { return std::size_t(shape.m) * shape.n * 2; }

  template <class T>
  void fill(void* p, std::size_t count, float deviation, int seed) {
    fill_normal<T><<<1056, 256, 0, stream>>>(static_cast<T*>(p), count, deviation, seed);
  }

  Problem(Shape s, bool is_fp16, int copies_w, int copies_xy) : shape(s), fp16(is_fp16) {
    const std::size_t xs = std::size_t(s.m) * s.k, ws = std::size_t(s.n) * s.k;
    for (int i = 0; i < copies_w; ++i) {
      w.push_back(pool.take(ws * 2));
      if (fp16)
        fill<__half>(w.back(), ws, 0.02f, 100 + i);
      else
        fill<__nv_bfloat16>(w.back(), ws, 0.02f, 100 + i);
    }
    for (int i = 0; i < copies_xy; ++i) {
      x.push_back(pool.take(xs * 2));
      if (fp16)
        fill<__half>(x.back(), xs, 1.f, 500 + i);
      else
        fill<__nv_bfloat16>(x.back(), xs, 1.f, 500 + i);
      y.push_back(pool.take(y_bytes() + kGuard));
    }
    moments = static_cast<double*>(pool.take(16ull * s.m));
    column_sums = static_cast<float*>(pool.take(4ull * s.n));
    bias = static_cast<float*>(pool.take(4ull * s.n));
    if (fp16)
      row_moments<<<s.m, 256, 0, stream>>>(static_cast<__half*>(x[0]), s.k, moments);
    else
      row_moments<<<s.m, 256, 0, stream>>>(static_cast<__nv_bfloat16*>(x[0]), s.k, moments);
    // Any numbers will do for what the layer form adds.
    std::vector<float> host(s.n);
    for (int i = 0; i < s.n; ++i) host[i] = std::sin(0.1f * i);
    CHECK(cudaMemcpyAsync(column_sums, host.data(), 4ull * s.n, cudaMemcpyHostToDevice, stream));
    for (int i = 0; i < s.n; ++i) host[i] = std::cos(0.3f * i);
    synchronize();
    CHECK(cudaMemcpyAsync(bias, host.data(), 4ull * s.n, cudaMemcpyHostToDevice, stream));
    const std::size_t ys = std::size_t(s.m) * s.n;
    if (double(ys) * s.k < 2e9) {
      product_64 = static_cast<double*>(pool.take(ys * 8));
      const unsigned blocks = static_cast<unsigned>((ys + 255) / 256);
      if (fp16)
        product64<<<blocks, 256, 0, stream>>>(
            static_cast<__half*>(x[0]), static_cast<__half*>(w[0]), s.m, s.n, s.k, product_64);
      else
        product64<<<blocks, 256, 0, stream>>>(static_cast<__nv_bfloat16*>(x[0]),
                                              static_cast<__nv_bfloat16*>(w[0]), s.m, s.n, s.k,
                                              product_64);
    } else {
      product = static_cast<float*>(pool.take(ys * 4));
      const Library library(s, fp16, true, 1);
      if (!library.run(0, w[0], x[0], product)) fail("reference", __LINE__, 0);
    }
    CHECK(cudaGetLastError());
    synchronize();
  }

  const std::vector<void*>& packed_weights(int tile_n, int tiles_n) {
    auto& list = packed[{tile_n, tiles_n}];
    if (list.empty()) {
      const std::size_t words = std::size_t(tiles_n) * ((shape.k + 63) / 64) * tile_n * 8;
      for (void* source : w) {
        list.push_back(pool.take(words * 16));
        auto* to = static_cast<uint4*>(list.back());
        if (fp16)
          pack_weights<<<1056, 256, 0, stream>>>(to, static_cast<__half*>(source), shape.n, shape.k,
                                                 tile_n, words);
        else
          pack_weights<<<1056, 256, 0, stream>>>(to, static_cast<__nv_bfloat16*>(source), shape.n,
                                                 shape.k, tile_n, words);
      }
      CHECK(cudaGetLastError());
      synchronize();
    }
    return list;
  }

  struct Error {
    double row = 0, element = 0;  // largest relative error of a row, of an element
  };
  Error error(void* out, Form form) {
    double* device = static_cast<double*>(pool.take(24ull * shape.m));
    auto go = [&](auto* typed, auto* p) {
      compare<<<shape.m, 256, 0, stream>>>(typed, p, moments, shape.n, shape.k, form, kEpsilon,
                                           column_sums, bias, device);
    };
    if (fp16)
      product ? go(static_cast<__half*>(out), product) : go(static_cast<__half*>(out), product_64);
    else
      product ? go(static_cast<__nv_bfloat16*>(out), product)
              : go(static_cast<__nv_bfloat16*>(out), product_64);
    CHECK(cudaGetLastError());
    std::vector<double> host(3ull * shape.m);
    CHECK(cudaMemcpyAsync(host.data(), device, 24ull * shape.m, cudaMemcpyDeviceToHost, stream));
    synchronize();
    Error e;
    for (int i = 0; i < shape.m; ++i) {
      e.row = std::max(e.row, std::sqrt(host[3 * i] / host[3 * i + 1]));
      e.element = std::max(e.element, host[3 * i + 2]);
    }
    return e;
  }
};

// A loaded schedule, bound to a problem.
struct Kernel {
  Schedule schedule;
  Problem* problem;
  CUfunction function;
  int grid;
  void* workspace;
  float* row_sums;
  std::vector<CUtensorMap> x_maps, w_maps;
  const std::vector<void*>* packed = nullptr;

  Kernel(const Schedule& s, const std::string& cubin, Problem& p) : schedule(s), problem(&p) {
    const Shape& shape = p.shape;
    current = s.name();
    CUmodule module;
    CHECK(cuModuleLoadData(&module, cubin.data()));
    CHECK(cuModuleGetFunction(&function, module, "kernel"));
    CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                             s.shared_bytes()));
    int clusters = 0;
    CHECK(cuDeviceGetAttribute(&clusters, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    if (s.cluster() > 1) {
      CUlaunchAttribute attribute;
      CUlaunchConfig config =
          launch_config(&attribute, clusters / s.cluster() * s.cluster(), false);
      CHECK(cuOccupancyMaxActiveClusters(&clusters, function, &config));
    }
    const int tiles = s.cluster_tiles(shape.m, shape.n);
    const bool all = s.text("stats") == "spare";
    grid = (all ? clusters : s.number("sk") > 1 ? tiles : std::min(tiles, clusters)) * s.cluster();
    workspace = pool.take(s.workspace_bytes(shape.m));
    CHECK(cudaMemsetAsync(workspace, 0, s.workspace_bytes(shape.m), stream));
    row_sums = static_cast<float*>(pool.take(8ull * shape.m));
    external_sums<<<(shape.m + 255) / 256, 256, 0, stream>>>(p.moments, shape.m,
                                                             std::max(1, s.sums()), row_sums);
    for (void* x : p.x)
      x_maps.push_back(make_map(x, shape.m, shape.k, s.tile_rows(shape.m) / s.number("cn"), p.fp16,
                                s.number("promo")));
    for (void* w : p.w)
      w_maps.push_back(make_map(w, shape.n, shape.k, s.number("tn") / s.number("cm"), p.fp16,
                                s.number("promo")));
    if (s.number("packed")) {
      const int unit = s.number("tn") * s.number("cn");
      packed = &p.packed_weights(s.number("tn"), (shape.n + unit - 1) / unit * s.number("cn"));
    }
    synchronize();
  }

  CUlaunchConfig launch_config(CUlaunchAttribute* attributes, int blocks, bool dependent) const {
    CUlaunchConfig config = {};
    config.gridDimX = blocks, config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = schedule.threads(), config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = schedule.shared_bytes();
    config.hStream = stream;
    config.attrs = attributes;
    if (schedule.cluster() > 1) {
      attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      attributes[config.numAttrs].value.clusterDim = {unsigned(schedule.cluster()), 1, 1};
      ++config.numAttrs;
    }
    if (dependent) {
      attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      attributes[config.numAttrs].value.programmaticStreamSerializationAllowed = 1;
      ++config.numAttrs;
    }
    return config;
  }

  void launch(int call) {
    Shape s = problem->shape;
    const void* x = problem->x[call % problem->x.size()];
    void* y = problem->y[call % problem->y.size()];
    const void* w = packed ? (*packed)[call % packed->size()] : nullptr;
    long long x_stride = s.k, y_stride = s.n;
    float inverse_k = 1.f / s.k, epsilon = kEpsilon;
    const float *column_sums = problem->column_sums, *bias = problem->bias;
    int tile_rows = schedule.tile_rows(s.m);
    void* arguments[] = {&x_maps[call % x_maps.size()],
                         &w_maps[call % w_maps.size()],
                         &x,
                         &x_stride,
                         &w,
                         &y,
                         &y_stride,
                         &row_sums,
                         &workspace,
                         &s.m,
                         &s.n,
                         &s.k,
                         &inverse_k,
                         &epsilon,
                         &column_sums,
                         &bias,
                         &tile_rows};
    CUlaunchAttribute attributes[2];
    const CUlaunchConfig config = launch_config(attributes, grid, schedule.number("pdl") != 0);
    CHECK(cuLaunchKernelEx(&config, function, arguments, nullptr));
  }

  // Right, twice the same bits, nothing written outside, workspace as it was found?
  bool check(Problem::Error& e, std::string& why) {
    current = schedule.name();
    const std::size_t bytes = problem->y_bytes(), words = bytes / 4;
    const std::size_t mark = pool.used;
    char* first = static_cast<char*>(pool.take(bytes));
    auto* count = static_cast<unsigned*>(pool.take(4));
    std::vector<unsigned char> guard(kGuard);
    for (int repeat = 0; repeat < 2; ++repeat) {
      CHECK(cudaMemsetAsync(problem->y[0], 0xff, bytes + kGuard, stream));
      launch(0);
      synchronize();
      if (repeat == 0)
        CHECK(cudaMemcpyAsync(first, problem->y[0], bytes, cudaMemcpyDeviceToDevice, stream));
    }
    CHECK(cudaMemsetAsync(count, 0, 4, stream));
    count_different<<<1056, 256, 0, stream>>>(reinterpret_cast<std::uint32_t*>(first),
                                              static_cast<std::uint32_t*>(problem->y[0]), words,
                                              count);
    unsigned different = 0;
    CHECK(cudaMemcpyAsync(&different, count, 4, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpyAsync(guard.data(), static_cast<char*>(problem->y[0]) + bytes, kGuard,
                          cudaMemcpyDeviceToHost, stream));
    synchronize();
    const Form form = schedule.text("stats") == "none" ? Form::kBare
                      : schedule.text("form") == "rms" ? Form::kRms
                                                       : Form::kLayer;
    e = problem->error(problem->y[0], form);
    // Rounding Y once costs about 1.7e-3 (bf16), 2.1e-4 (fp16) of the worst row.
    const double bound = problem->fp16 ? 4e-4 : 2.5e-3;
    why.clear();
    if (!(e.row <= bound)) why += " row error";
    if (!(e.element <= 8 * bound)) why += " element error";
    if (different != 0) why += " not repeatable";
    for (unsigned char c : guard)
      if (c != 0xff) {
        why += " wrote past the end";
        break;
      }
    if (schedule.exchanges_sums()) {
      // The counter must be zero again, and both launches counted.
      unsigned words[2];
      CHECK(cudaMemcpyAsync(words, workspace, sizeof words, cudaMemcpyDeviceToHost, stream));
      synchronize();
      if (words[0] != 0 || words[1] != 2) why += " workspace";
    }
    pool.used = mark;
    return why.empty();
  }
};

// Something that is timed: a graph of `calls` calls.
struct Contender {
  std::string name, kind;  // kind: library, bare, fused
  bool dependent = false;
  std::function<void(int)> call;
  int calls = 1;
  cudaGraphExec_t graph = nullptr;
  std::vector<double> samples;
  double row_error = 0;

  void capture() {
    current = name;
    cudaGraph_t g;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < calls; ++i) call(i);
    CHECK(cudaStreamEndCapture(stream, &g));
    CHECK(cudaGraphInstantiate(&graph, g, 0));
    cudaGraphDestroy(g);
  }
  void sample(int idle_us, cudaEvent_t a, cudaEvent_t b) {
    current = name;
    usleep(idle_us);
    CHECK(cudaGraphLaunch(graph, stream));
    CHECK(cudaEventRecord(a, stream));
    CHECK(cudaGraphLaunch(graph, stream));
    CHECK(cudaEventRecord(b, stream));
    synchronize();
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, a, b));
    samples.push_back(ms * 1e3 / calls);
  }
  double quantile(double q) const {
    std::vector<double> s = samples;
    std::sort(s.begin(), s.end());
    return s[std::min(s.size() - 1, std::size_t(q * s.size()))];
  }
  double median() const { return quantile(0.5); }
};

struct Options {
  std::string headers = "codegen", suite, cubins = "cubins", out;
  bool compile_only = false, check_only = false;
  int screen = 5, samples = 21, keep = 3, idle_us = 30000;
};

struct Case {
  Shape shape;
  std::vector<Schedule> schedules;
};

static std::vector<Case> read_suite(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read suite " + file);
  std::vector<Case> cases;
  std::string line;
  while (std::getline(in, line)) {
    line = line.substr(0, line.find('#'));
    std::istringstream words(line);
    std::string first;
    if (!(words >> first)) continue;
    if (first == "shape") {
      cases.push_back({});
      Shape& s = cases.back().shape;
      words >> s.m >> s.k >> s.n;
    } else {
      for (Schedule& s : parse_schedules(line)) cases.back().schedules.push_back(s);
    }
  }
  return cases;
}

static void run_case(const Case& c, const std::vector<Compiled>& compiled, const Options& options,
                     std::FILE* json) {
  const Shape s = c.shape;
  const double w_bytes = 2.0 * s.n * s.k, xy_bytes = 2.0 * s.m * (s.k + s.n);
  const int copies_w = options.check_only ? 1 : std::clamp(int(250e6 / w_bytes) + 1, 2, 64);
  const int copies_xy =
      options.check_only ? 1 : std::clamp(int(250e6 / (xy_bytes + w_bytes)) + 1, 2, 16);
  const double estimate = std::max(2.0 * s.m * s.n * s.k / 750e6, w_bytes / 4e6 + 3);
  const int calls = std::clamp(int(2000 / estimate) + 1, 2, 200);
  std::printf("\n== %d x %d x %d (M x K x N), %d calls a graph\n", s.m, s.k, s.n, calls);
  pool.used = 0;
  std::map<bool, std::unique_ptr<Problem>> problems;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<std::unique_ptr<Contender>> contenders;
  int wrong = 0, right = 0;
  for (std::size_t i = 0; i < c.schedules.size(); ++i) {
    const Schedule& schedule = c.schedules[i];
    const std::string reason = schedule.rejected(s.m, s.n, s.k);
    if (!reason.empty() || !compiled[i].ok) {
      std::printf("  rejected  %-70s %s\n", schedule.name().c_str(),
                  reason.empty() ? compiled[i].log.c_str() : reason.c_str());
      continue;
    }
    const bool fp16 = schedule.text("type") == "fp16";
    if (!problems[fp16]) problems[fp16] = std::make_unique<Problem>(s, fp16, copies_w, copies_xy);
    kernels.push_back(std::make_unique<Kernel>(schedule, compiled[i].cubin, *problems[fp16]));
    Kernel* kernel = kernels.back().get();
    Problem::Error e;
    std::string why;
    const bool ok = kernel->check(e, why);
    (ok ? right : wrong)++;
    if (!ok || options.check_only) {
      std::printf("  %s  %-70s row %.2e element %.2e grid %d%s\n", ok ? "right" : "WRONG",
                  schedule.name().c_str(), e.row, e.element, kernel->grid, why.c_str());
      std::fflush(stdout);
    }
    if (!ok || options.check_only) continue;
    contenders.push_back(std::make_unique<Contender>());
    Contender& contender = *contenders.back();
    contender.name = schedule.name();
    contender.kind = schedule.text("stats") == "none" ? "bare" : "fused";
    contender.dependent = schedule.number("pdl") != 0;
    contender.call = [kernel](int i) { kernel->launch(i); };
    contender.row_error = e.row;
  }
  std::printf("  checked: %d right, %d wrong\n", right, wrong);
  if (options.check_only || contenders.empty()) return;

  Problem& problem = *problems[false];
  const Library library(s, false, false, 16);
  for (std::size_t i = 0; i < library.algorithms.size(); ++i) {
    if (!library.run(int(i), problem.w[0], problem.x[0], problem.y[0])) continue;
    contenders.push_back(std::make_unique<Contender>());
    Contender& contender = *contenders.back();
    contender.name = "cublasLt heuristic " + std::to_string(i);
    contender.kind = "library";
    contender.call = [&library, &problem, i](int call) {
      if (!library.run(int(i), problem.w[call % problem.w.size()],
                       problem.x[call % problem.x.size()], problem.y[call % problem.y.size()])) {
        fail("library", __LINE__, 0);
      }
    };
  }
  synchronize();
  cudaEvent_t a, b;
  CHECK(cudaEventCreate(&a));
  CHECK(cudaEventCreate(&b));
  for (auto& contender : contenders) {
    contender->calls = calls;
    contender->capture();
  }
  for (int i = 0; i < options.screen; ++i) {
    for (auto& contender : contenders) contender->sample(options.idle_us, a, b);
  }
  auto by_median = [](const auto& l, const auto& r) { return l->median() < r->median(); };
  std::sort(contenders.begin(), contenders.end(), by_median);
  double best_library = 1e30;
  for (auto& contender : contenders) {
    if (contender->kind == "library") best_library = std::min(best_library, contender->median());
  }
  for (auto& contender : contenders) {
    std::printf("  screen %9.2f us %6.3f  %-5s %-9s %s\n", contender->median(),
                contender->median() / best_library, contender->kind.c_str(),
                contender->dependent ? "dependent" : "plain", contender->name.c_str());
    std::fprintf(
        json,
        "{\"phase\":\"screen\",\"m\":%d,\"k\":%d,\"n\":%d,\"kind\":\"%s\",\"setting\":\"%s\","
        "\"schedule\":\"%s\",\"median_us\":%.3f,\"min_us\":%.3f,\"max_us\":%.3f,\"samples\":%zu}\n",
        s.m, s.k, s.n, contender->kind.c_str(), contender->dependent ? "dependent" : "plain",
        contender->name.c_str(), contender->median(), contender->quantile(0),
        contender->quantile(1), contender->samples.size());
  }
  // The best of each kind and setting go on.
  std::vector<Contender*> finalists;
  std::map<std::pair<std::string, bool>, int> kept;
  for (auto& contender : contenders) {
    const int limit = contender->kind == "fused" ? options.keep : 1;
    if (kept[{contender->kind, contender->dependent}]++ < limit)
      finalists.push_back(contender.get());
  }
  for (Contender* f : finalists) f->samples.clear();
  for (int i = 0; i < options.samples; ++i) {
    for (Contender* f : finalists) f->sample(options.idle_us, a, b);
  }
  for (Contender* f : finalists)
    if (f->kind == "library") best_library = f->median();
  std::sort(finalists.begin(), finalists.end(), by_median);
  for (Contender* f : finalists) {
    std::printf("  FINAL  %9.2f us [%.2f %.2f] %6.3f  %-7s %-9s %s\n", f->median(),
                f->quantile(0.1), f->quantile(0.9), f->median() / best_library, f->kind.c_str(),
                f->dependent ? "dependent" : "plain", f->name.c_str());
    std::fprintf(json,
                 "{\"phase\":\"final\",\"m\":%d,\"k\":%d,\"n\":%d,\"kind\":\"%s\",\"setting\":\"%"
                 "s\",\"schedule\":\"%s\",\"median_us\":%.3f,\"p10_us\":%.3f,\"p90_us\":%.3f,"
                 "\"ratio\":%.4f,\"row_error\":%.3e,\"samples\":%zu}\n",
                 s.m, s.k, s.n, f->kind.c_str(), f->dependent ? "dependent" : "plain",
                 f->name.c_str(), f->median(), f->quantile(0.1), f->quantile(0.9),
                 f->median() / best_library, f->row_error, f->samples.size());
  }
  std::fflush(stdout);
  std::fflush(json);
  for (auto& contender : contenders) cudaGraphExecDestroy(contender->graph);
}

static int run(const Options& options) {
  const std::vector<Case> cases = read_suite(options.suite);
  const Compiler compiler(options.headers, options.cubins);
  std::vector<Schedule> all;
  std::vector<bool> legal;
  for (const Case& c : cases) {
    for (const Schedule& s : c.schedules) {
      all.push_back(s);
      legal.push_back(s.rejected(c.shape.m, c.shape.n, c.shape.k).empty());
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Compiled> compiled = compiler.compile_all(all, legal);
  std::printf("%zu schedules compiled or found in %.1f s\n", all.size(),
              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  int failed = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool noise = compiled[i].log.find("serialized") != std::string::npos ||
                       compiled[i].log.find("setmaxnreg ignored") != std::string::npos;
    if (legal[i] && (!compiled[i].ok || compiled[i].spills > 0 || noise)) {
      std::printf("  %s: %s\n", all[i].name().c_str(),
                  !compiled[i].ok || noise
                      ? compiled[i].log.substr(0, 400).c_str()
                      : ("spills " + std::to_string(compiled[i].spills)).c_str());
      failed += !compiled[i].ok;
    }
  }
  if (options.compile_only) return failed != 0;

  cudaDeviceProp properties;
  int driver = 0;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  CHECK(cudaDriverGetVersion(&driver));
  std::printf("device %s, driver CUDA %d.%d\n", properties.name, driver / 1000, driver % 1000 / 10);
  cudaDriverEntryPointQueryResult found;
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled",
                                         reinterpret_cast<void**>(&encode_tiled), 12000,
                                         cudaEnableDefault, &found));
  CHECK(cudaStreamCreate(&stream));
  CHECK(cublasLtCreate(&Library::handle));
  CHECK(cudaMalloc(&Library::workspace, Library::kWorkspace));
  pool.size = 24ull << 30;
  CHECK(cudaMalloc(&pool.base, pool.size));
  std::FILE* json =
      std::fopen((options.out.empty() ? "/dev/null" : options.out + "/gemm.jsonl").c_str(), "a");
  if (!json) throw std::runtime_error("cannot write to " + options.out);
  std::fprintf(json, "{\"phase\":\"device\",\"name\":\"%s\",\"cuda_driver\":%d}\n", properties.name,
               driver);
  std::size_t offset = 0;
  for (const Case& c : cases) {
    run_case(c, {compiled.begin() + offset, compiled.begin() + offset + c.schedules.size()},
             options, json);
    offset += c.schedules.size();
  }
  std::fclose(json);
  return 0;
}

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (word == "--headers")
      options.headers = value();
    else if (word == "--suite")
      options.suite = value();
    else if (word == "--cubins")
      options.cubins = value();
    else if (word == "--out")
      options.out = value();
    else if (word == "--compile-only")
      options.compile_only = true;
    else if (word == "--check-only")
      options.check_only = true;
    else if (word == "--screen")
      options.screen = std::stoi(value());
    else if (word == "--samples")
      options.samples = std::stoi(value());
    else if (word == "--keep")
      options.keep = std::stoi(value());
    else if (word == "--idle-us")
      options.idle_us = std::stoi(value());
    else {
      std::printf("unknown option %s\n", word.c_str());
      return 2;
    }
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
