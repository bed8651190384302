#include "runtime/utf8.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

namespace tenon::runtime {

namespace {

// The length of the sequence at `at`, 0 where there is none (RFC 3629: shortest form, no
// surrogates, at most U+10FFFF).
std::size_t sequence(const std::string& text, std::size_t at) {
  auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  std::uint32_t point = first & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
    point = point << 6 | (byte(at + i) & 0x3f);
  }
  const std::uint32_t least = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
  const bool surrogate = point >= 0xd800 && point < 0xe000;
  return point < least || point > 0x10ffff || surrogate ? 0 : length;
}

}  // namespace

std::string utf8(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = sequence(text, at);
    const bool control = byte < 0x20 || byte == 0x7f;
    if (length == 0 || control) {
      out += fmt::format("\\x{:02x}", byte);
      ++at;
    } else {
      out.append(text, at, length);
      at += length;
    }
  }
  return out;
}

}  // namespace tenon::runtime
