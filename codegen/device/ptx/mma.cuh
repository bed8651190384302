// Tensor-core products on registers: mma.sync m16n8k16, float32 accumulation (PTX ISA 9.7.14).
//
// Fragments, with g = lane / 4 and t = lane % 4, one register holding two neighbours along k:
//   A (16×16): a[0] row g,   k 2t;   a[1] row g+8, k 2t;   a[2] row g,   k 2t+8; a[3] row g+8, k
//   2t+8 B (16×8):  b0   column g, k 2t;  b1   column g, k 2t+8 D (16×8):  d[0] (g, 2t), d[1] (g,
//   2t+1), d[2] (g+8, 2t), d[3] (g+8, 2t+1)
#pragma once

namespace tenon::device {

__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4],
                                                  unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma_m16n8k16_fp16(float (&d)[4], const unsigned (&a)[4],
                                                  unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace tenon::device
