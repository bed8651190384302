#include "runtime/device.h"

#include <algorithm>

#include "ir/error.h"
#include "runtime/compile_device.h"
#include "runtime/cuda/device.h"
#include "runtime/host/device.h"

namespace tenon::runtime {

namespace {

constexpr const char* kAccepted = "auto, host, cuda:N or compile:sm_XX";

int parse_ordinal(const std::string& id, const std::string& text) {
  bool digits = !text.empty() && text.size() <= 4 &&
                std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) throw UserError("device", id, kAccepted);
  return std::stoi(text);
}

}  // namespace

std::vector<DeviceInfo> list_devices(std::string* note) {
  std::vector<DeviceInfo> infos = cuda::list_cuda(note);
  infos.push_back(host::host_info());
  for (DeviceInfo& info : compile_targets()) infos.push_back(std::move(info));
  return infos;
}

std::unique_ptr<Device> open_device(const std::string& id) {
  const std::string cuda_prefix = "cuda:", compile_prefix = "compile:";
  if (id == "host") return host::open_host();
  if (id == "auto") return cuda::device_count() > 0 ? cuda::open_cuda(0) : host::open_host();
  if (id == "cuda") return cuda::open_cuda(0);
  if (id.rfind(cuda_prefix, 0) == 0)
    return cuda::open_cuda(parse_ordinal(id, id.substr(cuda_prefix.size())));
  if (id.rfind(compile_prefix, 0) == 0)
    return open_compile_device(id.substr(compile_prefix.size()));
  throw UserError("device", id, kAccepted);
}

}  // namespace tenon::runtime
