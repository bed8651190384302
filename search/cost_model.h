// The model that ranks schedules before anything is compiled. It need not be right, only to
// order; docs/codegen.md states its terms.
#pragma once

#include "ir/family.h"
#include "ir/mugraph.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "ir/workload.h"

namespace tenon::search {

// What bounds a kernel, in microseconds; the sum of launch and the largest is its time.
struct KernelCost {
  double memory_us = 0;   // first touch of inputs and outputs, at the rate that this many
                          // bytes in flight sustain
  double cache_us = 0;    // tiles read again, at the L2's rate
  double compute_us = 0;  // the busiest multiprocessor's products, copies and barriers
  double serial_us = 0;   // what overlaps with none of these: fill, prologue, merge, epilogue
  double launch_us = 0;
  double overlap = 0.36;  // part of what does not bound the kernel that shows all the same
  double total_us() const;
};

// `schedule` must be legal for the kernel.
KernelCost kernel_cost(const ir::KernelView& kernel, const ir::KernelSchedule& schedule,
                       const ir::Workload& workload, const ir::Target& target);

// Microseconds of a cold read of `bytes` by a whole device: a start-up and a rate.
double cold_read_us(double bytes, const ir::Target& target);

}  // namespace tenon::search
