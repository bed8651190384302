// Runs: V neighbouring elements of a tensor, moved with the widest accesses that their
// address allows, held packed, and computed with as floats.
#pragma once

#include "device/portable/element.cuh"

namespace tenon::device::portable {

template <class T, int V>
struct Run {
  static constexpr int kBytes = V * static_cast<int>(sizeof(T));
  static constexpr int kWords = kBytes < 4 ? 1 : kBytes / 4;
  unsigned words[kWords];

  // Element j as a float; past the end of a ragged run it is zero.
  __device__ __forceinline__ float at(int j) const {
    if constexpr (sizeof(T) == 4)
      return __uint_as_float(words[j]);
    else
      return j % 2 == 0 ? Element<T>::low(words[j / 2]) : Element<T>::high(words[j / 2]);
  }
  __device__ __forceinline__ void set(const float (&x)[V]) {
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int j = 0; j < V; ++j) words[j] = __float_as_uint(x[j]);
    } else {
#pragma unroll
      for (int j = 0; j < V; j += 2)
        words[j / 2] = Element<T>::pack(x[j], j + 1 < V ? x[j + 1] : 0.f);
    }
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = 0;
  }
};

// The run at p, of which the first `valid` elements exist, `stride` elements apart.
template <class T, int V>
__device__ __forceinline__ Run<T, V> load_run(const T* p, int valid, long long stride = 1) {
  Run<T, V> run;
  if constexpr (Run<T, V>::kBytes >= 16) {
    if (stride == 1 && valid >= V && aligned(p, 16)) {
#pragma unroll
      for (int i = 0; i < Run<T, V>::kBytes / 16; ++i) {
        const uint4 q = reinterpret_cast<const uint4*>(p)[i];
        run.words[4 * i] = q.x;
        run.words[4 * i + 1] = q.y;
        run.words[4 * i + 2] = q.z;
        run.words[4 * i + 3] = q.w;
      }
      return run;
    }
  }
  run.clear();
#pragma unroll
  for (int j = 0; j < V; ++j) {
    if (j < valid) {
      if constexpr (sizeof(T) == 4)
        run.words[j] = __float_as_uint(to_float(p[j * stride]));
      else
        run.words[j / 2] |= static_cast<unsigned>(p[j * stride].bits) << (16 * (j % 2));
    }
  }
  return run;
}

// One element as a float, 0 if it does not exist.
template <class T>
__device__ __forceinline__ float load_one(const T* p, bool exists = true) {
  return exists ? to_float(*p) : 0.f;
}

// Stores the first `valid` elements of a run.
template <class T, int V>
__device__ __forceinline__ void store_run(T* p, const float (&x)[V], int valid,
                                          long long stride = 1) {
  using R = Run<T, V>;
  if constexpr (R::kBytes == 4 || R::kBytes == 8 || R::kBytes % 16 == 0) {
    constexpr int kAccess = R::kBytes < 16 ? R::kBytes : 16;
    if (stride == 1 && valid >= V && aligned(p, kAccess)) {
      R run;
      run.set(x);
      if constexpr (kAccess == 4) {
        *reinterpret_cast<unsigned*>(p) = run.words[0];
      } else if constexpr (kAccess == 8) {
        *reinterpret_cast<uint2*>(p) = make_uint2(run.words[0], run.words[1]);
      } else {
#pragma unroll
        for (int i = 0; i < R::kBytes / 16; ++i)
          reinterpret_cast<uint4*>(p)[i] = make_uint4(run.words[4 * i], run.words[4 * i + 1],
                                                      run.words[4 * i + 2], run.words[4 * i + 3]);
      }
      return;
    }
  }
#pragma unroll
  for (int j = 0; j < V; ++j)
    if (j < valid) p[j * stride] = Element<T>::from_float(x[j]);
}

}  // namespace tenon::device::portable
