// 16 bytes of 2-byte elements from any address.
#pragma once

#include "device/ptx/cache_hint.cuh"

namespace tenon::device {

// `count` (1 to 8, or more for 8) elements one by one, zeros after them.
__device__ __forceinline__ uint4 load_elements(const char* source, int count) {
  unsigned v[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const unsigned low = 2 * j < count ? load_2_l2(source + 4 * j) : 0;
    const unsigned high = 2 * j + 1 < count ? load_2_l2(source + 4 * j + 2) : 0;
    v[j] = low | high << 16;
  }
  return make_uint4(v[0], v[1], v[2], v[3]);
}

// The same from the two aligned 16-byte words that hold the elements, shifted. Where those words
// would leave [begin, end), one by one.
__device__ __forceinline__ uint4 load_shifted(const char* source, int count, const char* begin,
                                              const char* end) {
  const unsigned offset = static_cast<unsigned>(reinterpret_cast<unsigned long long>(source)) & 15;
  const char* words = source - offset;
  if (words < begin || words + 32 > end) return load_elements(source, count);
  const uint4 low = load_16_l2(words), high = load_16_l2(words + 16);
  unsigned w[6] = {low.x, low.y, low.z, low.w, high.x, high.y};
  if (offset & 8) {
    w[0] = w[2], w[1] = w[3], w[2] = w[4], w[3] = w[5], w[4] = high.z, w[5] = high.w;
  }
  if (offset & 4) {
    w[0] = w[1], w[1] = w[2], w[2] = w[3], w[3] = w[4], w[4] = w[5];
  }
  unsigned v[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    v[j] = __funnelshift_r(w[j], w[j + 1], (offset & 2) * 8);
    if (2 * j >= count) v[j] = 0;
    if (2 * j + 1 == count) v[j] &= 0xffffu;
  }
  return make_uint4(v[0], v[1], v[2], v[3]);
}

}  // namespace tenon::device
