// Any processor: 4 lanes, which compilers map to SSE2 or NEON.
#define TENON_LANES 4
#define TENON_ROWS 4
#define TENON_KERNELS kernels_baseline
#define TENON_KERNELS_NAME "baseline"
#include "runtime/host/kernels_impl.h"
