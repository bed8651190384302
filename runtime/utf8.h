// Text for callers who decode it as UTF-8.
#pragma once

#include <string>

namespace tenon::runtime {

// `text` with every byte that is not part of a UTF-8 sequence, and every control character, written
// as \xNN: messages quote what callers passed, which may be anything.
std::string utf8(const std::string& text);

}  // namespace tenon::runtime
