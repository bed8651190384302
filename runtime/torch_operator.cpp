#include "runtime/torch_operator.h"

#include <dlfcn.h>

#include <memory>
#include <stdexcept>
#include <type_traits>

#include "ir/error.h"

namespace tenon::runtime {

namespace {

// PyTorch's C functions (torch/csrc/inductor/aoti_torch/c/shim.h): opaque handles, 0 is success.
using Handle = void*;
using Boxed = void (*)(std::uint64_t* stack, std::uint64_t arguments, std::uint64_t results);

#define TENON_TORCH_FUNCTIONS(f)                                                                   \
  f(data_ptr, "aoti_torch_get_data_ptr", int (*)(Handle, void**))                                  \
      f(dim, "aoti_torch_get_dim", int (*)(Handle, std::int64_t*))                                 \
          f(sizes, "aoti_torch_get_sizes", int (*)(Handle, std::int64_t**))                        \
              f(strides, "aoti_torch_get_strides", int (*)(Handle, std::int64_t**)) f(             \
                  dtype, "aoti_torch_get_dtype", int (*)(Handle, std::int32_t*))                   \
                  f(device_type, "aoti_torch_get_device_type", int (*)(Handle, std::int32_t*)) f(  \
                      device_index, "aoti_torch_get_device_index", int (*)(Handle, std::int32_t*)) \
                      f(drop, "aoti_torch_delete_tensor_object", int (*)(Handle))                  \
                          f(empty, "aoti_torch_empty_strided",                                     \
                            int (*)(std::int64_t, const std::int64_t*, const std::int64_t*,        \
                                    std::int32_t, std::int32_t, std::int32_t, Handle*))            \
                              f(library_init, "aoti_torch_library_init_impl",                      \
                                int (*)(const char*, const char*, const char*, std::uint32_t,      \
                                        Handle*)) f(library_impl, "aoti_torch_library_impl",       \
                                                    int (*)(Handle, const char*, Boxed))

struct Torch {
#define TENON_TORCH_MEMBER(member, symbol, ...) std::type_identity_t<__VA_ARGS__> member = nullptr;
  TENON_TORCH_FUNCTIONS(TENON_TORCH_MEMBER)
#undef TENON_TORCH_MEMBER
  int (*current_stream)(std::int32_t device, void** stream) = nullptr;  // null without CUDA
  std::string why;

  Torch() {
    void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) {
      why = "PyTorch (libtorch_cpu.so) is not loaded in this process";
      return;
    }
    auto find = [&](auto& member, const char* symbol) {
      void* address = dlsym(library, symbol);
      member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(address);
      if (address == nullptr && why.empty())
        why = std::string("this PyTorch lacks ") + symbol + " (2.7 or later is needed)";
    };
#define TENON_TORCH_FIND(member, symbol, ...) find(member, symbol);
    TENON_TORCH_FUNCTIONS(TENON_TORCH_FIND)
#undef TENON_TORCH_FIND
    if (void* cuda = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD)) {
      void* address = dlsym(cuda, "aoti_torch_get_current_cuda_stream");
      current_stream = reinterpret_cast<decltype(current_stream)>(address);
    }
  }
};

const Torch& torch() {
  static const Torch instance;
  return instance;
}

constexpr std::size_t kLayers = 65536;
constexpr std::size_t kMaxRank = 8;
constexpr std::int32_t kCuda = 1;  // at::DeviceType

TorchLayer* entries() {
  static const std::unique_ptr<TorchLayer[]> all = std::make_unique<TorchLayer[]>(kLayers);
  return all.get();
}

void check(int result, const char* what) {
  if (result != 0) throw std::runtime_error(std::string("tenon::layer: PyTorch failed at ") + what);
}

// A tensor handle that is ours to delete.
class Tensor {
 public:
  explicit Tensor(Handle handle) : handle_(handle) {}
  ~Tensor() {
    if (handle_ != nullptr) torch().drop(handle_);
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  Handle get() const { return handle_; }
  Handle release() {
    Handle handle = handle_;
    handle_ = nullptr;
    return handle;
  }

 private:
  Handle handle_;
};

// What a tensor is, of rank 1 to kMaxRank and contiguous; throws otherwise.
struct Shape {
  std::int64_t rank = 0, rows = 1, columns_in = 0;
  std::int64_t sizes[kMaxRank], strides[kMaxRank];

