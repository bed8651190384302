// The two timers: calls on the host, graph replays on a GPU.
#pragma once

#include <vector>

#include "measure/contender.h"
#include "measure/watch.h"

namespace tenon::measure {

// Fill in the timings of contenders that are ok so far, interleaved.
void time_on_host(Rotation& rotation, std::vector<Contender>& contenders, const Protocol& protocol,
                  Watch& watch);

// Returns false when a kernel passed the hang limit or broke the context: the device is then lost
// to this process, nothing that lives on it may be freed, and contenders that could not be measured
// are marked `not_run`.
bool time_on_cuda(runtime::Device& device, Rotation& rotation, std::vector<Contender>& contenders,
                  const Protocol& protocol, Watch& watch);

// Whether a fault of a kernel has broken the device's context for good (CUDA calls such errors
// sticky). False on the host.
bool device_lost(const runtime::Device& device);
// Marks as not run what has not failed by itself.
void mark_not_run(std::vector<Contender>& contenders);

}  // namespace tenon::measure
