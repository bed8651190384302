#include "measure/device_expectation.h"

#include "ir/error.h"

namespace tenon::measure {

namespace {

// Parts of a device's memory: of one evaluation, and of all results that are kept.
constexpr double kEvaluationShare = 0.4, kKeptShare = 0.25;

}  // namespace

DeviceExpectations::DeviceExpectations(runtime::Device& device, const ir::Workload& workload)
    : device_(device), math_(make_device_math(device, workload, &why_)) {}

const DeviceMath::Result* DeviceExpectations::family(Family family,
                                                     const std::vector<const void*>& inputs) {
  if (!math_) return nullptr;
  auto it = kept_.find(family);
  if (it != kept_.end()) return &it->second;
  const double memory = static_cast<double>(device_.info().memory_bytes);
  if (math_->evaluation_bytes() > kEvaluationShare * memory) {
    why_ = "the device has no room for a float64 evaluation";
    return nullptr;
  }
  DeviceMath::Result result = math_->evaluate(inputs);
  double bytes = 0;
  for (const auto& output : result.outputs) bytes += static_cast<double>(output.exact->size());
  if (kept_bytes_ + bytes > kKeptShare * memory) {
    latest_ = std::move(result);
    return &latest_;
  }
  kept_bytes_ += bytes;
  return &kept_.emplace(family, std::move(result)).first->second;
}

}  // namespace tenon::measure
