// The slow path of the kernels that stream through the copy engines: X or Y where those cannot go,
// because a pointer is not a multiple of 16 bytes. One thread an output, plain loads.
#pragma once

#include "device/hopper/repack.cuh"
#include "device/portable/element.cuh"
#include "device/ptx/pdl.cuh"

namespace tenon::device::hopper {

// Strides are elements between rows; `w_columns` are the elements of a row of W as Layout has them.
template <class T, class Layout, class Stats, class Epilogue, bool kDependent>
__device__ __forceinline__ void product_at_any_alignment(const T* x, const T* w, T* y, int m, int n,
                                                         int k, long long x_stride, int w_columns,
                                                         long long y_stride,
                                                         const typename Epilogue::Args& args) {
  if constexpr (kDependent) {
    launch_dependents();
    dependency_wait();
  }
  const long long outputs = static_cast<long long>(m) * n;
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < outputs;
       i += threads) {
    const int row = static_cast<int>(i / n), column = static_cast<int>(i % n);
    float sums[Stats::kCount > 0 ? Stats::kCount : 1] = {};
    float product = 0;
#pragma unroll 1
    for (int c = 0; c < k; ++c) {
      const float element = portable::to_float(x[row * x_stride + c]);
      if constexpr (Stats::kCount > 0) Stats::accumulate(sums, element);
      product = fmaf(element, portable::to_float(w[Layout::index(column, c, w_columns)]), product);
    }
    const typename Epilogue::Row values = Epilogue::row(args, row, sums);
    y[row * y_stride + column] =
        portable::Element<T>::from_float(Epilogue::apply(args, values, product, row, column));
  }
}

}  // namespace tenon::device::hopper
