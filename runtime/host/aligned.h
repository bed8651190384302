// Bytes on the host, aligned as device memory is.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace tenon::runtime::host {

class AlignedBytes {
 public:
  static constexpr std::size_t kAlignment = 256;
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t size) { resize(size); }
  // Contents are lost. Throws std::bad_alloc.
  void resize(std::size_t size) {
    data_.reset();
    size_ = 0;
    data_.reset(
        static_cast<std::byte*>(::operator new (size + (size == 0), std::align_val_t{kAlignment})));
    size_ = size;
  }
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Delete {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<std::byte, Delete> data_;
  std::size_t size_ = 0;
};

}  // namespace tenon::runtime::host
