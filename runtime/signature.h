// A program's signature for other languages.
#pragma once

#include <string>

#include "ir/program.h"

namespace tenon::runtime {

// JSON as runtime/tenon.h (tenon_program_signature) describes it.
std::string describe_signature(const ir::Program& program);

}  // namespace tenon::runtime
