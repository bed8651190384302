// What compiled kernels use.
#pragma once

#include <string>
#include <vector>

#include "codegen/codegen.h"

namespace tenon::codegen {

// One entry for each kernel of a cubin (an ELF file with .nv.info sections), with registers,
// static shared memory and stack; spills from ptxas's report in `log`, where it has one. Throws
// InternalError when the bytes are no cubin.
std::vector<KernelResources> resources_of(const std::string& cubin, const std::string& log);

}  // namespace tenon::codegen
