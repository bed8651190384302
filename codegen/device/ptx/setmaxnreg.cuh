// Moves registers between the warpgroups of a block (PTX ISA, "setmaxnreg").
//
// A count is a multiple of 8 from 24 to 256. All warps of a warpgroup must execute the same one,
// and the kernel must have been compiled for a fixed register count (__launch_bounds__(n, 1)).
#pragma once

namespace tenon::device {

template <int kRegisters>
__device__ __forceinline__ void registers_give_up() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace tenon::device
