// The bulk copy engine: tensor tiles and flat ranges, global -> shared (PTX ISA,
// "cp.async.bulk" and "cp.async.bulk.tensor").
//
// Copies complete bytes on an mbarrier. Coordinates outside the tensor read zero, and their
// bytes are counted all the same. The multicast forms write the same shared offset of every
// block in `mask` and complete on the same offset's barrier there.
#pragma once

#include "device/ptx/cache_hint.cuh"

namespace tenon::device {

// A CUtensorMap, opaque; kernels take it as a `const __grid_constant__` parameter.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

enum class CacheHint { kNone, kEvictFirst, kEvictLast };

// The L2 policy operand for a hint; unused for kNone, since even an explicit "normal" policy
// is slower than no operand.
template <CacheHint kHint>
__device__ __forceinline__ unsigned long long cache_policy() {
  if constexpr (kHint == CacheHint::kEvictFirst) return policy_evict_first();
  if constexpr (kHint == CacheHint::kEvictLast) return policy_evict_last();
  return 0;
}

__device__ __forceinline__ void tma_prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Reads the box at (column, row) into shared memory at `to`.
template <CacheHint kHint, bool kMulticast>
__device__ __forceinline__ void tma_load_2d(unsigned to, const TensorMap* map, int column, int row,
                                            unsigned barrier, unsigned short mask,
                                            unsigned long long policy) {
  if constexpr (!kMulticast && kHint == CacheHint::kNone) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(barrier)
        : "memory");
  } else if constexpr (!kMulticast) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(barrier), "l"(policy)
        : "memory");
  } else if constexpr (kHint == CacheHint::kNone) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(mask)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(mask), "l"(policy)
        : "memory");
  }
}

// Reads `bytes` (a multiple of 16, both ends 16-byte aligned) from `from`.
template <CacheHint kHint, bool kMulticast>
__device__ __forceinline__ void bulk_load(unsigned to, const void* from, unsigned bytes,
                                          unsigned barrier, unsigned short mask,
                                          unsigned long long policy) {
  if constexpr (!kMulticast && kHint == CacheHint::kNone) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1], %2, [%3];" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
  } else if constexpr (!kMulticast) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
        : "memory");
  } else if constexpr (kHint == CacheHint::kNone) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier), "h"(mask)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster.L2::cache_hint [%0], [%1], %2, [%3], %4, %5;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier), "h"(mask), "l"(policy)
        : "memory");
  }
}

}  // namespace tenon::device
