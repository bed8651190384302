// SHA-256 (FIPS 180-4), for identities and checksums.
#pragma once

#include <string>
#include <string_view>

namespace tenon::ir {

// Lower-case hex digest of `bytes`.
std::string sha256_hex(std::string_view bytes);

}  // namespace tenon::ir
