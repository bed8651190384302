// What is timed: candidates with weights bound, over sets of buffers that calls rotate over.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/workload.h"
#include "measure/measure.h"
#include "measure/storage.h"
#include "runtime/device.h"

namespace tenon::measure {

// One candidate; where it has prepared weights one binding for each set, made when it is first
// needed, else one for all.
struct Contender {
  const Candidate* candidate = nullptr;
  int index = 0;                                               // in the request
  std::vector<std::unique_ptr<runtime::Executable>> bindings;  // null: not made yet
  Timing timing;
  double estimate_us = 0;  // of one call
  bool dropped = false;    // far behind the best at first sight: not sampled further
  int calls = 1;           // of one sample

  bool ok() const { return timing.status == Status::kOk; }
  void fail(Status status, const std::string& reason) {
    timing.status = status;
    timing.reason = reason;
  }
  std::size_t slot(int set) const {
    return bindings.size() == 1 ? 0 : static_cast<std::size_t>(set);
  }
  runtime::Executable& binding(int set) { return *bindings[slot(set)]; }
};

// Inputs, weights and outputs of every set, kept for all that is timed on the device. All sets
// hold the same random data: caches go by address.
class Rotation {
 public:
  // `wanted_bytes`: what all sets together should exceed. 0: one set.
  Rotation(runtime::Device& device, const ir::Workload& workload, double wanted_bytes);

  // Chooses the number of sets for contenders that run these candidates: as many as wanted, within
  // `memory_limit` for buffers and prepared weights together.
  void begin(const std::vector<Candidate>& candidates, double memory_limit);

  int sets() const { return sets_; }
  std::int64_t m() const { return m_; }
  const void* const* inputs(int set) const { return inputs_[static_cast<std::size_t>(set)].data(); }
  void* const* outputs(int set) { return outputs_[static_cast<std::size_t>(set)].data(); }

  // Loads a candidate; failures become the contender's status.
  Contender make(const Candidate& candidate);
  // Makes buffers and bindings of `count` sets from `first` on (cyclically), where they are not
  // there yet. Throws DeviceError, UserError.
  void ensure(Contender& contender, int first, int count);
  // Poisons the outputs of set 0, and says whether they hold finite numbers only.
  void poison();
  bool written(bool sampled, std::string* what);
  std::string text() const;  // "57 sets of 1.1 MB"

 private:
  void* buffer(std::size_t bytes);
  void make_set();

  runtime::Device& device_;
  const ir::Workload& workload_;
  std::int64_t m_ = 1;
  int sets_ = 1;
  double wanted_ = 1;                         // sets
  double set_bytes_ = 0;                      // touched by a call, at most
  std::vector<std::vector<std::byte>> data_;  // of the inputs
  std::vector<std::unique_ptr<runtime::Memory>> memory_;
  std::vector<std::vector<const void*>> inputs_;  // by set, those made so far
  std::vector<std::vector<void*>> outputs_;
  std::vector<std::size_t> output_bytes_;
  std::vector<std::optional<RowsApart>> output_rows_;
};

// The reason of a candidate that asks for more memory than there is.
inline constexpr const char* kOutOfMemory = "there is not enough memory for it";

// Seconds since some fixed point, monotonic.
double now_s();

}  // namespace tenon::measure
