// Scratch of an executable, one set for each stream that launches it, found without locks.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "runtime/cuda/context.h"

namespace tenon::runtime::cuda {

class Workspaces {
 public:
  // `sizes`: bytes of each buffer. The first set is made at once, so that a launch on one
  // stream allocates nothing.
  Workspaces(std::shared_ptr<const Context> context, std::vector<std::size_t> sizes);

  // Addresses of the set of `stream`, zero-filled when it was made; null when there are none.
  // The first launch of a further stream allocates. Throws DeviceError when more than 64
  // streams use one executable.
  const CUdeviceptr* of(CUstream stream);

 private:
  struct Set {
    std::vector<std::unique_ptr<CudaMemory>> memory;
    std::vector<CUdeviceptr> addresses;
  };
  struct Slot {
    std::atomic<std::uintptr_t> owner{0};  // the stream + 1: the default stream is 0
    std::atomic<Set*> set{nullptr};
    ~Slot() { delete set.load(); }
  };
  std::unique_ptr<Set> make() const;
  Set* set_of(Slot& slot);

  std::shared_ptr<const Context> context_;
  std::vector<std::size_t> sizes_;
  std::array<Slot, 64> slots_;
};

}  // namespace tenon::runtime::cuda
