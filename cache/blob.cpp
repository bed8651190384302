#include "cache/blob.h"

#include <bit>
#include <cstdint>

namespace tenon::cache {

std::string encode_samples(const std::vector<double>& samples) {
  std::string bytes;
  bytes.reserve(samples.size() * 8);
  for (double sample : samples) {
    auto bits = std::bit_cast<std::uint64_t>(sample);
    for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<char>(bits >> shift));
  }
  return bytes;
}

std::vector<double> decode_samples(std::string_view bytes) {
  std::vector<double> samples;
  samples.reserve(bytes.size() / 8);
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      bits |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
    }
    samples.push_back(std::bit_cast<double>(bits));
  }
  return samples;
}

}  // namespace tenon::cache
