#include "runtime/plan_check.h"

#include <fmt/format.h>

#include "ir/error.h"

namespace tenon::runtime {

void check_inputs(const ir::LaunchPlan& plan, const std::vector<const void*>& inputs) {
  if (inputs.size() != static_cast<std::size_t>(plan.input_count))
    throw UserError("number of inputs", std::to_string(inputs.size()),
                    fmt::format("{}, the inputs of {}", plan.input_count, plan.program));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (plan.buffers[i].role == ir::BufferRole::kParameter && inputs[i] == nullptr)
      throw UserError("parameter " + plan.buffers[i].name, "null", "an address on the device");
}

void check_launch(const ir::LaunchPlan& plan, std::int64_t m, bool bound) {
  if (!bound)
    throw UserError("the weights of " + plan.program +
                    " are not bound; call prepare before launch");
  if (m == 0) return;
  std::int64_t low = plan.m_min, high = plan.m_max;
  if (plan.dynamic_dim < 0) return;
  if (m < low || m > high)
    throw UserError(plan.dims[static_cast<std::size_t>(plan.dynamic_dim)], std::to_string(m),
                    fmt::format("{} to {}, the interval of this plan", low, high));
}

}  // namespace tenon::runtime
