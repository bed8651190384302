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

// The 16 bytes that begin `offset` (0, 2, .. 14) bytes behind the first of two words.
__device__ __forceinline__ uint4 shift_words(const uint4& low, const uint4& high, unsigned offset) {
  unsigned w[6] = {low.x, low.y, low.z, low.w, high.x, high.y};
  if (offset & 8) {
    w[0] = w[2], w[1] = w[3], w[2] = w[4], w[3] = w[5], w[4] = high.z, w[5] = high.w;
  }
  if (offset & 4) {
    w[0] = w[1], w[1] = w[2], w[2] = w[3], w[3] = w[4], w[4] = w[5];
  }
  const unsigned bits = (offset & 2) * 8;
  return make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
                    __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
}

// Zeros after the first `count` of 8 elements (none if negative, all if more).
__device__ __forceinline__ void keep_first(uint4& v, int count) {
  unsigned w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (2 * j >= count) w[j] = 0;
    if (2 * j + 1 == count) w[j] &= 0xffffu;
  }
  v = make_uint4(w[0], w[1], w[2], w[3]);
}

// `count` elements (1 to 8, or more for 8) from the two aligned 16-byte words that hold them,
// zeros after them. Where those words would leave [begin, end), one by one.
__device__ __forceinline__ uint4 load_shifted(const char* source, int count, const char* begin,
                                              const char* end) {
  const unsigned offset = static_cast<unsigned>(reinterpret_cast<unsigned long long>(source)) & 15;
  const char* words = source - offset;
  if (words < begin || words + 32 > end) return load_elements(source, count);
  uint4 v = shift_words(load_16_l2(words), load_16_l2(words + 16), offset);
  keep_first(v, count);
  return v;
}

}  // namespace tenon::device
