// Element types of tensors. Arithmetic is in float; NVRTC compiles this without CUDA's own
// headers, which would cost more than the kernel itself.
#pragma once

namespace tenon::device::portable {

struct Bf16 {
  unsigned short bits;
};
struct Fp16 {
  unsigned short bits;
};

// to_float, from_float (nearest even), and two neighbours in a word, the lower address first.
template <class T>
struct Element;

template <>
struct Element<Bf16> {
  static __device__ __forceinline__ float to_float(Bf16 v) {
    return __uint_as_float(static_cast<unsigned>(v.bits) << 16);
  }
  static __device__ __forceinline__ Bf16 from_float(float v) {
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
    return {bits};
  }
  static __device__ __forceinline__ unsigned pack(float low, float high) {
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
  }
  static __device__ __forceinline__ float low(unsigned word) { return __uint_as_float(word << 16); }
  static __device__ __forceinline__ float high(unsigned word) {
    return __uint_as_float(word & 0xffff0000u);
  }
};

template <>
struct Element<Fp16> {
  static __device__ __forceinline__ float to_float(Fp16 v) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
    return f;
  }
  static __device__ __forceinline__ Fp16 from_float(float v) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
    return {bits};
  }
  static __device__ __forceinline__ unsigned pack(float low, float high) {
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
  }
  static __device__ __forceinline__ float low(unsigned word) {
    return to_float({static_cast<unsigned short>(word & 0xffffu)});
  }
  static __device__ __forceinline__ float high(unsigned word) {
    return to_float({static_cast<unsigned short>(word >> 16)});
  }
};

template <>
struct Element<float> {
  static __device__ __forceinline__ float to_float(float v) { return v; }
  static __device__ __forceinline__ float from_float(float v) { return v; }
};

template <class T>
__device__ __forceinline__ float to_float(T v) {
  return Element<T>::to_float(v);
}

// The nearest value of T.
template <class T>
__device__ __forceinline__ float round_to(float v) {
  return Element<T>::to_float(Element<T>::from_float(v));
}

// Whether p lies on a multiple of `bytes`, a power of two.
__device__ __forceinline__ bool aligned(const void* p, unsigned bytes) {
  return (reinterpret_cast<unsigned long long>(p) & (bytes - 1)) == 0;
}

}  // namespace tenon::device::portable
