// stmatrix: 8×8 tiles of 16-bit elements from matrix fragments to shared memory (sm_90).
// Lane i passes the shared address of row i % 8 of tile i / 8, aligned to 16 bytes; register j
// of lane i holds row i / 4, columns 2 (i % 4) and the next, of tile j.
#pragma once

namespace tenon::device {

__device__ __forceinline__ void stmatrix_x4(unsigned shared_address, unsigned a, unsigned b,
                                            unsigned c, unsigned d) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address),
      "r"(a), "r"(b), "r"(c), "r"(d)
      : "memory");
}

// Lanes 16 to 31 pass any valid address.
__device__ __forceinline__ void stmatrix_x2(unsigned shared_address, unsigned a, unsigned b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(shared_address),
               "r"(a), "r"(b)
               : "memory");
}

}  // namespace tenon::device
