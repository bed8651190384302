// Loads and stores of shared memory by 32-bit address, in program order with other assembly.
#pragma once

namespace tenon::device {

__device__ __forceinline__ uint4 load_shared_16(unsigned address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

__device__ __forceinline__ float4 load_shared_float4(unsigned address) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

__device__ __forceinline__ float load_shared_float(unsigned address) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
  return v;
}

// A counter that others read without synchronizing: a hint, not a barrier. For racecheck (see
// ptx/mbarrier.cuh) both are atomic operations, among which there is no race by definition.
__device__ __forceinline__ void store_shared_counter(unsigned address, int value) {
#ifdef TENON_RACECHECK
  asm volatile("{\n.reg .s32 old;\natom.shared.exch.b32 old, [%0], %1;\n}" ::"r"(address),
               "r"(value)
               : "memory");
#else
  asm volatile("st.volatile.shared.s32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
#endif
}

__device__ __forceinline__ int load_shared_counter(unsigned address) {
  int value;
#ifdef TENON_RACECHECK
  asm volatile("atom.shared.or.b32 %0, [%1], 0;" : "=r"(value) : "r"(address) : "memory");
#else
  asm volatile("ld.volatile.shared.s32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
#endif
  return value;
}

}  // namespace tenon::device
