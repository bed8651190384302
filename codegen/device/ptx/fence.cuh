// Fences and flags: between the memory proxies, and between blocks through global memory.
#pragma once

namespace tenon::device {

// Ordinary writes to shared memory become visible to the copy engine and the tensor cores
// once a barrier has followed.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Between writes and the flag that publishes them, and between the flag and the reads.
__device__ __forceinline__ void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

__device__ __forceinline__ void flag_add(unsigned* flag, unsigned value) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

// Relaxed, since a waiter polls: an acquiring load would invalidate the first-level cache each
// time.
__device__ __forceinline__ unsigned flag_load(const unsigned* flag) {
  unsigned value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

// Adds one and returns what was there before: both a release and an acquire.
__device__ __forceinline__ unsigned counter_increment(unsigned* counter) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}

// Past the first-level cache, which other blocks' writes do not reach.
__device__ __forceinline__ float load_float_l2(const float* address) {
  float value;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(value) : "l"(address) : "memory");
  return value;
}

// A word that others poll while it is written.
__device__ __forceinline__ void store_float_relaxed(float* address, float value) {
  asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}

__device__ __forceinline__ float load_float_relaxed(const float* address) {
  float value;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(value) : "l"(address) : "memory");
  return value;
}

}  // namespace tenon::device
