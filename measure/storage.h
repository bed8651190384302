// Tensors as the bytes that devices hold, and buffers with guard zones around them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ir/dtype.h"
#include "measure/reference.h"
#include "runtime/device.h"

namespace tenon::measure {

std::vector<std::byte> to_bytes(const std::vector<float>& values, ir::DType dtype);
// `count` elements from element `first` on.
std::vector<float> from_bytes(const std::vector<std::byte>& bytes, ir::DType dtype,
                              std::size_t first, std::size_t count);
// Index of the first element that is not a finite number in [first, first + count), or -1.
std::int64_t find_nonfinite(const std::vector<std::byte>& bytes, ir::DType dtype, std::size_t first,
                            std::size_t count);

// Every byte of a poisoned output: a NaN in every type.
inline constexpr std::uint8_t kPoison = 0xff;

// Device memory between two guard zones of a fixed pattern, a NaN in every type.
class GuardedBuffer {
 public:
  static constexpr std::size_t kGuardBytes = 16384;
  // `shift` bytes off the alignment of an allocation.
  GuardedBuffer(runtime::Device& device, std::size_t bytes, std::size_t shift = 0);
  void* data() const { return static_cast<std::byte*>(memory_->data()) + kGuardBytes + shift_; }
  std::size_t size() const { return bytes_; }
  std::size_t shift() const { return shift_; }
  void upload(const std::vector<std::byte>& from);  // exactly size() bytes
  std::vector<std::byte> download() const;
  std::vector<std::byte> download(std::size_t first, std::size_t bytes) const;
  void poison();
  // Whether both guard zones are as they were; otherwise the offset of the first changed byte
  // relative to data() in `where`.
  bool intact(std::int64_t* where) const;

 private:
  runtime::Device& device_;
  std::unique_ptr<runtime::Memory> memory_;
  std::size_t bytes_, shift_;
};

}  // namespace tenon::measure
