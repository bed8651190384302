#include "runtime/cuda/workspace.h"

#include "ir/error.h"

namespace tenon::runtime::cuda {

namespace {

// Allows allocation while another stream of this thread is being captured.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) { driver_.exchange_capture_mode(&mode_); }
  ~RelaxedCapture() { driver_.exchange_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace

Workspaces::Workspaces(std::shared_ptr<const Context> context, std::vector<std::size_t> sizes)
    : context_(std::move(context)), sizes_(std::move(sizes)) {
  if (!sizes_.empty()) slots_[0].set.store(make().release());
}

std::unique_ptr<Workspaces::Set> Workspaces::make() const {
  const Driver& d = context_->driver();
  Scope scope(*context_);
  RelaxedCapture relaxed(d);
  auto set = std::make_unique<Set>();
  CUstream filler = nullptr;
  d.check(d.stream_create(&filler, CU_STREAM_NON_BLOCKING), "creating a stream");
  for (std::size_t bytes : sizes_) {
    set->memory.push_back(std::make_unique<CudaMemory>(context_, bytes));
    set->addresses.push_back(reinterpret_cast<CUdeviceptr>(set->memory.back()->data()));
    if (bytes) d.memset_async(set->addresses.back(), 0, bytes, filler);
  }
  CUresult result = d.stream_synchronize(filler);
  d.stream_destroy(filler);
  d.check(result, "clearing the workspace");
  return set;
}

const CUdeviceptr* Workspaces::of(CUstream stream) {
  if (sizes_.empty()) return nullptr;
  const std::uintptr_t key = reinterpret_cast<std::uintptr_t>(stream) + 1;
  for (Slot& slot : slots_) {
    std::uintptr_t owner = slot.owner.load(std::memory_order_acquire);
    if (owner == 0 && slot.owner.compare_exchange_strong(owner, key, std::memory_order_acq_rel)) owner = key;
    if (owner == key) return set_of(slot)->addresses.data();
  }
  throw DeviceError("more than 64 streams launch one executable that needs workspace; load it once more for the others");
}

// Launches on one stream come from one thread at a time, or are ordered by the caller; two
// that meet here make one set too many, and the loser frees its own.
Workspaces::Set* Workspaces::set_of(Slot& slot) {
  if (Set* set = slot.set.load(std::memory_order_acquire)) return set;
  std::unique_ptr<Set> made = make();
  Set* none = nullptr;
  if (slot.set.compare_exchange_strong(none, made.get(), std::memory_order_acq_rel)) return made.release();
  return none;
}

}  // namespace tenon::runtime::cuda
