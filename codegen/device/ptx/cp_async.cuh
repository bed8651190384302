// cp.async: 16 bytes from global to shared memory, asynchronously, past L1 (sm_80 and later).
#pragma once

namespace tenon::device {

__device__ __forceinline__ void cp_async_16(unsigned shared_address, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address), "l"(global)
               : "memory");
}

// Hides from the compiler that an address is partly the same in every lane, at the price of a
// shuffle. ptxas 13.0 otherwise may split a destination into lane and uniform parts and then
// encodes cp.async with a policy as an illegal instruction (LDGSTS [R+UR], desc[odd UR]).
__device__ __forceinline__ unsigned opaque_address(unsigned shared_address) {
  return __shfl_sync(0xffffffffu, shared_address, static_cast<int>(threadIdx.x % 32));
}

// With an L2 policy (ptx/cache_hint.cuh). The destination is opaque_address plus constants.
__device__ __forceinline__ void cp_async_16(unsigned shared_address, const void* global,
                                            unsigned long long policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(shared_address),
               "l"(global), "l"(policy)
               : "memory");
}

// Copies `bytes` (0 to 16) and fills the rest of the 16 with zeros; global is not read for 0.
__device__ __forceinline__ void cp_async_16_zfill(unsigned shared_address, const void* global,
                                                  int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address), "l"(global),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most `kPending` of this thread's groups are in flight.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace tenon::device
