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

// What tells streams apart: the handle, but for the one handle that means another stream in
// each thread, and the two that mean the default stream.
std::uintptr_t identity(CUstream stream) {
  static thread_local const char own = 0;
  if (stream == CU_STREAM_PER_THREAD) return reinterpret_cast<std::uintptr_t>(&own);
  if (stream == CU_STREAM_LEGACY) return 0;
  return reinterpret_cast<std::uintptr_t>(stream);
}

}  // namespace

Workspaces::Workspaces(std::shared_ptr<const Context> context, Sizes sizes, std::int64_t m,
                       std::int64_t m_max)
    : context_(std::move(context)),
      sizes_(std::move(sizes)),
      m_max_(m_max),
      needed_(!sizes_(m).empty()) {
  if (needed_) spare_.store(make(m).release());
}

Workspaces::~Workspaces() {
  delete spare_.load();
  for (List* list : {&streams_, &captures_})
    for (Slot* slot = list->load(); slot != nullptr;) {
      Slot* next = slot->next;
      delete slot;
      slot = next;
    }
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
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t capture = 0;
  // A failure (a default stream while another is captured) is the launch's to report.
  const CUresult asked =
      context_->driver().capture_info(stream, &status, &capture, nullptr, nullptr, nullptr);
  if (asked != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return set_of(slot_of(streams_, identity(stream), 0), m)->addresses.data();
  return set_of(slot_of(captures_, identity(stream), capture), m)->addresses.data();
}

Workspaces::Slot* Workspaces::find(Slot* from, const Slot* until, std::uintptr_t stream,
                                   std::uint64_t capture) {
  for (Slot* slot = from; slot != until; slot = slot->next)
    if (slot->stream == stream && slot->capture == capture) return slot;
  return nullptr;
}

Workspaces::Slot& Workspaces::slot_of(List& list, std::uintptr_t stream, std::uint64_t capture) {
  Slot* head = list.load(std::memory_order_acquire);
  if (Slot* found = find(head, nullptr, stream, capture)) return *found;
  auto made = std::make_unique<Slot>();
  made->stream = stream;
  made->capture = capture;
  made->next = head;
  // Another thread that added a slot meanwhile may have added this very one.
  while (!list.compare_exchange_weak(head, made.get(), std::memory_order_acq_rel)) {
    if (Slot* found = find(head, made->next, stream, capture)) return *found;
    made->next = head;
  }
  Slot& slot = *made.release();
  if (capture == 0) {
    Set* none = nullptr;
    if (Set* spare = spare_.exchange(nullptr))
      if (!slot.set.compare_exchange_strong(none, spare, std::memory_order_acq_rel)) delete spare;
  }
  return slot;
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
