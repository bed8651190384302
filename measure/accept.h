// Numeric acceptance of one candidate on one device.
#pragma once

#include <cstdint>
#include <vector>

#include "measure/expectation.h"
#include "measure/measure.h"
#include "runtime/device.h"

namespace tenon::measure {

// Runs the plan on every input family and compares by the contract of design.md; outputs are
// poisoned first, every buffer of the caller lies between guard zones, every launch is repeated
// and must give the same bits, and where m is dynamic other numbers of rows are tried too.
// Never throws for a candidate's failure: the verdict says what happened.
verifier::Evidence accept(runtime::Device& device, Expectations& expected,
                          const Candidate& candidate, std::uint64_t seed);

// Sizes of tiles and shares that the plan's schedule names, along a reduced dim of `extent`
// elements: where one-hot rows should sit.
std::vector<std::int64_t> tile_steps(const ir::LaunchPlan& plan, std::int64_t extent);

}  // namespace tenon::measure
