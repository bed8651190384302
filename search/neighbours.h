// Schedules that differ from a given one in one parameter.
#pragma once

#include <vector>

#include "ir/family.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "ir/workload.h"

namespace tenon::search {

// The legal schedules of one kernel that a tuner with `schedule` in hand would try next: one
// parameter moved to a value near it, or to the other choice; where parameters are bound to each
// other (warps × columns cover k; a ring is as deep as shared memory allows) the bound ones follow.
// `space` are the kernel's enumerated schedules (ir::enumerate_schedules) of the same family; a
// parameter that `space` never varies takes the values worth trying that are known for its family.
// Deterministic, without duplicates, without `schedule` itself.
std::vector<ir::KernelSchedule> neighbours(const ir::KernelView& kernel,
                                           const ir::KernelSchedule& schedule,
                                           const std::vector<ir::KernelSchedule>& space,
                                           const ir::Workload& workload, const ir::Target& target);

}  // namespace tenon::search
