// L2 eviction policies as operands of loads and copies (createpolicy, sm_80 and later).
//
// A policy that names the default (evict_normal) costs time against an instruction without
// a policy operand, so callers choose the instruction, not only the policy.
#pragma once

namespace tenon::device {

// For data read once: it leaves the cache first.
__device__ __forceinline__ unsigned long long policy_evict_first() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
  return policy;
}

// For data that other blocks or the next kernel will read.
__device__ __forceinline__ unsigned long long policy_evict_last() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy));
  return policy;
}

// 16 bytes of data that this block alone reads, once: no line in L1.
__device__ __forceinline__ uint4 load_16_streaming(const void* global, unsigned long long policy) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0,%1,%2,%3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(global), "l"(policy));
  return v;
}

__device__ __forceinline__ uint4 load_16_streaming(const void* global) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(global));
  return v;
}

// 16 bytes through L2 only: the right load for what a kernel that may still run has written.
__device__ __forceinline__ uint4 load_16_l2(const void* global) {
  uint4 v;
  asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(global)
               : "memory");
  return v;
}

__device__ __forceinline__ unsigned short load_2_l2(const void* global) {
  unsigned short v;
  asm volatile("ld.global.cg.u16 %0, [%1];" : "=h"(v) : "l"(global) : "memory");
  return v;
}

}  // namespace tenon::device
