// The thread level: kernels that differ only in how the pointwise values between loads, reductions
// and stores are spelled. Rule "thread".
#pragma once

#include <vector>

#include "search/kernel_form.h"

namespace tenon::search {

// Leaves of each such set of kernels the one with the least work, on a tie the program's own
// spelling.
void merge_spellings(const Space& space, std::vector<KernelForm>& forms, PruneCounts& pruned);

}  // namespace tenon::search
