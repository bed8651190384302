// Scratch of an executable, one set for each stream that launches it, found without locks.
#pragma once

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

  ~Workspaces();

  // Addresses of the set of `stream`, large enough for `m`, zero-filled when it was made; null when
  // there are no buffers. The first launch of a further stream, or with a larger m than before,
  // allocates. A stream that is being captured has a set for each capture: the graph may be
  // replayed on any stream, beside launches on this one and beside other graphs. Throws
  // DeviceError.
  const CUdeviceptr* of(CUstream stream, std::int64_t m);

 private:
  struct Set {
    std::int64_t m = 0;
    std::vector<std::unique_ptr<CudaMemory>> memory;
    std::vector<CUdeviceptr> addresses;
    std::unique_ptr<Set> outgrown;  // launches in flight, and captured graphs, may still use it
  };
  // Of one stream, or of one stream in one capture. Slots are added and never removed.
  struct Slot {
    std::uintptr_t stream = 0;
    std::uint64_t capture = 0;
    std::atomic<Set*> set{nullptr};
    Slot* next = nullptr;
    ~Slot() { delete set.load(); }
  };
  using List = std::atomic<Slot*>;
  static Slot* find(Slot* from, const Slot* until, std::uintptr_t stream, std::uint64_t capture);
  Slot& slot_of(List& list, std::uintptr_t stream, std::uint64_t capture);
  std::unique_ptr<Set> make(std::int64_t m) const;
  Set* set_of(Slot& slot, std::int64_t m);

  std::shared_ptr<const Context> context_;
  Sizes sizes_;
  std::int64_t m_max_;
  bool needed_;
  std::atomic<Set*> spare_{nullptr};  // made when the plan was loaded, for the first stream
  List streams_{nullptr}, captures_{nullptr};
};

}  // namespace tenon::runtime::cuda
