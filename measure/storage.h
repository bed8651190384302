// Tensors as the bytes that devices hold, and buffers with guard zones around them.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/dtype.h"
#include "ir/workload.h"
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

// Where rows of a tensor lie that are apart: bytes of a row, and between rows.
struct RowsApart {
  std::size_t bytes = 0, stride = 0;
  std::size_t total(std::size_t rows) const { return rows ? (rows - 1) * stride + bytes : 0; }
};
// The bytes of dense rows with `gap` in every byte between them, and the way back.
std::vector<std::byte> spread(const std::vector<std::byte>& dense, const RowsApart& rows,
                              std::byte gap);
std::vector<std::byte> gathered(const std::vector<std::byte>& apart, const RowsApart& rows);
// Offset of the first byte between rows that is not `gap`, or -1.
std::int64_t changed_gap(const std::vector<std::byte>& apart, const RowsApart& rows, std::byte gap);
// Of the activation or output `name`; nothing where its rows lie one behind the other.
std::optional<RowsApart> rows_apart(const ir::Workload& workload, const std::string& name,
                                    const ir::Axes& axes, ir::DType dtype);

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
  // Does it hold exactly these bytes?
  bool holds(const std::vector<std::byte>& bytes) const;
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
