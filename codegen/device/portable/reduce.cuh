// Sums over groups of threads in a fixed order, so that results repeat bit by bit.
#pragma once

namespace tenon::device::portable {

// Calls f(Int<0>), f(Int<1>), … f(Int<kCount - 1>).
template <int kValue>
struct Int {
  static constexpr int value = kValue;
};
template <int kCount, int kFirst = 0, class F>
__device__ __forceinline__ void static_for(F&& f) {
  if constexpr (kFirst < kCount) {
    f(Int<kFirst>{});
    static_for<kCount, kFirst + 1>(f);
  }
}

// Sums v over each aligned group of kLanes lanes (a power of two up to 32); all lanes of the
// warp take part and get the result.
template <int kLanes>
__device__ __forceinline__ float lanes_sum(float v) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2)
    v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}

// Sums each of s over the kThreads threads of the block through `scratch`
// (kThreads / 32 × kCount floats); every thread gets the results.
template <int kThreads, int kCount>
__device__ __forceinline__ void block_sum(float (&s)[kCount], float* scratch) {
  constexpr int kWarps = kThreads / 32;
  __syncthreads();  // the scratch may still be read from an earlier call
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    s[i] = lanes_sum<32>(s[i]);
    if (threadIdx.x % 32 == 0) scratch[i * kWarps + threadIdx.x / 32] = s[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    s[i] = 0.f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) s[i] += scratch[i * kWarps + w];
  }
}

}  // namespace tenon::device::portable
