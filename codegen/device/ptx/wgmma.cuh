// wgmma: the warpgroup's product of two tiles in shared memory, accumulated in registers (PTX
// ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate").
//
// Wgmma<Type, N>::multiply(d, a, b, keep): d[64, N] = a[64, 16] · b[N, 16]ᵀ + (keep ? d : 0), both
// operands K-major with the 128-byte swizzle, N a multiple of 8 from 8 to 256. Thread t of the
// warpgroup holds of d the elements
//   d[4 j + 2 h + i] = D(16 (t / 32) + 8 h + (t % 32) / 4, 8 j + 2 (t % 4) + i),
// h, i in {0, 1}, j < N / 8. Accumulators must not be touched between multiply and the wait.
#pragma once

namespace tenon::device {

// Orders earlier register and shared-memory accesses before the next multiply.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most kPending committed groups are still running.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving accesses of an accumulator across this point.
template <int kCount>
__device__ __forceinline__ void wgmma_pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// An operand's descriptor: K-major, 128-byte swizzle, rows of 64 elements (128 bytes), eight rows
// to a 1024-byte atom. `address` is 1024-byte aligned. Only the low word varies, and its low 14
// bits count 16 bytes: adding 2 moves 16 elements along k, adding 512 moves 64 rows.
__device__ __forceinline__ unsigned wgmma_descriptor(unsigned address) {
  return (1u << 16) | ((address & 0x3ffff) >> 4);
}

enum class WgmmaType { kBf16, kFp16 };

template <WgmmaType kType, int N>
struct Wgmma;

// Register lists: TENON_WGMMA_NAMES_<n> names the first n/2 operands in the instruction's text,
// TENON_WGMMA_BIND_<n> binds them to d.
#define TENON_WGMMA_NAMES_8 "%0, %1, %2, %3"
#define TENON_WGMMA_NAMES_16 TENON_WGMMA_NAMES_8 ", %4, %5, %6, %7"
#define TENON_WGMMA_NAMES_24 TENON_WGMMA_NAMES_16 ", %8, %9, %10, %11"
#define TENON_WGMMA_NAMES_32 TENON_WGMMA_NAMES_24 ", %12, %13, %14, %15"
#define TENON_WGMMA_NAMES_40 TENON_WGMMA_NAMES_32 ", %16, %17, %18, %19"
#define TENON_WGMMA_NAMES_48 TENON_WGMMA_NAMES_40 ", %20, %21, %22, %23"
#define TENON_WGMMA_NAMES_56 TENON_WGMMA_NAMES_48 ", %24, %25, %26, %27"
#define TENON_WGMMA_NAMES_64 TENON_WGMMA_NAMES_56 ", %28, %29, %30, %31"
#define TENON_WGMMA_NAMES_72 TENON_WGMMA_NAMES_64 ", %32, %33, %34, %35"
#define TENON_WGMMA_NAMES_80 TENON_WGMMA_NAMES_72 ", %36, %37, %38, %39"
#define TENON_WGMMA_NAMES_88 TENON_WGMMA_NAMES_80 ", %40, %41, %42, %43"
#define TENON_WGMMA_NAMES_96 TENON_WGMMA_NAMES_88 ", %44, %45, %46, %47"
#define TENON_WGMMA_NAMES_104 TENON_WGMMA_NAMES_96 ", %48, %49, %50, %51"
#define TENON_WGMMA_NAMES_112 TENON_WGMMA_NAMES_104 ", %52, %53, %54, %55"
#define TENON_WGMMA_NAMES_120 TENON_WGMMA_NAMES_112 ", %56, %57, %58, %59"
#define TENON_WGMMA_NAMES_128 TENON_WGMMA_NAMES_120 ", %60, %61, %62, %63"
#define TENON_WGMMA_NAMES_136 TENON_WGMMA_NAMES_128 ", %64, %65, %66, %67"
#define TENON_WGMMA_NAMES_144 TENON_WGMMA_NAMES_136 ", %68, %69, %70, %71"
#define TENON_WGMMA_NAMES_152 TENON_WGMMA_NAMES_144 ", %72, %73, %74, %75"
#define TENON_WGMMA_NAMES_160 TENON_WGMMA_NAMES_152 ", %76, %77, %78, %79"
#define TENON_WGMMA_NAMES_168 TENON_WGMMA_NAMES_160 ", %80, %81, %82, %83"
#define TENON_WGMMA_NAMES_176 TENON_WGMMA_NAMES_168 ", %84, %85, %86, %87"
#define TENON_WGMMA_NAMES_184 TENON_WGMMA_NAMES_176 ", %88, %89, %90, %91"
#define TENON_WGMMA_NAMES_192 TENON_WGMMA_NAMES_184 ", %92, %93, %94, %95"
#define TENON_WGMMA_NAMES_200 TENON_WGMMA_NAMES_192 ", %96, %97, %98, %99"
#define TENON_WGMMA_NAMES_208 TENON_WGMMA_NAMES_200 ", %100, %101, %102, %103"
#define TENON_WGMMA_NAMES_216 TENON_WGMMA_NAMES_208 ", %104, %105, %106, %107"
#define TENON_WGMMA_NAMES_224 TENON_WGMMA_NAMES_216 ", %108, %109, %110, %111"
#define TENON_WGMMA_NAMES_232 TENON_WGMMA_NAMES_224 ", %112, %113, %114, %115"
#define TENON_WGMMA_NAMES_240 TENON_WGMMA_NAMES_232 ", %116, %117, %118, %119"
#define TENON_WGMMA_NAMES_248 TENON_WGMMA_NAMES_240 ", %120, %121, %122, %123"
#define TENON_WGMMA_NAMES_256 TENON_WGMMA_NAMES_248 ", %124, %125, %126, %127"
#define TENON_WGMMA_BIND_8 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define TENON_WGMMA_BIND_16 TENON_WGMMA_BIND_8, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define TENON_WGMMA_BIND_24 TENON_WGMMA_BIND_16, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define TENON_WGMMA_BIND_32 TENON_WGMMA_BIND_24, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define TENON_WGMMA_BIND_40 TENON_WGMMA_BIND_32, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define TENON_WGMMA_BIND_48 TENON_WGMMA_BIND_40, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define TENON_WGMMA_BIND_56 TENON_WGMMA_BIND_48, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define TENON_WGMMA_BIND_64 TENON_WGMMA_BIND_56, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define TENON_WGMMA_BIND_72 TENON_WGMMA_BIND_64, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define TENON_WGMMA_BIND_80 TENON_WGMMA_BIND_72, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define TENON_WGMMA_BIND_88 TENON_WGMMA_BIND_80, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define TENON_WGMMA_BIND_96 TENON_WGMMA_BIND_88, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define TENON_WGMMA_BIND_104 TENON_WGMMA_BIND_96, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define TENON_WGMMA_BIND_112 \
  TENON_WGMMA_BIND_104, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define TENON_WGMMA_BIND_120 \
  TENON_WGMMA_BIND_112, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define TENON_WGMMA_BIND_128 \
  TENON_WGMMA_BIND_120, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define TENON_WGMMA_BIND_136 \
  TENON_WGMMA_BIND_128, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define TENON_WGMMA_BIND_144 \
  TENON_WGMMA_BIND_136, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define TENON_WGMMA_BIND_152 \
  TENON_WGMMA_BIND_144, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define TENON_WGMMA_BIND_160 \
  TENON_WGMMA_BIND_152, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define TENON_WGMMA_BIND_168 \
  TENON_WGMMA_BIND_160, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define TENON_WGMMA_BIND_176 \
  TENON_WGMMA_BIND_168, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define TENON_WGMMA_BIND_184 \
  TENON_WGMMA_BIND_176, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define TENON_WGMMA_BIND_192 \
  TENON_WGMMA_BIND_184, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define TENON_WGMMA_BIND_200 \
  TENON_WGMMA_BIND_192, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define TENON_WGMMA_BIND_208 \
  TENON_WGMMA_BIND_200, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define TENON_WGMMA_BIND_216 \
  TENON_WGMMA_BIND_208, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define TENON_WGMMA_BIND_224 \
  TENON_WGMMA_BIND_216, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define TENON_WGMMA_BIND_232 \
  TENON_WGMMA_BIND_224, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define TENON_WGMMA_BIND_240 \
  TENON_WGMMA_BIND_232, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define TENON_WGMMA_BIND_248 \
  TENON_WGMMA_BIND_240, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define TENON_WGMMA_BIND_256 \
  TENON_WGMMA_BIND_248, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

// A, B, KEEP: numbers of the operands that follow the n/2 accumulators. The descriptors' high word:
// swizzle mode 1 (128 bytes) in the top bits, 1024 bytes (64 units) from one atom to the next.
#define TENON_WGMMA_TYPE(T, NAME, N, A, B, KEEP)                                                   \
  template <>                                                                                      \
  struct Wgmma<T, N> {                                                                             \
    static __device__ __forceinline__ void multiply(float (&d)[N / 2], unsigned a, unsigned b,     \
                                                    int keep) {                                    \
      asm volatile(                                                                                \
          "{\n.reg .pred keep;\n.reg .b64 a, b;\n"                                                 \
          "mov.b64 a, {%" #A ", 0x40000040};\nmov.b64 b, {%" #B                                    \
          ", 0x40000040};\n"                                                                       \
          "setp.ne.b32 keep, %" #KEEP ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME \
          "." NAME " {" TENON_WGMMA_NAMES_##N "}, a, b, keep, 1, 1, 0, 0;\n}"                      \
          : TENON_WGMMA_BIND_##N                                                                   \
          : "r"(a), "r"(b), "r"(keep));                                                            \
    }                                                                                              \
  };
#define TENON_WGMMA(N, A, B, KEEP)                          \
  TENON_WGMMA_TYPE(WgmmaType::kBf16, "bf16", N, A, B, KEEP) \
  TENON_WGMMA_TYPE(WgmmaType::kFp16, "f16", N, A, B, KEEP)

TENON_WGMMA(8, 4, 5, 6)
TENON_WGMMA(16, 8, 9, 10)
TENON_WGMMA(24, 12, 13, 14)
TENON_WGMMA(32, 16, 17, 18)
TENON_WGMMA(40, 20, 21, 22)
TENON_WGMMA(48, 24, 25, 26)
TENON_WGMMA(56, 28, 29, 30)
TENON_WGMMA(64, 32, 33, 34)
TENON_WGMMA(72, 36, 37, 38)
TENON_WGMMA(80, 40, 41, 42)
TENON_WGMMA(88, 44, 45, 46)
TENON_WGMMA(96, 48, 49, 50)
TENON_WGMMA(104, 52, 53, 54)
TENON_WGMMA(112, 56, 57, 58)
TENON_WGMMA(120, 60, 61, 62)
TENON_WGMMA(128, 64, 65, 66)
TENON_WGMMA(136, 68, 69, 70)
TENON_WGMMA(144, 72, 73, 74)
TENON_WGMMA(152, 76, 77, 78)
TENON_WGMMA(160, 80, 81, 82)
TENON_WGMMA(168, 84, 85, 86)
TENON_WGMMA(176, 88, 89, 90)
TENON_WGMMA(184, 92, 93, 94)
TENON_WGMMA(192, 96, 97, 98)
TENON_WGMMA(200, 100, 101, 102)
TENON_WGMMA(208, 104, 105, 106)
TENON_WGMMA(216, 108, 109, 110)
TENON_WGMMA(224, 112, 113, 114)
TENON_WGMMA(232, 116, 117, 118)
TENON_WGMMA(240, 120, 121, 122)
TENON_WGMMA(248, 124, 125, 126)
TENON_WGMMA(256, 128, 129, 130)

#undef TENON_WGMMA
#undef TENON_WGMMA_TYPE

}  // namespace tenon::device
