// Monte-Carlo tree search over µGraph, family and the parameters that shape a kernel.
#pragma once

#include <memory>

#include "search/strategy.h"

namespace tenon::search {

std::unique_ptr<Strategy> make_tree_strategy(ScheduleSpace space);

}  // namespace tenon::search
