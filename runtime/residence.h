// Plans whose kernels wait for each other across blocks, so that all blocks of a launch must be
// resident at once: two such launches that overlap can wait for each other forever.
#pragma once

#include <string>

namespace tenon::runtime {

// `schedule` is a plan's schedule in the text form; one that cannot be read counts as needing
// residence.
bool needs_residence(const std::string& schedule);

}  // namespace tenon::runtime
