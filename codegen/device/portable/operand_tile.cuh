// A tile of an operand in shared memory: kRows × kColumns elements of T, row-major, each row
// padded by 16 bytes so that eight rows of 16 bytes lie in distinct banks.
//
// A thread owns the same chunks (16 bytes) in every step: it copies them, and it alone changes
// them before the barrier after which everyone reads. So a chain of operators and the row sums
// are applied in place between a chunk's arrival and that barrier, with no barrier more.
//
// Generated as
//   struct Operand {
//     using Source = …; static constexpr bool kHasSource;
//     static constexpr bool kStaged;    // the source's elements are copied as they are, and
//     static constexpr bool kIdentity;  // … the chain, unless it is the identity, applied later
//     static constexpr long long kRowStride, kColumnStride;   // along the tile's rows, columns
//     static const Source* source(args);
//     struct Row; template <int V> struct Others; load; apply(row, others, x, j);  // rows.cuh
//   };
// Operands that are not staged (other element type, other storage order) are loaded, computed
// and stored into the tile at once.
#pragma once

#include "device/portable/row_sums.cuh"
#include "device/ptx/cp_async.cuh"

namespace tenon::device::portable {

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

template <class Op, class T, int kRows, int kColumns, int kThreads>
struct OperandTile {
  static constexpr int V = 16 / static_cast<int>(sizeof(T));  // elements of a chunk
  static constexpr int kPerRow = kColumns / V;
  static constexpr int kChunks = kRows * kPerRow;
  static constexpr int kOwned = (kChunks + kThreads - 1) / kThreads;
  static constexpr int kStride = kColumns + V;  // elements between rows
  static constexpr int kElements = kRows * kStride;
  static_assert(kColumns % V == 0 && kThreads % kPerRow == 0, "a thread owns one column of chunks");
  // Rows of the source that start on 16 bytes if the source does.
  static constexpr bool kCanCopy =
      Op::kStaged && Op::kColumnStride == 1 && Op::kRowStride * sizeof(T) % 16 == 0;

  // Rows between a thread's chunks: a constant, so that addresses differ by immediates.
  static constexpr int kRowStep = kThreads / kPerRow;
  static __device__ __forceinline__ int row_of(int i) {
    return static_cast<int>(threadIdx.x) / kPerRow + i * kRowStep;
  }
  static __device__ __forceinline__ int column_of() {
    return static_cast<int>(threadIdx.x) % kPerRow * V;
  }
  static __device__ __forceinline__ bool owns(int i) {
    return kChunks % kThreads == 0 || static_cast<int>(threadIdx.x) + i * kThreads < kChunks;
  }

  // Starts filling the tile from the source at (r0, c0); elements at or past (r_end, c_end)
  // become zeros. `wide`: the source is 16-byte aligned.
  template <class Args, class Rows>
  static __device__ __forceinline__ void issue(T* tile, const Args& args, const Rows* rows, int r0,
                                               int c0, int r_end, int c_end, bool wide) {
    if constexpr (kCanCopy) {
      if (wide) return copy(tile, args, r0, c0, r_end, c_end);
    }
    const int c = c0 + column_of();
    // Rolled up: this is the way of odd shapes, and compile time counts.
#pragma unroll 1
    for (int i = 0; i < kOwned; ++i) {
      if (!owns(i)) break;
      const int r = r0 + row_of(i);
      const int valid = valid_at(r, c, r_end, c_end);
      T* chunk = tile + row_of(i) * kStride + column_of();
      if constexpr (Op::kStaged) {
        const auto* p = Op::source(args) + r * Op::kRowStride + c * Op::kColumnStride;
        put(chunk, load_run<T, V>(p, valid, Op::kColumnStride));
      } else {
        // Rows are in shared memory before the first tile is issued.
        const auto x = load_source<Op, V>(args, r, c, valid);
        put(chunk, computed<Args>(args, rows[Op::kUsesRows ? row_of(i) : 0], x, r, c, valid));
      }
    }
  }

  // Applies the chain to this thread's chunks, and `sums` to the elements of the source before.
  template <class Args, class Rows, class Sums>
  static __device__ __forceinline__ void finish(T* tile, const Args& args, const Rows* rows, int r0,
                                                int c0, int r_end, int c_end, Sums& sums) {
    if constexpr (Op::kStaged && Op::kIdentity && !Sums::kActive) return;
    const int c = c0 + column_of();
#pragma unroll
    for (int i = 0; i < kOwned; ++i) {
      if (!owns(i)) break;
      const int r = r0 + row_of(i);
      const int valid = valid_at(r, c, r_end, c_end);
      T* chunk = tile + row_of(i) * kStride + column_of();
      const auto& row = rows[Op::kUsesRows ? row_of(i) : 0];
      if constexpr (Op::kStaged) {
        const Run<T, V> x = get(chunk);
        if constexpr (Sums::kActive) sums.add(i, x, row, r, c, valid);
        if constexpr (!Op::kIdentity) put(chunk, computed<Args>(args, row, x, r, c, valid));
      } else if constexpr (Sums::kActive) {
        sums.add(i, load_source<Op, V>(args, r, c, valid), row, r, c, valid);
      }
    }
  }

 private:
  // Elements of the chunk at (r, c) that exist.
  static __device__ __forceinline__ int valid_at(int r, int c, int r_end, int c_end) {
    return r < r_end ? max(0, min(V, c_end - c)) : 0;
  }

  template <class Args>
  static __device__ __forceinline__ void copy(T* tile, const Args& args, int r0, int c0, int r_end,
                                              int c_end) {
    const int c = c0 + column_of();
    const T* source = Op::source(args);
    const unsigned to = shared_address(tile + row_of(0) * kStride + column_of());
    constexpr unsigned kToStep = kRowStep * kStride * sizeof(T);
    if (r0 + kRows <= r_end && c0 + kColumns <= c_end) {
      const T* from = source + (r0 + row_of(0)) * Op::kRowStride + c;
#pragma unroll
      for (int i = 0; i < kOwned; ++i)
        if (owns(i)) cp_async_16(to + i * kToStep, from + i * (kRowStep * Op::kRowStride));
      return;
    }
#pragma unroll 1
    for (int i = 0; i < kOwned; ++i) {
      if (!owns(i)) break;
      const int r = r0 + row_of(i);
      const int valid = valid_at(r, c, r_end, c_end);
      // Nothing is read for no bytes, but the address must still be one.
      cp_async_16_zfill(to + i * kToStep, valid > 0 ? source + r * Op::kRowStride + c : source,
                        valid * static_cast<int>(sizeof(T)));
    }
  }

  static __device__ __forceinline__ Run<T, V> get(const T* chunk) {
    const uint4 q = *reinterpret_cast<const uint4*>(chunk);
    return {q.x, q.y, q.z, q.w};
  }
  static __device__ __forceinline__ void put(T* chunk, const Run<T, V>& run) {
    *reinterpret_cast<uint4*>(chunk) =
        make_uint4(run.words[0], run.words[1], run.words[2], run.words[3]);
  }

  // The chain of a run; zeros where elements do not exist, whatever the chain makes of a zero.
  template <class Args, class Row, class X>
  static __device__ __forceinline__ Run<T, V> computed(const Args& args, const Row& row, const X& x,
                                                       int r, int c, int valid) {
    const auto others = Op::template load<V>(args, r, c, valid);
    float y[V];
#pragma unroll
    for (int j = 0; j < V; ++j) y[j] = j < valid ? Op::apply(row, others, x.at(j), j) : 0.f;
    Run<T, V> run;
    run.set(y);
    return run;
  }
};

}  // namespace tenon::device::portable
