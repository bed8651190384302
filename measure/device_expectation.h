// What a correct kernel answers on each input family, for every row, kept on a GPU: made once for
// a workload and shared by all its candidates. Inner header of measure/.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "measure/device_math.h"
#include "measure/families.h"

namespace tenon::measure {

class DeviceExpectations {
 public:
  // On a device or for a program without such a reference every `family` is null, and `why` says
  // so.
  DeviceExpectations(runtime::Device& device, const ir::Workload& workload);

  DeviceMath* math() { return math_.get(); }
  const std::string& why() const { return why_; }
  // The family's answers at the workload's own extents; `inputs` hold it on the device. Null when
  // the device has no room for the evaluation.
  const DeviceMath::Result* family(Family family, const std::vector<const void*>& inputs);

 private:
  runtime::Device& device_;
  std::string why_;  // before math_, whose making writes it
  std::unique_ptr<DeviceMath> math_;
  double kept_bytes_ = 0;
  std::map<Family, DeviceMath::Result> kept_;
  DeviceMath::Result latest_;
};

}  // namespace tenon::measure
