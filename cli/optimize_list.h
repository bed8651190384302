// tenon optimize for a list of workloads, or several devices.
#pragma once

#include "cli/cli.h"
#include "optimizer/many.h"

namespace tenon::cli {

// Prints what it finds and returns the exit code: kDone when every workload has a winner.
int optimize_list(const optimizer::ManyOptions& options, bool as_json,
                  const Interruption& interruption);

}  // namespace tenon::cli
