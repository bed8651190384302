// Products by cuBLASLt, opened at run time by the plans that use it.
#pragma once

#include <cublasLt.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "ir/dtype.h"
#include "runtime/cuda/driver.h"

namespace tenon::runtime::cuda {

struct CublasLt;
// The library, or null where it is not found; `why` then says what was looked for.
const CublasLt* cublas_lt(std::string* why = nullptr);

// Bytes of workspace that every product may use.
inline constexpr std::size_t kLibraryWorkspaceBytes = std::size_t{32} << 20;

// out[m, n] = a[m, k] · b, row-major, fp32 accumulation; b is [k, n], or [n, k] when transposed.
class LibraryProduct {
 public:
  // `algorithm` counts the library's own suggestions, best first. A context must be current. Throws
  // DeviceError when the library is missing or suggests fewer.
  LibraryProduct(std::int64_t n, std::int64_t k, ir::DType dtype, ir::DType out_dtype,
                 bool b_transposed, int algorithm);
  ~LibraryProduct();
  LibraryProduct(const LibraryProduct&) = delete;
  LibraryProduct& operator=(const LibraryProduct&) = delete;

  // Looks up the algorithm for `m` rows (once per m; later launches find it without allocation).
  void prepare(std::int64_t m);
  void launch(std::int64_t m, CUdeviceptr a, CUdeviceptr b, CUdeviceptr out, CUdeviceptr workspace,
              CUstream stream);

 private:
  struct Choice {
    std::int64_t m;
    cublasLtMatmulAlgo_t algorithm;
    Choice* next;
  };
  struct Layouts;
  const Choice& choice(std::int64_t m);
  Layouts layouts(std::int64_t m) const;

  const CublasLt& lib_;
  std::int64_t n_, k_;
  ir::DType dtype_, out_dtype_;
  bool b_transposed_;
  int algorithm_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  std::atomic<Choice*> choices_{nullptr};  // grows only
};

}  // namespace tenon::runtime::cuda
