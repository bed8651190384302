#include "runtime/load.h"

#include "ir/error.h"
#include "ir/plan.h"

namespace tenon::runtime {

std::int64_t dynamic_extent(const ir::Workload& workload) {
  for (std::size_t d = 0; d < workload.extents.size(); ++d)
    if (workload.program.signature.dims[d] == "m") return workload.extents[d];
  return 1;
}

cache::Query make_query(const ir::Workload& workload, const DeviceInfo& device,
                        bool dependent_launch) {
  cache::Query query;
  query.workload_key = ir::key(workload);
  query.m = dynamic_extent(workload);
  query.device_class = device.device_class;
  query.device_name = device.name;
  query.dependent_launch = dependent_launch;
  query.include_estimated = !device.executes;
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
