// What a launch of the small-M kernels is given, besides the epilogue's own arguments.
#pragma once

namespace tenon::device::small_m {

struct Params {
  const void* x;       // [M, K], row stride below
  const void* w;       // W': packed (packing.cuh), or [N, ≥ padded K] with zeros past K
  void* y;             // [M, N], row stride below
  long long x_stride;  // elements
  long long w_stride;  // elements; unused when W' is packed
  long long y_stride;  // elements
  int m, n, k;
};

}  // namespace tenon::device::small_m
