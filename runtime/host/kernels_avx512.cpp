// AVX-512 F, BW, VL and DQ.
#if defined(__x86_64__)
#define TENON_LANES 16
#define TENON_ROWS 12
#define TENON_KERNELS kernels_avx512
#define TENON_KERNELS_NAME "avx512"
#include "runtime/host/kernels_impl.h"
#endif
