#include "runtime/cuda/workspace.h"

#include <algorithm>

#include "ir/error.h"

namespace tenon::runtime::cuda {

namespace {

// Allows allocation while another stream of this thread is being captured.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) {
    driver_.exchange_capture_mode(&mode_);
  }
  ~RelaxedCapture() { driver_.exchange_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace

Workspaces::Workspaces(std::shared_ptr<const Context> context, Sizes sizes, std::int64_t m,
                       std::int64_t m_max)
    : context_(std::move(context)),
      sizes_(std::move(sizes)),
      m_max_(m_max),
      needed_(!sizes_(m).empty()) {
  if (needed_) slots_[0].set.store(make(m).release());
}

std::unique_ptr<Workspaces::Set> Workspaces::make(std::int64_t m) const {
  const Driver& d = context_->driver();
  Scope scope(*context_);
  RelaxedCapture relaxed(d);
  auto set = std::make_unique<Set>();
  set->m = m;
  CUstream filler = nullptr;
  d.check(d.stream_create(&filler, CU_STREAM_NON_BLOCKING), "creating a stream");
  try {
    for (std::size_t bytes : sizes_(m)) {
      set->memory.push_back(std::make_unique<CudaMemory>(context_, bytes));
      set->addresses.push_back(reinterpret_cast<CUdeviceptr>(set->memory.back()->data()));
      if (bytes)
        d.check(d.memset_async(set->addresses.back(), 0, bytes, filler), "clearing the workspace");
    }
    d.check(d.stream_synchronize(filler), "clearing the workspace");
  } catch (...) {
    d.stream_destroy(filler);
    throw;
  }
  d.stream_destroy(filler);
  return set;
}

const CUdeviceptr* Workspaces::of(CUstream stream, std::int64_t m) {
  if (!needed_) return nullptr;
  const std::uintptr_t key = reinterpret_cast<std::uintptr_t>(stream) + 1;
  for (Slot& slot : slots_) {
    std::uintptr_t owner = slot.owner.load(std::memory_order_acquire);
    if (owner == 0 && slot.owner.compare_exchange_strong(owner, key, std::memory_order_acq_rel))
      owner = key;
    if (owner == key) return set_of(slot, m)->addresses.data();
  }
  throw DeviceError(
      "more than 64 streams launch one executable that needs workspace; load it once more for the "
      "others");
}

// Launches on one stream come from one thread at a time, or are ordered by the caller; where
// two meet here all the same, one makes a set too many and takes the other's.
Workspaces::Set* Workspaces::set_of(Slot& slot, std::int64_t m) {
  for (;;) {
    Set* have = slot.set.load(std::memory_order_acquire);
    if (have && have->m >= m) return have;
    // Twice as much as before, so that a growing m allocates rarely.
    std::unique_ptr<Set> made = make(have ? std::max(m, std::min(m_max_, 2 * have->m)) : m);
    made->outgrown.reset(have);
    if (slot.set.compare_exchange_strong(have, made.get(), std::memory_order_acq_rel))
      return made.release();
    static_cast<void>(made->outgrown.release());  // it is not ours
  }
}

}  // namespace tenon::runtime::cuda
