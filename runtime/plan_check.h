// Checks of a call against its plan, the same for every device.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/plan.h"

namespace tenon::runtime {

// Every parameter has an address. Throws UserError.
void check_inputs(const ir::LaunchPlan& plan, const std::vector<const void*>& inputs);

// The weights are bound and `m` is 0 or within the plan's interval. Throws UserError.
void check_launch(const ir::LaunchPlan& plan, std::int64_t m, bool bound);

}  // namespace tenon::runtime
