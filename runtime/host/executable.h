// A host plan made ready to launch: its µGraph, compiled for the host engine.
#pragma once

#include <memory>

#include "ir/plan.h"
#include "runtime/device.h"

namespace tenon::runtime::host {

// Throws UserError when the plan is not a host plan or does not fit its µGraph.
std::unique_ptr<Executable> make_executable(const ir::LaunchPlan& plan);

}  // namespace tenon::runtime::host
