#include "measure/storage.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/error.h"

namespace tenon::measure {

namespace {

// Guard zones hold a NaN in every type, whatever element of them is read: what is read past an end
// shows in results even where it is multiplied by a zero. It is another NaN than the poison and
// than those that arithmetic makes, so that writing one is seen.
constexpr std::byte guard(std::size_t at) {
  return at % 2 == 0 ? std::byte{0xa5} : std::byte{0xff};
}

template <class F>
void each(std::size_t count, const F& f) {
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, count, 65536), [&](const auto& r) {
    for (std::size_t i = r.begin(); i < r.end(); ++i) f(i);
  });
}

}  // namespace

std::vector<std::byte> to_bytes(const std::vector<float>& values, ir::DType dtype) {
  std::vector<std::byte> bytes(values.size() * ir::size_of(dtype));
  if (dtype == ir::DType::kF32) {
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  each(values.size(), [&](std::size_t i) {
    std::uint16_t bits = ir::to_bits16(dtype, values[i]);
    std::memcpy(&bytes[i * 2], &bits, 2);
  });
  return bytes;
}

std::vector<float> from_bytes(const std::vector<std::byte>& bytes, ir::DType dtype,
                              std::size_t first, std::size_t count) {
  std::vector<float> values(count);
  TENON_CHECK((first + count) * ir::size_of(dtype) <= bytes.size(),
              "elements lie within the buffer");
  if (dtype == ir::DType::kF32) {
    if (count) std::memcpy(values.data(), bytes.data() + first * 4, count * 4);
    return values;
  }
  each(count, [&](std::size_t i) {
    std::uint16_t bits;
    std::memcpy(&bits, &bytes[(first + i) * 2], 2);
    values[i] = ir::from_bits16(dtype, bits);
  });
  return values;
}

std::vector<std::byte> spread(const std::vector<std::byte>& dense, const RowsApart& rows,
                              std::byte gap) {
  const std::size_t count = dense.size() / rows.bytes;
  std::vector<std::byte> apart(rows.total(count), gap);
  for (std::size_t r = 0; r < count; ++r)
    std::memcpy(&apart[r * rows.stride], &dense[r * rows.bytes], rows.bytes);
  return apart;
}

std::vector<std::byte> gathered(const std::vector<std::byte>& apart, const RowsApart& rows) {
  const std::size_t count = (apart.size() + rows.stride - rows.bytes) / rows.stride;
  std::vector<std::byte> dense(count * rows.bytes);
  for (std::size_t r = 0; r < count; ++r)
    std::memcpy(&dense[r * rows.bytes], &apart[r * rows.stride], rows.bytes);
  return dense;
}

std::int64_t changed_gap(const std::vector<std::byte>& apart, const RowsApart& rows,
                         std::byte gap) {
  for (std::size_t i = 0; i < apart.size(); ++i)
    if (i % rows.stride >= rows.bytes && apart[i] != gap) return static_cast<std::int64_t>(i);
  return -1;
}

std::optional<RowsApart> rows_apart(const ir::Workload& workload, const std::string& name,
                                    const ir::Axes& axes, ir::DType dtype) {
  const auto found = workload.row_strides.find(name);
  if (found == workload.row_strides.end()) return std::nullopt;
  const std::size_t size = ir::size_of(ir::bind(dtype, workload.dtype));
  return RowsApart{static_cast<std::size_t>(ir::row_elements(axes, workload)) * size,
                   static_cast<std::size_t>(found->second) * size};
}

std::int64_t find_nonfinite(const std::vector<std::byte>& bytes, ir::DType dtype, std::size_t first,
                            std::size_t count) {
  // All ones in the exponent: Inf or NaN.
  const std::uint32_t exponent = dtype == ir::DType::kBF16  ? 0x7f80u
                                 : dtype == ir::DType::kF16 ? 0x7c00u
                                                            : 0x7f800000u;
  const std::size_t size = ir::size_of(dtype);
  for (std::size_t i = first; i < first + count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &bytes[i * size], size);
    if ((bits & exponent) == exponent) return static_cast<std::int64_t>(i);
  }
  return -1;
}

GuardedBuffer::GuardedBuffer(runtime::Device& device, std::size_t bytes, std::size_t shift)
    : device_(device),
      memory_(device.allocate(bytes + shift + 2 * kGuardBytes)),
      bytes_(bytes),
      shift_(shift) {
  std::vector<std::byte> zone(kGuardBytes + shift);
  for (std::size_t i = 0; i < zone.size(); ++i) zone[i] = guard(i);
  device.upload(memory_->data(), zone.data(), zone.size());
  const std::size_t end = kGuardBytes + shift + bytes;
  for (std::size_t i = 0; i < kGuardBytes; ++i) zone[i] = guard(end + i);
  device.upload(static_cast<std::byte*>(memory_->data()) + end, zone.data(), kGuardBytes);
}

void GuardedBuffer::upload(const std::vector<std::byte>& from) {
  TENON_CHECK(from.size() == bytes_, "an upload fills its buffer");
  device_.upload(data(), from.data(), bytes_);
}

std::vector<std::byte> GuardedBuffer::download() const { return download(0, bytes_); }

std::vector<std::byte> GuardedBuffer::download(std::size_t first, std::size_t size) const {
  TENON_CHECK(first + size <= bytes_, "a download lies within its buffer");
  std::vector<std::byte> bytes(size);
  device_.download(bytes.data(), static_cast<const std::byte*>(data()) + first, size);
  return bytes;
}

bool GuardedBuffer::holds(const std::vector<std::byte>& bytes) const {
  constexpr std::size_t kPiece = std::size_t{1} << 24;  // stays in the caches' reach
  if (bytes.size() != bytes_) return false;
  std::vector<std::byte> piece(std::min(kPiece, bytes_));
  for (std::size_t at = 0; at < bytes_; at += kPiece) {
    const std::size_t size = std::min(kPiece, bytes_ - at);
    device_.download(piece.data(), static_cast<const std::byte*>(data()) + at, size);
    if (std::memcmp(piece.data(), bytes.data() + at, size) != 0) return false;
  }
  return true;
}

void GuardedBuffer::poison() { device_.fill(data(), kPoison, bytes_); }

bool GuardedBuffer::intact(std::int64_t* where) const {
  const std::size_t before = kGuardBytes + shift_, end = before + bytes_;
  const std::byte* base = static_cast<const std::byte*>(memory_->data());
  for (const auto& [at, size] : {std::pair{std::size_t{0}, before}, {end, kGuardBytes}}) {
    std::vector<std::byte> zone(size);
    device_.download(zone.data(), base + at, size);
    for (std::size_t i = 0; i < size; ++i) {
      if (zone[i] == guard(at + i)) continue;
      if (where) *where = static_cast<std::int64_t>(at + i) - static_cast<std::int64_t>(before);
      return false;
    }
  }
  return true;
}

}  // namespace tenon::measure
