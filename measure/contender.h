// What is timed: candidates with weights bound, over sets of buffers that calls rotate over.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/workload.h"
#include "measure/measure.h"
#include "runtime/device.h"

namespace tenon::measure {

// One candidate; one binding for each set where it has prepared weights, else one for all.
struct Contender {
  const Candidate* candidate = nullptr;
  std::vector<std::unique_ptr<runtime::Executable>> bindings;
  Timing timing;
  double estimate_us = 0;  // of one call
  int calls = 1;           // of one sample

  bool ok() const { return timing.status == Status::kOk; }
  void fail(Status status, const std::string& reason) {
    timing.status = status;
    timing.reason = reason;
  }
  runtime::Executable& binding(int set) {
    return *bindings[bindings.size() == 1 ? 0 : static_cast<std::size_t>(set)];
  }
};

// Inputs, weights and outputs of every set. All hold the same random data: caches go by address.
class Rotation {
 public:
  // As many sets as it takes to exceed `cold_bytes`, within `memory_limit` for all contenders.
  Rotation(runtime::Device& device, const ir::Workload& workload,
           const std::vector<Candidate>& candidates, double cold_bytes, double memory_limit);

  int sets() const { return sets_; }
  double bytes_per_set() const { return set_bytes_; }  // touched by a call, at most
  std::int64_t m() const { return m_; }
  const void* const* inputs(int set) const { return inputs_[static_cast<std::size_t>(set)].data(); }
  void* const* outputs(int set) { return outputs_[static_cast<std::size_t>(set)].data(); }

  // Loads and prepares a candidate for every set and launches each binding once; failures become
  // the contender's status.
  Contender make(const Candidate& candidate);
  void poison();
  // Whether every output of every set up to `sets` holds finite numbers only.
  bool written(int sets, std::string* what);
  std::string text() const;  // "57 sets of 1.1 MB"

 private:
  void* buffer(std::size_t bytes);

  runtime::Device& device_;
  const ir::Workload& workload_;
  std::int64_t m_ = 1;
  int sets_ = 1;
  double set_bytes_ = 0;
  std::vector<std::unique_ptr<runtime::Memory>> memory_;
  std::vector<std::vector<const void*>> inputs_;
  std::vector<std::vector<void*>> outputs_;
  std::vector<std::size_t> output_bytes_;
};

// Seconds since some fixed point, monotonic.
double now_s();

}  // namespace tenon::measure
