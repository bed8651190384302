#include "measure/storage.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <cmath>
#include <cstring>

#include "ir/error.h"

namespace tenon::measure {

namespace {

constexpr std::byte kGuard{0xa5};

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

GuardedBuffer::GuardedBuffer(runtime::Device& device, std::size_t bytes)
    : device_(device), memory_(device.allocate(bytes + 2 * kGuardBytes)), bytes_(bytes) {
  device.fill(memory_->data(), static_cast<std::uint8_t>(kGuard), bytes + 2 * kGuardBytes);
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

void GuardedBuffer::poison() { device_.fill(data(), kPoison, bytes_); }

bool GuardedBuffer::intact(std::int64_t* where) const {
  std::vector<std::byte> zone(kGuardBytes);
  const std::byte* base = static_cast<const std::byte*>(memory_->data());
  for (std::size_t at : {std::size_t{0}, kGuardBytes + bytes_}) {
    device_.download(zone.data(), base + at, kGuardBytes);
    for (std::size_t i = 0; i < kGuardBytes; ++i) {
      if (zone[i] == kGuard) continue;
      if (where)
        *where = static_cast<std::int64_t>(at + i) - static_cast<std::int64_t>(kGuardBytes);
      return false;
    }
  }
  return true;
}

}  // namespace tenon::measure
