// The machine code in a cubin.
#pragma once

#include <string>
#include <vector>

namespace tenon::test {

// The instructions of the kernels `entries` (of all where there are none), in the file's order:
// cubins that differ in notes or symbols alone have the same. Throws std::runtime_error where the
// cubin is no 64-bit little-endian ELF file or has no such code.
std::string cubin_text(const std::string& cubin, const std::vector<std::string>& entries = {});

}  // namespace tenon::test
