// Tensor maps of a plan, encoded on the CPU and remembered without locks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <tuple>

#include "ir/plan.h"
#include "runtime/cuda/driver.h"

namespace tenon::runtime::cuda {

// One TensorMapSpec. An activation's address and M change between calls; a few recent maps
// are kept, each guarded by a sequence number, so that concurrent launches neither wait nor
// see a torn map.
class TensorMapCache {
 public:
  // Throws UserError for a specification that no tensor map can express.
  TensorMapCache(const Driver& driver, const ir::TensorMapSpec& spec, ir::DType dtype);
  // The map over `address` for these extents. Throws DeviceError when the driver refuses it.
  void get(CUtensorMap& to, CUdeviceptr address, const std::int64_t* extents);
  int buffer() const { return spec_.buffer; }

 private:
  static constexpr std::size_t kWords = sizeof(CUtensorMap) / sizeof(std::uint64_t);
  struct Shape {
    std::uint64_t address, rows, columns, row_stride, box_rows;
  };
  using Key = std::array<std::uint64_t, 5>;
  static Key key_of(const Shape& shape) {
    return {shape.address, shape.rows, shape.columns, shape.row_stride, shape.box_rows};
  }
  struct Entry {
    std::atomic<std::uint32_t> sequence{0};  // odd while it is written; 0: empty
    std::array<std::atomic<std::uint64_t>, std::tuple_size_v<Key>> key{};
    std::array<std::atomic<std::uint64_t>, kWords> words{};
  };

  static bool read(const Entry& entry, const Shape& shape, CUtensorMap& to);
  static void write(Entry& entry, const Shape& shape, const CUtensorMap& from);
  void encode(CUtensorMap& to, const Shape& shape) const;

  const Driver& driver_;
  ir::TensorMapSpec spec_;
  ir::DType dtype_;
  std::array<Entry, 4> entries_;
  std::atomic<std::uint32_t> next_{0};
};

}  // namespace tenon::runtime::cuda
