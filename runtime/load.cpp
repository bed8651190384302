#include "runtime/load.h"

#include "ir/error.h"
#include "ir/plan.h"
#include "ir/weights.h"
#include "runtime/residence.h"

namespace tenon::runtime {

std::string copies_weights(const cache::Stored& stored) {
  try {
    const ir::HeldWeights held = ir::held_weights(ir::parse_plan(stored.plan.text));
    if (held.copies.empty()) return "";
    return "it keeps a copy of the weights (" + held.copies.front() + ")";
  } catch (const UserError& e) {
    return std::string("what it keeps of the weights cannot be read: ") + e.what();
  }
}

std::string plan_damage(const cache::Stored& stored) {
  try {
    const ir::LaunchPlan plan = ir::parse_plan(stored.plan.text);
    if (plan.modules.size() == stored.kernels.size()) return "";
    return "some of its kernels are missing";
  } catch (const UserError& e) {
    return std::string("it cannot be read: ") + e.what();
  }
}

std::string needs_device(const cache::Stored& stored) {
  if (!needs_residence(stored.schedule.text)) return "";
  return "it needs the device to itself: bind exclusively to use it";
}

std::int64_t dynamic_extent(const ir::Workload& workload) {
  for (std::size_t d = 0; d < workload.extents.size(); ++d)
    if (workload.program.signature.dims[d] == "m") return workload.extents[d];
  return 1;
}

cache::Query make_query(const ir::Workload& workload, const DeviceInfo& device,
                        bool dependent_launch) {
  cache::Query query;
  query.workload_key = ir::key(workload);
  query.program_text = ir::print(workload.program);
  query.m = dynamic_extent(workload);
  query.device_class = device.device_class;
  query.device_name = device.name;
  query.dependent_launch = dependent_launch;
  query.include_estimated = !device.executes;
  query.damage = plan_damage;
  if (workload.keep_weights) query.refuse = copies_weights;
  return query;
}

std::unique_ptr<Executable> load(const cache::Stored& stored, Device& device) {
  ir::LaunchPlan plan = ir::parse_plan(stored.plan.text);
  if (plan.modules.size() != stored.kernels.size())
    throw UserError("plan " + std::to_string(stored.plan.id), "without some of its kernels",
                    "a plan whose kernels are all stored");
  std::vector<std::string> cubins;
  for (const cache::KernelRow& kernel : stored.kernels) cubins.push_back(kernel.cubin);
  return device.load(plan, cubins);
}

}  // namespace tenon::runtime
