// mbarrier: a shared-memory barrier that counts arrivals and bytes still in flight.
//
// PTX ISA, "Parallel Synchronization: mbarrier". Barriers are named by their 32-bit shared
// address. What one warp or block needs of them is there from sm_80 on, the rest from sm_90. A
// waiter names a phase by its parity, so it must never be two phases away from the barrier it waits
// for: parities alias.
#pragma once

namespace tenon::device {

// The 32-bit address that shared-memory instructions take.
__device__ __forceinline__ unsigned to_shared(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialized barriers visible to the cluster and to the copy engine; a barrier among the
// threads that use them must follow.
__device__ __forceinline__ void mbarrier_init_fence() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

__device__ __forceinline__ void mbarrier_arrive(unsigned barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
#else
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier)
               : "memory");
#endif
}

// How often a warp arrives at a barrier for all of its lanes: what such a barrier is initialized
// with, a warp. One lane's arrival is enough, since __syncwarp orders what the others did before
// it; but compute-sanitizer's racecheck follows the arriving lane alone, and for that tool every
// lane arrives (TENON_RACECHECK, defined by tests/measure/gpu/gpu.cpp alone).
#ifdef TENON_RACECHECK
constexpr unsigned kWarpArrivals = 32;
#else
constexpr unsigned kWarpArrivals = 1;
#endif

// By a whole warp, whose lanes have all read or written what the barrier guards.
__device__ __forceinline__ void mbarrier_arrive_warp(unsigned barrier, int lane) {
  __syncwarp();
  if (kWarpArrivals > 1 || lane == 0) mbarrier_arrive(barrier);
}

// One arrival which also announces `bytes` that asynchronous copies will complete.
__device__ __forceinline__ void mbarrier_arrive_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// One arrival at a barrier of another block of the cluster; `barrier` comes from cluster_map
// (ptx/cluster.cuh). It says that reads are over and publishes no writes: a releasing arrival
// would cost a fence each time.
__device__ __forceinline__ void mbarrier_arrive_cluster(unsigned barrier) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}

__device__ __forceinline__ bool mbarrier_try_wait(unsigned barrier, unsigned parity) {
  unsigned done;
  asm volatile(
      "{\n.reg .pred p;\n"
#if __CUDA_ARCH__ >= 900
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
#else
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
#endif
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// The same with cluster scope: what other blocks of the cluster wrote before they arrived, or
// with the bytes they completed, is visible afterwards.
__device__ __forceinline__ bool mbarrier_try_wait_cluster(unsigned barrier, unsigned parity) {
  unsigned done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

__device__ __forceinline__ void mbarrier_wait(unsigned barrier, unsigned parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

__device__ __forceinline__ void mbarrier_wait_cluster(unsigned barrier, unsigned parity) {
  while (!mbarrier_try_wait_cluster(barrier, parity)) {
  }
}

}  // namespace tenon::device
