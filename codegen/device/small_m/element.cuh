// The 16-bit element types: what the family needs to know of each.
#pragma once

#include "device/ptx/mma.cuh"

namespace tenon::device::small_m {

struct Bf16 {
  unsigned short bits;
};
struct Fp16 {
  unsigned short bits;
};

template <class T>
struct Element;

template <>
struct Element<Bf16> {
  __device__ __forceinline__ static float low(unsigned pair) { return __uint_as_float(pair << 16); }
  __device__ __forceinline__ static float high(unsigned pair) {
    return __uint_as_float(pair & 0xffff0000u);
  }
  // Round to nearest even; `low` is the element at the lower address.
  __device__ __forceinline__ static unsigned pack(float low, float high) {
    unsigned r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
  __device__ __forceinline__ static void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
    mma_m16n8k16_bf16(d, a, b0, b1);
  }
};

template <>
struct Element<Fp16> {
  __device__ __forceinline__ static float low(unsigned pair) {
    float r;
    asm("{.reg .b16 lo, hi; mov.b32 {lo, hi}, %1; cvt.f32.f16 %0, lo;}" : "=f"(r) : "r"(pair));
    return r;
  }
  __device__ __forceinline__ static float high(unsigned pair) {
    float r;
    asm("{.reg .b16 lo, hi; mov.b32 {lo, hi}, %1; cvt.f32.f16 %0, hi;}" : "=f"(r) : "r"(pair));
    return r;
  }
  __device__ __forceinline__ static unsigned pack(float low, float high) {
    unsigned r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
  __device__ __forceinline__ static void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
    mma_m16n8k16_fp16(d, a, b0, b1);
  }
};

}  // namespace tenon::device::small_m
