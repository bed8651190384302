// Facts about this machine.
#pragma once

#include <cstddef>
#include <string>

namespace tenon::runtime::host {

std::string processor_model();  // "AMD EPYC 9654 96-Core Processor"; "unknown processor" where the
                                // system does not say
std::size_t last_level_cache_bytes();  // of one processor; 32 MiB where the system does not say
std::size_t physical_memory_bytes();

}  // namespace tenon::runtime::host
