// st.async: stores into the shared memory of another block of the cluster that count their bytes
// on an mbarrier there (sm_90). Both addresses come from cluster_map with one rank. The receiver
// outlives the store because it waits for it; the sender need not.
#pragma once

namespace tenon::device {

__device__ __forceinline__ void store_async_16(unsigned remote, float4 v, unsigned remote_barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(remote),
      "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(remote_barrier)
      : "memory");
}

__device__ __forceinline__ void store_async_4(unsigned remote, float v, unsigned remote_barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(remote),
      "f"(v), "r"(remote_barrier)
      : "memory");
}

}  // namespace tenon::device
