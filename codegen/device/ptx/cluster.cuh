// Thread-block clusters (sm_90): ranks, addresses in a peer's shared memory, the cluster barrier.
// Stores into a peer are in ptx/store_async.cuh, arrivals on its mbarriers in ptx/mbarrier.cuh.
#pragma once

namespace tenon::device {

__device__ __forceinline__ unsigned cluster_rank() {
  unsigned r;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}

// The address in block `rank`'s shared memory that corresponds to our own `shared_address`.
__device__ __forceinline__ unsigned cluster_map(unsigned shared_address, unsigned rank) {
  unsigned r;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(shared_address), "r"(rank));
  return r;
}

// Arrives without ordering memory: for barriers made visible by mbarrier_init's own fence.
// A releasing arrive would wait for every load in flight.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace tenon::device
