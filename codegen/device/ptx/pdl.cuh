// Programmatic dependent launch (griddepcontrol, sm_90). NVRTC has no intrinsics for it.
#pragma once

namespace tenon::device {

// Until the grids this one depends on have ended and their writes are visible. Returns at
// once in a plain launch.
__device__ __forceinline__ void dependency_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// Lets the next grid start once every block of this one has called it or ended.
__device__ __forceinline__ void launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace tenon::device
