// Between the memory proxies, and between blocks through global memory.
#pragma once

namespace tenon::device {

// Ordinary writes to shared memory become visible to the copy engine and the tensor cores
// once a barrier has followed.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Adds one and returns what was there before; orders nothing else.
__device__ __forceinline__ unsigned counter_increment(unsigned* counter) {
  unsigned before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}

__device__ __forceinline__ unsigned load_word_relaxed(const unsigned* address) {
  unsigned value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

// A value with a tag beside it, in 8 bytes that are written and read as one: who finds the tag has
// the value, and no fence is needed between them. (A fence of the whole device waits for all loads
// of its multiprocessor that are under way, also the copy engine's.)
__device__ __forceinline__ void store_tagged(unsigned long long* address, float value,
                                             unsigned tag) {
  const unsigned long long word =
      static_cast<unsigned long long>(tag) << 32 | __float_as_uint(value);
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(word) : "memory");
}

struct Tagged {
  float value;
  unsigned tag;
};

__device__ __forceinline__ Tagged load_tagged(const unsigned long long* address) {
  unsigned long long word;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(address) : "memory");
  return {__uint_as_float(static_cast<unsigned>(word)), static_cast<unsigned>(word >> 32)};
}

}  // namespace tenon::device