  Shape(const Tensor& x, std::int64_t columns) {
    const Torch& t = torch();
    std::int64_t *given = nullptr, *steps = nullptr;
    check(t.dim(x.get(), &rank), "dim");
    if (rank < 1 || rank > static_cast<std::int64_t>(kMaxRank))
      throw std::invalid_argument("tenon::layer: x must have 1 to 8 dimensions");
    check(t.sizes(x.get(), &given), "sizes");
    check(t.strides(x.get(), &steps), "strides");
    columns_in = given[rank - 1];
    std::int64_t expected = 1;
    bool contiguous = true, empty = false;
    for (std::int64_t d = rank - 1; d >= 0; --d) {
      contiguous = contiguous && (given[d] == 1 || steps[d] == expected);
      empty = empty || given[d] == 0;
      expected *= given[d];
      if (d < rank - 1) rows *= given[d];
    }
    if (!contiguous && !empty) throw std::invalid_argument("tenon::layer: x must be contiguous");
    std::int64_t step = 1;
    for (std::int64_t d = rank - 1; d >= 0; --d) {
      sizes[d] = d == rank - 1 ? columns : given[d];
      strides[d] = step;
      step *= sizes[d];
    }
  }
};

// Arguments x, layer, columns; the handle of x is ours, that of the result is PyTorch's.
void layer_operator(std::uint64_t* stack, std::uint64_t, std::uint64_t) {
  const Torch& t = torch();
  const Tensor x(reinterpret_cast<Handle>(stack[0]));
  const auto number = static_cast<std::int64_t>(stack[1]);
  const auto columns = static_cast<std::int64_t>(stack[2]);
  const bool known = number >= 0 && number < static_cast<std::int64_t>(kLayers);
  const TorchLayer* entry = known ? &entries()[number] : nullptr;
  if (entry == nullptr || entry->layer == nullptr)
    throw std::invalid_argument("tenon::layer: no layer is bound under number " +
                                std::to_string(number));
  const Shape shape(x, columns);
  std::int32_t dtype = 0, device_type = 0, device = 0;
  check(t.dtype(x.get(), &dtype), "dtype");
  check(t.device_type(x.get(), &device_type), "device_type");
  check(t.device_index(x.get(), &device), "device_index");
  const bool same_device =
      device_type == entry->device_type && (device_type != kCuda || device == entry->device_index);
  if (dtype != entry->dtype || !same_device)
    throw std::invalid_argument(
        "tenon::layer: x has another type or is on another device than the bound weights");
  if (shape.columns_in != entry->columns_in || columns != entry->columns_out)
    throw std::invalid_argument("tenon::layer: x has " + std::to_string(shape.columns_in) +
                                " columns and the result " + std::to_string(columns) +
                                "; the layer was bound for " + std::to_string(entry->columns_in) +
                                " and " + std::to_string(entry->columns_out));
  Handle made = nullptr;
  check(t.empty(shape.rank, shape.sizes, shape.strides, dtype, device_type, device, &made),
        "empty_strided");
  Tensor y(made);
  void *from = nullptr, *to = nullptr, *stream = nullptr;
  check(t.data_ptr(x.get(), &from), "data_ptr");
  check(t.data_ptr(y.get(), &to), "data_ptr");
  if (device_type == kCuda) check(t.current_stream(device, &stream), "current_cuda_stream");
  const void* inputs[Layer::kMaxArguments];
  inputs[0] = from;
  for (std::size_t i = 1; i < entry->layer->input_count(); ++i) inputs[i] = nullptr;
  void* outputs[] = {to};
  entry->layer->launch(inputs, outputs, shape.rows, stream, entry->dependent);
  stack[0] = reinterpret_cast<std::uint64_t>(y.release());
}

}  // namespace

bool register_torch_operator(std::string& why) {
  const Torch& t = torch();
  if (!t.why.empty()) {
    why = t.why;
    return false;
  }
  // The registrations live as long as the process.
  static const bool done = [&t] {
    for (const char* key : {"CPU", "CUDA"}) {
      if (std::string(key) == "CUDA" && t.current_stream == nullptr) continue;
      Handle library = nullptr;
      check(t.library_init("tenon", key, "runtime/torch_operator.cpp", 0, &library),
            "library_init_impl");
      check(t.library_impl(library, "layer", layer_operator), "library_impl");
    }
    return true;
  }();
  return done;
}

void set_torch_layer(std::int64_t number, const TorchLayer& layer) {
  if (number < 0 || number >= static_cast<std::int64_t>(kLayers))
    throw UserError("layer", std::to_string(number), "0 to 65535");
  entries()[number] = layer;
}

}  // namespace tenon::runtime
