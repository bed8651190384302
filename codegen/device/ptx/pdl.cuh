// Programmatic dependent launch (griddepcontrol, sm_90; before, every launch is plain and there is
// nothing to do). NVRTC has no intrinsics for it.
#pragma once

namespace tenon::device {

// Until the grids this one depends on have ended and their writes are visible. Returns at
// once in a plain launch.
__device__ __forceinline__ void dependency_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next grid start once every block of this one has called it or ended.
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace tenon::device
