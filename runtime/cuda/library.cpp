#include "runtime/cuda/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "ir/error.h"

namespace tenon::runtime::cuda {

struct CublasLt {
#define TENON_LT_FUNCTIONS(f)                                                                    \
  f(create, cublasLtCreate) f(destroy, cublasLtDestroy) f(status, cublasLtGetStatusString)       \
      f(matmul, cublasLtMatmul) f(desc_create, cublasLtMatmulDescCreate)                         \
          f(desc_destroy, cublasLtMatmulDescDestroy) f(desc_set, cublasLtMatmulDescSetAttribute) \
              f(layout_init, cublasLtMatrixLayoutInit_internal)                                  \
                  f(preference_create, cublasLtMatmulPreferenceCreate)                           \
                      f(preference_destroy, cublasLtMatmulPreferenceDestroy)                     \
                          f(preference_set, cublasLtMatmulPreferenceSetAttribute)                \
                              f(heuristic, cublasLtMatmulAlgoGetHeuristic)
#define TENON_LT_MEMBER(member, function) decltype(&::function) member = nullptr;
  TENON_LT_FUNCTIONS(TENON_LT_MEMBER)
#undef TENON_LT_MEMBER

  void check(cublasStatus_t result, const char* what) const {
    if (result != CUBLAS_STATUS_SUCCESS)
      throw DeviceError(fmt::format("cuBLASLt: {}: {}", what, status(result)));
  }
};

namespace {

std::vector<std::string> library_paths() {
  std::vector<std::string> folders;
  if (const char* home = std::getenv("CUDA_HOME")) {
    folders.push_back(std::string(home) + "/lib64/");
    folders.push_back(std::string(home) + "/lib/");
  }
  folders.push_back("");  // the loader's own search
  folders.push_back("/usr/local/cuda/lib64/");
#if defined(TENON_CUDA_ROOT)
  folders.push_back(TENON_CUDA_ROOT "/lib64/");
  folders.push_back(TENON_CUDA_ROOT "/lib/");
#endif
  std::vector<std::string> paths;
  for (const std::string& folder : folders)
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"})
      paths.push_back(folder + name);
  return paths;
}

struct Opened {
  CublasLt lib;
  bool usable = false;
  std::string why =
      "cuBLASLt (libcublasLt.so.13 or .12) was not found in CUDA_HOME, the loader's path or "
      "/usr/local/cuda";

