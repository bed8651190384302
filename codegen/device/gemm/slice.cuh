// How a tile walks over k, and which of its iterations it sums (Statistics::kTileSlices).
#pragma once

namespace tenon::device::gemm {

// All walks visit the same steps.
//
// Tiles that pass over X together find it in the L2. Where slices are contiguous, those of the last
// steps are known only when their tiles end, and the other tiles wait for them. A walk that begins
// with the tile's own slice avoids that, but X and W of a whole wave must then stay in the L2. With
// kOwnTailFirst only the last steps are walked in different orders: all slices are complete some
// steps before any tile ends. Steps that are summed are then far apart, so that one which takes
// longer is made good before the next.
enum class Walk {
  kStraight,     // from the first step to the last; slices are contiguous
  kOwnFirst,     // from its own, contiguous slice on, around the end of k
  kOwnTailFirst  // straight, a slice being every n-th step; the last few begin with its own
};

// Steps that kOwnTailFirst walks out of order, at least, where k has so many: the time in which
// partial sums reach the other tiles.
inline constexpr int kTailSteps = 8;
// Steps before a tile's end at which its readers look for sums that others took.
inline constexpr int kDueSteps = 12;

struct Slice {
  static constexpr int kNever = 0x7fffffff;

  int wrap = 0, shift = 0;  // steps from `wrap` on are walked in a circle, `shift` steps ahead
  // Summed iterations: `first`, and every `stride` after it up to `body`; then [tail, tail_end).
  int first = kNever, stride = 1, body = 0;
  int tail = kNever, tail_end = kNever;
  int slot = 0, slots = 0;  // its place among the slices of the rows, and how many there are
  // After this iteration the readers look for the sums. Not before: a reader that polls beside the
  // copies delays them.
  int due = 0;

  // The k step of an iteration, of `steps`.
  __device__ __forceinline__ int step(int iteration, int steps) const {
    if (iteration < wrap) return iteration;
    const int ahead = iteration + shift;
    return ahead < steps ? ahead : ahead - (steps - wrap);
  }
  // The iteration that is summed after `iteration`, which is summed.
  __device__ __forceinline__ int after(int iteration) const {
    if (iteration >= tail) return iteration + 1 < tail_end ? iteration + 1 : kNever;
    return iteration + stride < body ? iteration + stride : tail;
  }
};

// Of a tile that sums nothing.
__device__ __forceinline__ Slice no_slice(int k_steps) {
  Slice slice;
  slice.due = k_steps > kDueSteps ? k_steps - 1 - kDueSteps : 0;
  return slice;
}

// Of a tile that sums all of its steps for itself.
__device__ __forceinline__ Slice whole_slice(int k_steps) {
  Slice slice = no_slice(k_steps);
  slice.first = 0;
  slice.body = k_steps;
  return slice;
}

// Slice `cluster` + `rank` of `slices`, no more than `k_steps`. Blocks of a cluster walk alike,
// since they share loads: theirs begin with slice `cluster`.
template <Walk kWalk>
__device__ __forceinline__ Slice contributed_slice(int k_steps, int slices, int cluster, int rank) {
  Slice slice = no_slice(k_steps);
  const int mine = cluster + rank;
  slice.slot = mine;
  slice.slots = slices;
  if constexpr (kWalk == Walk::kOwnTailFirst) {
    // Every slice has `share` steps of the tail, the first block of a cluster the first ones.
    int share = (kTailSteps + slices - 1) / slices;
    if (share > k_steps / slices) share = k_steps / slices;
    slice.wrap = slice.body = k_steps - share * slices;
    slice.shift = share * cluster;
    slice.stride = slices;
    slice.tail = slice.wrap + share * rank;
    slice.tail_end = slice.tail + share;
    slice.first = mine < slice.body ? mine : slice.tail;
    slice.due = slice.tail_end - 1;
  } else {
    if constexpr (kWalk == Walk::kOwnFirst) slice.shift = k_steps * cluster / slices;
    slice.first = k_steps * mine / slices - slice.shift;
    slice.body = k_steps * (mine + 1) / slices - slice.shift;
    if (kWalk == Walk::kOwnFirst || slice.body > slice.due) slice.due = slice.body - 1;
  }
  return slice;
}

}  // namespace tenon::device::gemm
