// Samples as they are stored: IEEE doubles, little-endian, one after another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenon::cache {

std::string encode_samples(const std::vector<double>& samples);
// Bytes after the last whole double are dropped.
std::vector<double> decode_samples(std::string_view bytes);

}  // namespace tenon::cache
