// The CUDA driver, opened at run time. Inner header of runtime/ and measure/: it needs
// cuda.h to compile, and nothing of CUDA to link or to start.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>

// The headers of CUDA 12 and 13 give this name to functions of different arguments: only the type
// of the symbol that is looked up. Every output but the status may be null.
extern "C" CUresult cuStreamGetCaptureInfo_six(CUstream stream, CUstreamCaptureStatus* status,
                                               cuuint64_t* id, CUgraph* graph,
                                               const CUgraphNode** dependencies,
                                               std::size_t* dependency_count);

namespace tenon::runtime::cuda {

// Entry points by their names in the driver's library. `optional` ones may be null with an older
// driver.
// clang-format off
#define TENON_DRIVER_FUNCTIONS(required, optional)                                                        \
  required(init, cuInit, "cuInit")                                                                        \
  required(driver_version, cuDriverGetVersion, "cuDriverGetVersion")                                      \
  required(error_name, cuGetErrorName, "cuGetErrorName")                                                  \
  required(error_string, cuGetErrorString, "cuGetErrorString")                                            \
  required(device_count, cuDeviceGetCount, "cuDeviceGetCount")                                            \
  required(device_get, cuDeviceGet, "cuDeviceGet")                                                        \
  required(device_name, cuDeviceGetName, "cuDeviceGetName")                                               \
  required(device_attribute, cuDeviceGetAttribute, "cuDeviceGetAttribute")                                \
  required(device_memory, cuDeviceTotalMem, "cuDeviceTotalMem_v2")                                        \
  required(primary_retain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")                          \
  required(primary_release, cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2")                    \
  required(context_current, cuCtxGetCurrent, "cuCtxGetCurrent")                                           \
  required(context_push, cuCtxPushCurrent, "cuCtxPushCurrent_v2")                                         \
  required(context_pop, cuCtxPopCurrent, "cuCtxPopCurrent_v2")                                            \
  required(context_synchronize, cuCtxSynchronize, "cuCtxSynchronize")                                     \
  required(memory_allocate, cuMemAlloc, "cuMemAlloc_v2")                                                  \
  required(memory_free, cuMemFree, "cuMemFree_v2")                                                        \
  required(memory_info, cuMemGetInfo, "cuMemGetInfo_v2")                                                  \
  required(copy_to_device, cuMemcpyHtoD, "cuMemcpyHtoD_v2")                                               \
  required(copy_to_host, cuMemcpyDtoH, "cuMemcpyDtoH_v2")                                                 \
  required(memset_async, cuMemsetD8Async, "cuMemsetD8Async")                                              \
  required(module_load, cuModuleLoadData, "cuModuleLoadData")                                             \
  required(module_unload, cuModuleUnload, "cuModuleUnload")                                               \
  required(module_function, cuModuleGetFunction, "cuModuleGetFunction")                                   \
  required(function_attribute, cuFuncGetAttribute, "cuFuncGetAttribute")                                  \
  required(function_set, cuFuncSetAttribute, "cuFuncSetAttribute")                                        \
  required(launch, cuLaunchKernelEx, "cuLaunchKernelEx")                                                  \
  required(stream_create, cuStreamCreate, "cuStreamCreate")                                               \
  required(stream_destroy, cuStreamDestroy, "cuStreamDestroy_v2")                                         \
  required(stream_synchronize, cuStreamSynchronize, "cuStreamSynchronize")                                \
  required(stream_begin_capture, cuStreamBeginCapture, "cuStreamBeginCapture_v2")                         \
  required(stream_end_capture, cuStreamEndCapture, "cuStreamEndCapture")                                  \
  required(capture_info, cuStreamGetCaptureInfo_six, "cuStreamGetCaptureInfo_v2")                         \
  required(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode") \
  required(event_create, cuEventCreate, "cuEventCreate")                                                  \
  required(event_destroy, cuEventDestroy, "cuEventDestroy_v2")                                            \
  required(event_record, cuEventRecord, "cuEventRecord")                                                  \
  required(event_query, cuEventQuery, "cuEventQuery")                                                     \
  required(event_synchronize, cuEventSynchronize, "cuEventSynchronize")                                   \
  required(event_elapsed, cuEventElapsedTime, "cuEventElapsedTime")                                       \
  required(graph_instantiate, cuGraphInstantiate, "cuGraphInstantiateWithFlags")                          \
  required(graph_launch, cuGraphLaunch, "cuGraphLaunch")                                                  \
  required(graph_upload, cuGraphUpload, "cuGraphUpload")                                                  \
  required(graph_destroy, cuGraphDestroy, "cuGraphDestroy")                                               \
  required(graph_exec_destroy, cuGraphExecDestroy, "cuGraphExecDestroy")                                  \
  optional(tensor_map_encode, cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled")                           \
  optional(device_pci_bus_id, cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId")                                 \
  optional(function_parameter, cuFuncGetParamInfo, "cuFuncGetParamInfo")
// clang-format on

struct Driver {
#define TENON_DRIVER_MEMBER(member, function, symbol) decltype(&::function) member = nullptr;
  TENON_DRIVER_FUNCTIONS(TENON_DRIVER_MEMBER, TENON_DRIVER_MEMBER)
#undef TENON_DRIVER_MEMBER
  std::string version;  // "580.65.06 (CUDA 13.0)"

  // Throws DeviceError "<what>: <the driver's sentence> (<its name>)" unless `result` is success.
  void check(CUresult result, const std::string& what) const;
};

// The driver, initialized, or null where there is none; `why` then says what was looked for.
const Driver* driver(std::string* why = nullptr);

}  // namespace tenon::runtime::cuda
