// Numeric acceptance of one candidate on one device.
#pragma once

#include <cstdint>
#include <vector>

#include "measure/device_expectation.h"
#include "measure/expectation.h"
#include "measure/measure.h"
#include "measure/watch.h"
#include "runtime/device.h"

namespace tenon::measure {

// Runs the plan on every input family and compares by the contract of design.md; outputs are
// poisoned first, every buffer of the caller lies between guard zones, every launch is repeated
// and must give the same bits, and where m is dynamic other numbers of rows are tried too.
// Where there are too many rows for the host's float64 reference, it checks a sample of them and
// `on_device` all of them.
// Never throws for a candidate's failure: the verdict says what happened.
// Each launch is entered in `watch`, where there is one, for `limit_s` at most.
verifier::Evidence accept(runtime::Device& device, Expectations& expected,
                          const Candidate& candidate, std::uint64_t seed,
                          DeviceExpectations* on_device = nullptr, Watch* watch = nullptr,
                          double limit_s = 0);

// Sizes of tiles and shares that the plan's schedule names, along a reduced dim of `extent`
// elements: where one-hot rows should sit.
std::vector<std::int64_t> tile_steps(const ir::LaunchPlan& plan, std::int64_t extent);

}  // namespace tenon::measure
