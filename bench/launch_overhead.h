// What a launch through Tenon costs the calling thread beyond the driver's own call.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::bench {

struct LaunchOverhead {
  int launches = 0;             // of the driver in one call: the kernels of the plan
  double bare_us = 0;           // medians of one call: the driver's launches alone
  double layer_us = 0;          // Layer::launch
  double c_api_us = 0;          // tenon_launch_one
  double open_and_bind_ms = 0;  // with the context there, without the prepare step's time
  std::string json;             // all of it, with more, on one line
};

// For rmsnorm_linear in bf16, of which the database must hold a plan. Throws UserError,
// DeviceError.
LaunchOverhead measure_launch_overhead(const std::string& database, const std::string& device,
                                       std::int64_t m, std::int64_t k, std::int64_t n);

}  // namespace tenon::bench
