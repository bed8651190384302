// Scratch of an executable, one set for each stream that launches it, found without locks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/cuda/context.h"

namespace tenon::runtime::cuda {

class Workspaces {
 public:
  // Bytes of each buffer at `m`.
  using Sizes = std::function<std::vector<std::size_t>(std::int64_t m)>;
  // The first set is made at once for `m`, so that launches of one stream up to `m` allocate
  // nothing; `m_max` bounds growth.
  Workspaces(std::shared_ptr<const Context> context, Sizes sizes, std::int64_t m,
             std::int64_t m_max);

  // Addresses of the set of `stream`, large enough for `m`, zero-filled when it was made; null when
  // there are no buffers. The first launch of a further stream, or with a larger m than before,
  // allocates. Throws DeviceError when more than 64 streams use one executable.
  const CUdeviceptr* of(CUstream stream, std::int64_t m);

 private:
  struct Set {
    std::int64_t m = 0;
    std::vector<std::unique_ptr<CudaMemory>> memory;
    std::vector<CUdeviceptr> addresses;
    std::unique_ptr<Set> outgrown;  // launches in flight, and captured graphs, may still use it
  };
  struct Slot {
    std::atomic<std::uintptr_t> owner{0};  // the stream + 1: the default stream is 0
    std::atomic<Set*> set{nullptr};
    ~Slot() { delete set.load(); }
  };
  std::unique_ptr<Set> make(std::int64_t m) const;
  Set* set_of(Slot& slot, std::int64_t m);

  std::shared_ptr<const Context> context_;
  Sizes sizes_;
  std::int64_t m_max_;
  bool needed_;
  std::array<Slot, 64> slots_;
};

}  // namespace tenon::runtime::cuda
