// A stand-in for libcuda.so.1 without a GPU: memory is plain memory, kernels are only recorded.
// With it the launch path is tested where there is no GPU.
#include "fake_driver.h"

#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

using tenon::test::FakeLaunch;
using tenon::test::FakeRecord;

namespace {
std::mutex mutex;
thread_local CUcontext current = nullptr;
char primary;

FakeRecord& record() {
  static FakeRecord instance;
  return instance;
}

struct FakeFunction {
  std::string name;
};
}  // namespace

extern "C" {

FakeRecord* tenon_fake_record() { return &record(); }

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* v) {
  *v = 13000;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char** s) {
  *s = "FAKE_ERROR";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** s) {
  *s = "a made-up failure";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* n) {
  *n = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* d, int ordinal) {
  *d = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int n, CUdevice) {
  std::strncpy(name, "Stand-in GPU", static_cast<std::size_t>(n));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* v, CUdevice_attribute a, CUdevice) {
  switch (a) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *v = record().compute_major;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *v = record().compute_minor;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *v = 7;
      break;
    default:
      *v = 1 << 20;
  }
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(std::size_t* n, CUdevice) {
  *n = std::size_t{1} << 30;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* c, CUdevice) {
  *c = reinterpret_cast<CUcontext>(&primary);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext* c) {
  *c = current;
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent_v2(CUcontext c) {
  current = c;
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent_v2(CUcontext* c) {
  *c = current;
  current = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }
CUresult cuMemAlloc_v2(CUdeviceptr* p, std::size_t n) {
  if (n > (std::size_t{1} << 30)) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard<std::mutex> lock(mutex);
  ++record().allocations;
  ++record().live;
  *p = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, (n + 255) / 256 * 256));
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr p) {
  std::lock_guard<std::mutex> lock(mutex);
  --record().live;
  std::free(reinterpret_cast<void*>(p));
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{1} << 30;
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t n) {
  std::memcpy(reinterpret_cast<void*>(to), from, n);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t n) {
  std::memcpy(to, reinterpret_cast<const void*>(from), n);
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char value, std::size_t n, CUstream stream) {
  std::memset(reinterpret_cast<void*>(p), value, n);
  std::lock_guard<std::mutex> lock(mutex);
  if (stream && record().recording) record().fills.push_back(n);
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule* m, const void* image) {
  if (record().module_result != 0) return static_cast<CUresult>(record().module_result);
  if (std::strncmp(static_cast<const char*>(image), "cubin", 5) != 0)
    return CUDA_ERROR_INVALID_IMAGE;
  *m = reinterpret_cast<CUmodule>(new std::map<std::string, FakeFunction>);
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule m) {
  delete reinterpret_cast<std::map<std::string, FakeFunction>*>(m);
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* f, CUmodule m, const char* name) {
  if (std::strrchr(name, '_') == nullptr) return CUDA_ERROR_NOT_FOUND;
  FakeFunction& function = (*reinterpret_cast<std::map<std::string, FakeFunction>*>(m))[name];
  function.name = name;
  *f = reinterpret_cast<CUfunction>(&function);
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* v, CUfunction_attribute, CUfunction) {
  *v = 0;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int value) {
  return value > (228 << 10) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** parameters, void**) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!record().recording) return CUDA_SUCCESS;
  FakeLaunch launch;
  launch.entry = reinterpret_cast<FakeFunction*>(f)->name;
  launch.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  launch.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  launch.shared_bytes = config->sharedMemBytes;
  launch.stream = config->hStream;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& a = config->attrs[i];
    if (a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      launch.cluster = {a.value.clusterDim.x, a.value.clusterDim.y, a.value.clusterDim.z};
    if (a.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      launch.dependent = a.value.programmaticStreamSerializationAllowed != 0;
  }
  int count = std::atoi(launch.entry.c_str() + launch.entry.rfind('_') + 1);
  for (int i = 0; i < count; ++i) {
    std::uint64_t value = 0;
    std::memcpy(&value, parameters[i], sizeof value);
    launch.parameters.push_back(value);
  }
  record().launches.push_back(std::move(launch));
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* s, unsigned) {
  *s = reinterpret_cast<CUstream>(new char);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream s) {
  delete reinterpret_cast<char*>(s);
  return CUDA_SUCCESS;
}
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph*, const CUgraphNode**, std::size_t*) {
  std::lock_guard lock(mutex);
  auto found = record().captures.find(stream);
  *status = found == record().captures.end() ? CU_STREAM_CAPTURE_STATUS_NONE
                                             : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  *id = found == record().captures.end() ? 0 : found->second;
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) { return CUDA_SUCCESS; }
CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuStreamEndCapture(CUstream, CUgraph*) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuEventCreate(CUevent*, unsigned) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuEventDestroy_v2(CUevent) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuEventRecord(CUevent, CUstream) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuEventQuery(CUevent) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuEventSynchronize(CUevent) { return CUDA_ERROR_NOT_SUPPORTED; }
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float*, CUevent, CUevent) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuGraphInstantiateWithFlags(CUgraphExec*, CUgraph, unsigned long long) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphLaunch(CUgraphExec, CUstream) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuGraphUpload(CUgraphExec, CUstream) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuGraphDestroy(CUgraph) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuGraphExecDestroy(CUgraphExec) { return CUDA_ERROR_NOT_SUPPORTED; }

// The map is its address, rows and columns.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* address,
                                const cuuint64_t* dims, const cuuint64_t* strides,
                                const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  if (reinterpret_cast<std::uintptr_t>(address) % 16 || strides[0] % 16)
    return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t words[16] = {reinterpret_cast<std::uint64_t>(address), dims[0], dims[1],
                             strides[0]};
  std::memcpy(map, words, sizeof words);
  std::lock_guard<std::mutex> lock(mutex);
  ++record().encodings;
  return CUDA_SUCCESS;
}

}  // extern "C"
