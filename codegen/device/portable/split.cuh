// Split reductions: each of several blocks leaves partial states in a workspace, and the one
// that comes last merges them in order of their index, whichever it is. No float is added
// atomically, so results repeat bit by bit.
#pragma once

namespace tenon::device::portable {

// Called by all threads after the block's partial states have been written. True in the block
// that arrives last of `parts`; the counter is zero again afterwards.
__device__ __forceinline__ bool last_to_arrive(unsigned* counter, unsigned parts) {
  __shared__ unsigned arrived;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    arrived = atomicAdd(counter, 1u);
    if (arrived == parts - 1) *counter = 0;
  }
  __syncthreads();
  const bool last = arrived == parts - 1;
  if (last) __threadfence();
  return last;
}

}  // namespace tenon::device::portable
