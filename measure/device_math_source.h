// CUDA text of the kernels of device_math (inner header of measure/).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/workload.h"

namespace tenon::measure {

// One kernel that computes one value of the program from others.
struct MathKernel {
  std::string entry;          // "f64_v7", "f32_v7" …
  std::vector<int> operands;  // values it reads
  std::int64_t count = 0;     // elements of the result
  std::int64_t blocks = 0;
  int threads = 256;
};

struct MathSource {
  std::string text;
  // By value id (inputs first): the kernels that make it, in float64 and in float32.
  std::vector<MathKernel> exact, rounded;
  std::vector<std::int64_t> counts;  // elements by value
};

// The program's kernels, and the comparisons that do not depend on it. Nothing when an operator
// has no text here; `why` names it.
std::optional<MathSource> write_math(const ir::Workload& workload, std::string* why);

}  // namespace tenon::measure