  Opened() {
    void* library = nullptr;
    for (const std::string& path : library_paths())
      if ((library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
    if (library == nullptr) return;
    usable = true;
    auto find = [&](auto& member, const char* symbol) {
      void* address = dlsym(library, symbol);
      member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(address);
      if (address == nullptr) {
        usable = false;
        why = fmt::format("cuBLASLt was found but lacks {}", symbol);
      }
    };
#define TENON_LT_FIND(member, function) find(lib.member, #function);
    TENON_LT_FUNCTIONS(TENON_LT_FIND)
#undef TENON_LT_FIND
  }
};

cudaDataType_t data_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kBF16:
      return CUDA_R_16BF;
    case ir::DType::kF16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

const CublasLt& required() {
  std::string why;
  const CublasLt* lib = cublas_lt(&why);
  if (lib == nullptr) throw DeviceError("the plan has a product by cuBLASLt, but " + why);
  return *lib;
}

}  // namespace

const CublasLt* cublas_lt(std::string* why) {
  static const Opened opened;
  if (why) *why = opened.why;
  return opened.usable ? &opened.lib : nullptr;
}

// cuBLASLt is column-major: the row-major product is outᵀ = bᵀ · aᵀ.
struct LibraryProduct::Layouts {
  cublasLtMatrixLayoutOpaque_t b, a, out;
};

LibraryProduct::LibraryProduct(std::int64_t n, std::int64_t k, ir::DType dtype, ir::DType out_dtype,
                               bool b_transposed, int algorithm)
    : lib_(required()),
      n_(n),
      k_(k),
      dtype_(dtype),
      out_dtype_(out_dtype),
      b_transposed_(b_transposed),
      algorithm_(algorithm) {
  lib_.check(lib_.create(&handle_), "creating a handle");
  lib_.check(lib_.desc_create(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  cublasOperation_t transpose = b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  lib_.check(lib_.desc_set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose),
             "describing a product");
}

LibraryProduct::~LibraryProduct() {
  for (Choice* c = choices_.load(); c != nullptr;) {
    Choice* next = c->next;
    delete c;
    c = next;
  }
  if (operation_) lib_.desc_destroy(operation_);
  if (handle_) lib_.destroy(handle_);
}

LibraryProduct::Layouts LibraryProduct::layouts(std::int64_t m) const {
  Layouts l;
  const auto rows = static_cast<std::uint64_t>(n_), depth = static_cast<std::uint64_t>(k_),
             columns = static_cast<std::uint64_t>(m);
  auto make = [&](cublasLtMatrixLayoutOpaque_t& layout, ir::DType type, std::uint64_t r,
                  std::uint64_t c) {
    lib_.check(lib_.layout_init(&layout, sizeof layout, data_type(type), r, c,
                                static_cast<std::int64_t>(r)),
               "describing a matrix");
  };
  if (b_transposed_)
    make(l.b, dtype_, depth, rows);
  else
    make(l.b, dtype_, rows, depth);
  make(l.a, dtype_, depth, columns);
  make(l.out, out_dtype_, rows, columns);
  return l;
}

void LibraryProduct::prepare(std::int64_t m) { choice(m); }

const LibraryProduct::Choice& LibraryProduct::choice(std::int64_t m) {
  for (const Choice* c = choices_.load(std::memory_order_acquire); c != nullptr; c = c->next)
    if (c->m == m) return *c;
  Layouts l = layouts(m);
  cublasLtMatmulPreference_t preference = nullptr;
  lib_.check(lib_.preference_create(&preference), "asking for algorithms");
  std::size_t workspace = kLibraryWorkspaceBytes;
  lib_.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                      sizeof workspace);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(algorithm_) + 1);
  int count = 0;
  cublasStatus_t status = lib_.heuristic(handle_, operation_, &l.b, &l.a, &l.out, &l.out,
                                         preference, algorithm_ + 1, results.data(), &count);
  lib_.preference_destroy(preference);
  lib_.check(status, "asking for algorithms");
  if (count == 0)
    throw DeviceError(fmt::format("cuBLASLt suggests no algorithm for {} x {} x {}", m, k_, n_));
  // How many it suggests depends on m, and a plan serves an interval of them: the last one then.
  const int chosen = std::min(algorithm_, count - 1);
  auto made = std::make_unique<Choice>(Choice{m, results[static_cast<std::size_t>(chosen)].algo,
                                              choices_.load(std::memory_order_relaxed)});
  while (!choices_.compare_exchange_weak(made->next, made.get(), std::memory_order_release,
                                         std::memory_order_relaxed)) {
  }
  return *made.release();
}

void LibraryProduct::launch(std::int64_t m, CUdeviceptr a, CUdeviceptr b, CUdeviceptr out,
                            CUdeviceptr workspace, CUstream stream) {
  const Choice& chosen = choice(m);
  Layouts l = layouts(m);
  const float one = 1, zero = 0;
  auto pointer = [](CUdeviceptr p) { return reinterpret_cast<void*>(p); };
  lib_.check(lib_.matmul(handle_, operation_, &one, pointer(b), &l.b, pointer(a), &l.a, &zero,
                         pointer(out), &l.out, pointer(out), &l.out, &chosen.algorithm,
                         pointer(workspace), kLibraryWorkspaceBytes, stream),
             "launching a product");
}

}  // namespace tenon::runtime::cuda
