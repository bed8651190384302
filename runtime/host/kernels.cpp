#include "runtime/host/kernels.h"

namespace tenon::runtime::host {

const Kernels& kernels_baseline();
#if defined(__x86_64__)
const Kernels& kernels_avx2();
const Kernels& kernels_avx512();
#endif

int available_kernels(const Kernels** out, int capacity) {
  int count = 0;
  auto add = [&](const Kernels& set) {
    if (count < capacity) out[count++] = &set;
  };
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("f16c");
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx512) add(kernels_avx512());
  if (avx2) add(kernels_avx2());
#endif
  add(kernels_baseline());
  return count;
}

const Kernels& kernels() {
  static const Kernels* const best = [] {
    const Kernels* first = nullptr;
    available_kernels(&first, 1);
    return first;
  }();
  return *best;
}

}  // namespace tenon::runtime::host
