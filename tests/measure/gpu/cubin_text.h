// The machine code in a cubin.
#pragma once

#include <string>

namespace tenon::test {

// The contents of its sections .text.*, in the file's order: what differs in debug names, in
// notes or in the order of symbols alone has the same. Throws std::runtime_error where the cubin
// is no 64-bit little-endian ELF file or has no such section.
std::string cubin_text(const std::string& cubin);

}  // namespace tenon::test
