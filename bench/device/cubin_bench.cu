// Variants of one generated kernel beside each other: what does a line of its source cost?
//
// build: nvcc -O2 -std=c++17 -arch=sm_90a cubin_bench.cu -lcuda -o cubin_bench
// use:   cubin_bench LIST [SAMPLES]
//
// LIST has lines `shape M K N`, each followed by lines `FILE GRID THREADS SHARED CLUSTER NAME`: a
// cubin whose kernel is tenon_main_0(x, w, y, m), as TENON_DUMP_DIR leaves it (or compiled from an
// edited source: nvcc -cubin -I FOLDER), and its launch, as `tenon db show` says it. W is taken as
// packed or padded rows.
//
// A graph of calls over copies of W, X and Y that rotate over more than four times the L2;
// contenders take turns; the median and the quartiles are printed, fastest first. Results are not
// checked here.
#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#define CHECK(call)                                             \
  do {                                                          \
    if (CUresult error_ = (call); error_ != CUDA_SUCCESS) {     \
      const char* text_ = "";                                   \
      cuGetErrorString(error_, &text_);                         \
      std::printf("line %d: %s: %s\n", __LINE__, #call, text_); \
      std::exit(1);                                             \
    }                                                           \
  } while (0)

namespace {

constexpr long kRotateBytes = 270'000'000;

struct Contender {
  std::string name;
  CUgraphExec graph = nullptr;
  std::vector<double> us;
  double quantile(double q) const { return us[static_cast<std::size_t>(q * (us.size() - 1))]; }
};

// Copies of the tensors of one shape, filled with small numbers.
struct Tensors {
  long m, k, n, copies, w_bytes, x_bytes, y_bytes;
  CUdeviceptr memory = 0;

  Tensors(long m_, long k_, long n_, CUstream stream) : m(m_), k(k_), n(n_) {
    const auto rounded = [](long v, long to) { return (v + to - 1) / to * to; };
    w_bytes = rounded(rounded(k, 64) * rounded(n, 16) * 2, 512);
    x_bytes = rounded(m * k * 2, 512) + 512;
    y_bytes = rounded(m * n * 2, 512) + 512;
    copies = std::clamp(kRotateBytes / w_bytes, 8L, 256L);
    CHECK(cuMemAlloc(&memory, copies * (w_bytes + x_bytes + y_bytes) + 65536));
    std::vector<unsigned short> values(1 << 22);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] =
          static_cast<unsigned short>(0x3d00 + i * 2654435761u % 0x80 + (i % 3 ? 0 : 0x8000));
    const long bytes = static_cast<long>(values.size()) * 2, all = copies * (w_bytes + x_bytes);
    for (long at = 0; at < all; at += bytes)
      CHECK(cuMemcpyHtoDAsync(memory + at, values.data(), std::min(bytes, all - at), stream));
    CHECK(cuStreamSynchronize(stream));
  }
  ~Tensors() { cuMemFree(memory); }
  CUdeviceptr w(long i) const { return memory + i * w_bytes; }
  CUdeviceptr x(long i) const { return memory + copies * w_bytes + i * x_bytes; }
  CUdeviceptr y(long i) const { return memory + copies * (w_bytes + x_bytes) + i * y_bytes; }
};

Contender capture(std::istringstream& line, const std::string& file, const Tensors& t,
                  CUstream stream) {
  unsigned grid, threads, shared, cluster;
  line >> grid >> threads >> shared >> cluster;
  Contender c;
  std::getline(line, c.name);
  CUmodule module;
  CUfunction kernel;
  CHECK(cuModuleLoad(&module, file.c_str()));
  CHECK(cuModuleGetFunction(&kernel, module, "tenon_main_0"));
  CHECK(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                           static_cast<int>(shared)));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (long i = 0; i < t.copies; ++i) {
    CUdeviceptr x = t.x(i), w = t.w(i), y = t.y(i);
    int m = static_cast<int>(t.m);
    void* arguments[] = {&x, &w, &y, &m};
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {cluster, 1, 1};
    CUlaunchConfig config = {};
    config.gridDimX = grid, config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = threads, config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = shared;
    config.hStream = stream;
    config.attrs = &attribute;
    config.numAttrs = cluster > 1 ? 1 : 0;
    CHECK(cuLaunchKernelEx(&config, kernel, arguments, nullptr));
  }
  CUgraph graph;
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&c.graph, graph, 0));
  CHECK(cuGraphDestroy(graph));
  return c;
}

void compare(std::vector<Contender>& all, const Tensors& t, int samples, CUstream stream) {
  CUevent begin, end;
  CHECK(cuEventCreate(&begin, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&end, CU_EVENT_DEFAULT));
  for (int i = 0; i < samples; ++i) {
    for (Contender& c : all) {
      CHECK(cuGraphLaunch(c.graph, stream));
      CHECK(cuEventRecord(begin, stream));
      CHECK(cuGraphLaunch(c.graph, stream));
      CHECK(cuEventRecord(end, stream));
      CHECK(cuStreamSynchronize(stream));
      float ms = 0;
      CHECK(cuEventElapsedTime(&ms, begin, end));
      c.us.push_back(ms * 1e3 / static_cast<double>(t.copies));
    }
  }
  for (Contender& c : all) std::sort(c.us.begin(), c.us.end());
  std::sort(all.begin(), all.end(), [](const Contender& a, const Contender& b) {
    return a.quantile(0.5) < b.quantile(0.5);
  });
  std::printf("== %ldx%ldx%ld, %ld copies\n", t.m, t.k, t.n, t.copies);
  for (const Contender& c : all)
    std::printf("  %8.3f [%.3f %.3f]%s\n", c.quantile(0.5), c.quantile(0.25), c.quantile(0.75),
                c.name.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::printf("use: cubin_bench LIST [SAMPLES]\n");
    return 2;
  }
  const int samples = argc > 2 ? std::max(1, std::atoi(argv[2])) : 21;
  CHECK(cuInit(0));
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));

  std::ifstream list(argv[1]);
  std::unique_ptr<Tensors> tensors;
  std::vector<Contender> contenders;
  const auto finish = [&] {
    if (!contenders.empty()) compare(contenders, *tensors, samples, stream);
    for (Contender& c : contenders) CHECK(cuGraphExecDestroy(c.graph));
    contenders.clear();
    tensors.reset();
  };
  for (std::string text; std::getline(list, text);) {
    std::istringstream line(text);
    std::string first;
    if (!(line >> first)) continue;
    if (first == "shape") {
      finish();
      long m, k, n;
      line >> m >> k >> n;
      tensors = std::make_unique<Tensors>(m, k, n, stream);
    } else if (tensors) {
      contenders.push_back(capture(line, first, *tensors, stream));
    }
  }
  finish();
}
