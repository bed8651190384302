// Schedules of a µGraph on a target, and the model that ranks them before compiling.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/family.h"
#include "ir/mugraph.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "ir/workload.h"

namespace tenon::search {

struct RankedSchedule {
  ir::Schedule schedule;
  double estimated_us = 0;
};

// Legal schedules (ir/family.h) of `graph`, cheapest estimate first, at most `limit`: of the cheap
// ones those that differ in shape (tiles, splits, families), before those that differ in details
// (stages, hints) only. With limit 0 every one, up to kMaxSchedules. Deterministic. Empty when some
// kernel has no family on the target; `why_empty` then says which kernel and why. Launches are
// plain; on sm_90 and later any of them may be made a dependent one (Schedule::dependent_launch).
inline constexpr std::size_t kMaxSchedules = 100000;
std::vector<RankedSchedule> schedules(const ir::MuGraph& graph, const ir::Workload& workload,
                                      const ir::Target& target, std::size_t limit,
                                      std::string* why_empty = nullptr);

// Does the kernel hold a product, or can it not be said? Beside one that does, others weigh little.
bool has_product(const ir::KernelView& kernel);
// What tells schedules of one µGraph apart at a glance: families, and of the kernels that weigh the
// parameters that shape them (tiles, splits, clusters), not those of detail (stages, hints).
std::string schedule_outline(const ir::Schedule& schedule, const std::vector<bool>& weighs);

// Microseconds the model predicts: per kernel the largest of bytes over bandwidth, product
// time over the pipe's rate, with waves, occupancy and latency terms; plus launches.
double estimate_us(const ir::MuGraph& graph, const ir::Schedule& schedule,
                   const ir::Workload& workload, const ir::Target& target);

}  // namespace tenon::search
