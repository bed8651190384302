// AVX2, FMA and F16C.
#if defined(__x86_64__)
#define TENON_LANES 8
#define TENON_ROWS 6
#define TENON_KERNELS kernels_avx2
#define TENON_KERNELS_NAME "avx2"
#include "runtime/host/kernels_impl.h"
#endif
