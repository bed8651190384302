// The two timers: calls on the host, graph replays on a GPU.
#pragma once

#include <vector>

#include "measure/contender.h"

namespace tenon::measure {

// Fill in the timings of contenders that are ok so far, interleaved.
void time_on_host(Rotation& rotation, std::vector<Contender>& contenders, const Protocol& protocol);

// Returns false when a kernel passed the hang limit: the device is then lost to this process, and
// nothing that lives on it may be freed.
bool time_on_cuda(runtime::Device& device, Rotation& rotation, std::vector<Contender>& contenders,
                  const Protocol& protocol);

}  // namespace tenon::measure
