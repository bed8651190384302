#include "runtime/residence.h"

#include "ir/error.h"
#include "ir/hopper_family.h"
#include "ir/schedule.h"

namespace tenon::runtime {

bool needs_residence(const std::string& schedule) {
  try {
    for (const ir::KernelSchedule& kernel : ir::parse_schedule(schedule).kernels) {
      if (kernel.family != "gemm") continue;
      // Row sums that one block takes and others read (codegen/device/gemm/statistics.cuh).
      if (ir::gemm_params(kernel).exchanges_sums()) return true;
    }
    return false;
  } catch (const UserError&) {
    return true;
  }
}

}  // namespace tenon::runtime
