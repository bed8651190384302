// C++ over the C API (runtime/tenon.h): handles that close themselves, exceptions instead of
// status codes. Header-only, so that one libtenon_runtime serves every C++ compiler.
//
//   tenon::Library library("tuning.db", "cuda:0");
//   tenon::Kernel kernel = library.bind("rmsnorm_linear", "m=4096,k=4096,n=6144", "bf16", inputs,
//   stream); kernel.launch(inputs, outputs, m, stream);
#ifndef TENON_RUNTIME_TENON_HPP_
#define TENON_RUNTIME_TENON_HPP_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "tenon.h"

namespace tenon {

// A call failed; what() is one sentence.
class RuntimeError : public std::runtime_error {
 public:
  RuntimeError(tenon_status status, const char* message)
      : std::runtime_error(message), status_(status) {}
  tenon_status status() const { return status_; }

 private:
  tenon_status status_;
};

inline void check_status(tenon_status status) {
  if (status != TENON_OK) throw RuntimeError(status, tenon_last_error());
}

// A program bound to weights (tenon_kernel).
class Kernel {
 public:
  explicit Kernel(tenon_kernel* handle) : handle_(handle) {}

  // One call with `m` rows, 0 up to the bound: tenon_launch.
  void launch(const void* const* inputs, void* const* outputs, std::int64_t m,
              void* stream = nullptr, bool dependent = false) {
    check_status(tenon_launch(handle_.get(), inputs, outputs, m, stream, dependent));
  }
  // Programs of one activation, their first input, and one output: tenon_launch_one.
  void launch(const void* x, void* y, std::int64_t m, void* stream = nullptr,
              bool dependent = false) {
    check_status(tenon_launch_one(handle_.get(), x, y, m, stream, dependent));
  }
  std::int64_t m_max() const { return tenon_kernel_m_max(handle_.get()); }
  // Whether launches read parameter number `input`; otherwise it is released: its memory may be
  // freed.
  bool reads(int input) const { return tenon_kernel_reads(handle_.get(), input) != 0; }
  // What serves m rows: tenon_kernel_segment.
  tenon_segment segment(std::int64_t m) const {
    tenon_segment segment{};
    segment.size = sizeof segment;
    check_status(tenon_kernel_segment(handle_.get(), m, &segment));
    return segment;
  }
  tenon_kernel* get() const { return handle_.get(); }

 private:
  struct Close {
    void operator()(tenon_kernel* kernel) const { tenon_kernel_close(kernel); }
  };
  std::unique_ptr<tenon_kernel, Close> handle_;
};

// What may be said at bind; the defaults are the C API's.
struct Binding {
  std::int64_t m_min = 1;
  bool dependent = false, exclusive = false, vendor_library = true;
  std::string attributes;   // "eps=1e-05"
  std::string layouts;      // "w=n,k": how inputs lie in memory, where not as the program has them
  std::string row_strides;  // "x=640,y=1024": elements between rows, where rows are apart
  bool keep_weights = false;  // no plan that keeps a copy of the weights in another form
};

// A tuning database opened for a device (tenon_library).
class Library {
 public:
  // `database` empty: the default one. `device`: "auto", "host", "cuda:N".
  explicit Library(const std::string& database = "", const std::string& device = "auto") {
    tenon_library* handle = nullptr;
    check_status(
        tenon_library_open(database.empty() ? nullptr : database.c_str(), device.c_str(), &handle));
    handle_.reset(handle);
  }
  // A packed database in memory, as tenon_embed (CMake) puts it there.
  Library(const void* bytes, std::size_t size, const std::string& device) {
    tenon_library* handle = nullptr;
    check_status(tenon_library_open_bytes(bytes, size, nullptr, device.c_str(), &handle));
    handle_.reset(handle);
  }

  // tenon_bind_with: `inputs` in signature order, activations may be null; returns when the weights
  // are ready. Throws RuntimeError with TENON_NOT_FOUND where nothing stored fits.
  Kernel bind(const std::string& program, const std::string& dims, const std::string& dtype,
              const void* const* inputs, void* stream = nullptr,
              const Binding& binding = {}) const {
    tenon_bind_options options{};
    options.size = sizeof options;
    options.m_min = binding.m_min;
    options.dependent = binding.dependent;
    options.exclusive = binding.exclusive;
    options.no_vendor_library = !binding.vendor_library;
    options.attributes = binding.attributes.empty() ? nullptr : binding.attributes.c_str();
    options.layouts = binding.layouts.empty() ? nullptr : binding.layouts.c_str();
    options.keep_weights = binding.keep_weights;
    options.row_strides = binding.row_strides.empty() ? nullptr : binding.row_strides.c_str();
    tenon_kernel* kernel = nullptr;
    check_status(tenon_bind_with(handle_.get(), program.c_str(), dims.c_str(), dtype.c_str(),
                                 &options, inputs, stream, &kernel));
    return Kernel(kernel);
  }
  std::string device() const { return tenon_library_device(handle_.get()); }

 private:
  struct Close {
    void operator()(tenon_library* library) const { tenon_library_close(library); }
  };
  std::unique_ptr<tenon_library, Close> handle_;
};

}  // namespace tenon

#endif  // TENON_RUNTIME_TENON_HPP_
