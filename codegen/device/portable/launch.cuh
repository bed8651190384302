// Programmatic dependent launch: what a kernel does first. A plain launch passes through.
#pragma once

namespace tenon::device::portable {

template <bool kDependent>
__device__ __forceinline__ void await_predecessor() {
#if __CUDA_ARCH__ >= 900
  if constexpr (kDependent) {
    // Every block waits before it touches memory, so the successor may be launched at once:
    // its own wait orders it after this grid.
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
  }
#else
  static_assert(!kDependent, "dependent launch needs sm_90");
#endif
}

}  // namespace tenon::device::portable
