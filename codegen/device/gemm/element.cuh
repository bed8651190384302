// The 16-bit element types of activations, weights and outputs. Arithmetic is in float.
#pragma once

#include "device/ptx/wgmma.cuh"

namespace tenon::device::gemm {

struct Bf16 {
  unsigned short bits;
};

struct Fp16 {
  unsigned short bits;
};

// kWgmma: the operand type of the tensor core. unpack: the two elements of a word, the lower
// address first. pack: the same, rounding to nearest even.
template <class T>
struct Element;

template <>
struct Element<Bf16> {
  static constexpr WgmmaType kWgmma = WgmmaType::kBf16;

  static __device__ __forceinline__ void unpack(unsigned word, float& low, float& high) {
    low = __uint_as_float(word << 16);
    high = __uint_as_float(word & 0xffff0000u);
  }
  static __device__ __forceinline__ unsigned pack(float low, float high) {
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
  }
};

template <>
struct Element<Fp16> {
  static constexpr WgmmaType kWgmma = WgmmaType::kFp16;

  static __device__ __forceinline__ void unpack(unsigned word, float& low, float& high) {
    asm("{\n.reg .b16 l, h;\n"
        "mov.b32 {l, h}, %2;\n"
        "cvt.f32.f16 %0, l;\n"
        "cvt.f32.f16 %1, h;\n}"
        : "=f"(low), "=f"(high)
        : "r"(word));
  }
  static __device__ __forceinline__ unsigned pack(float low, float high) {
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
  }
};

}  // namespace tenon::device::gemm
