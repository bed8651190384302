#include "runtime/cuda/tensor_map.h"

#include <fmt/format.h>

#include <cstring>

#include "ir/error.h"

namespace tenon::runtime::cuda {

TensorMapCache::TensorMapCache(const Driver& driver, const ir::TensorMapSpec& spec, ir::DType dtype)
    : driver_(driver), spec_(spec), dtype_(dtype) {
  if (driver.tensor_map_encode == nullptr)
    throw DeviceError(
        "the CUDA driver is too old for this plan: it lacks cuTensorMapEncodeTiled (CUDA 12 or "
        "later is needed)");
  if (spec.box_columns < 1 || spec.box_columns > 256)
    throw UserError("columns of a tensor map's box", std::to_string(spec.box_columns), "1 to 256");
  if (spec.swizzle_bytes != 0 && spec.swizzle_bytes != 32 && spec.swizzle_bytes != 64 &&
      spec.swizzle_bytes != 128)
    throw UserError("swizzle of a tensor map", std::to_string(spec.swizzle_bytes),
                    "0, 32, 64 or 128");
  int l2 = spec.l2_promotion_bytes;
  if (l2 != 0 && l2 != 64 && l2 != 128 && l2 != 256)
    throw UserError("L2 promotion of a tensor map", std::to_string(l2), "0, 64, 128 or 256");
}

void TensorMapCache::get(CUtensorMap& to, CUdeviceptr address, const std::int64_t* extents) {
  const Shape shape{address, static_cast<std::uint64_t>(spec_.rows.evaluate(extents)),
                    static_cast<std::uint64_t>(spec_.columns.evaluate(extents)),
                    static_cast<std::uint64_t>(spec_.row_stride.evaluate(extents)),
                    static_cast<std::uint64_t>(spec_.box_rows.evaluate(extents))};
  for (const Entry& entry : entries_)
    if (read(entry, shape, to)) return;
  encode(to, shape);
  write(entries_[next_.fetch_add(1, std::memory_order_relaxed) % entries_.size()], shape, to);
}

bool TensorMapCache::read(const Entry& entry, const Shape& shape, CUtensorMap& to) {
  const std::uint32_t before = entry.sequence.load(std::memory_order_acquire);
  if (before == 0 || (before & 1)) return false;
  const auto key = key_of(shape);
  for (std::size_t i = 0; i < key.size(); ++i)
    if (entry.key[i].load(std::memory_order_acquire) != key[i]) return false;
  std::uint64_t words[kWords];
  for (std::size_t i = 0; i < kWords; ++i)
    words[i] = entry.words[i].load(std::memory_order_acquire);
  if (entry.sequence.load(std::memory_order_relaxed) != before) return false;
  std::memcpy(&to, words, sizeof to);
  return true;
}

void TensorMapCache::write(Entry& entry, const Shape& shape, const CUtensorMap& from) {
  std::uint32_t before = entry.sequence.load(std::memory_order_relaxed);
  // Another thread is writing here: let it.
  if ((before & 1) ||
      !entry.sequence.compare_exchange_strong(before, before + 1, std::memory_order_acq_rel))
    return;
  const auto key = key_of(shape);
  std::uint64_t words[kWords];
  std::memcpy(words, &from, sizeof from);
  for (std::size_t i = 0; i < key.size(); ++i)
    entry.key[i].store(key[i], std::memory_order_release);
  for (std::size_t i = 0; i < kWords; ++i)
    entry.words[i].store(words[i], std::memory_order_release);
  entry.sequence.store(before + 2, std::memory_order_release);
}

void TensorMapCache::encode(CUtensorMap& to, const Shape& shape) const {
  const std::uint64_t size = ir::size_of(dtype_);
  const CUtensorMapDataType type = dtype_ == ir::DType::kBF16  ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                   : dtype_ == ir::DType::kF16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                               : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  const CUtensorMapSwizzle swizzle = spec_.swizzle_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                     : spec_.swizzle_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                     : spec_.swizzle_bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                                 : CU_TENSOR_MAP_SWIZZLE_NONE;
  const CUtensorMapL2promotion promotion =
      spec_.l2_promotion_bytes == 256   ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B
      : spec_.l2_promotion_bytes == 128 ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B
      : spec_.l2_promotion_bytes == 64  ? CU_TENSOR_MAP_L2_PROMOTION_L2_64B
                                        : CU_TENSOR_MAP_L2_PROMOTION_NONE;
  const cuuint64_t dims[2] = {shape.columns, shape.rows};
  const cuuint64_t strides[1] = {shape.row_stride * size};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(spec_.box_columns),
                             static_cast<cuuint32_t>(shape.box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  CUresult result = driver_.tensor_map_encode(
      &to, type, 2, reinterpret_cast<void*>(shape.address), dims, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    driver_.check(result, fmt::format("a tensor map of {} x {} elements with row stride {} at "
                                      "address {:#x} (address and row stride must be "
                                      "multiples of 16 bytes)",
                                      shape.rows, shape.columns, shape.row_stride, shape.address));
}

}  // namespace tenon::runtime::cuda
