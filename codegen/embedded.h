// The device library's headers (codegen/device/), embedded at build time by cmake/embed_text.cmake.
#pragma once

#include <cstddef>

namespace tenon::codegen {

struct EmbeddedFile {
  const char* name;  // as included: "device/portable/rows.cuh"
  const char* text;
};

extern const EmbeddedFile kDeviceFiles[];
extern const std::size_t kDeviceFiles_count;

}  // namespace tenon::codegen
