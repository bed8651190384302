// One page of memory shared by a runner and its worker: which candidate runs, and until when. It
// outlives the worker, so that whoever killed it can be named.
#pragma once

#include <atomic>
#include <cstdint>

#include "measure/watch.h"

namespace tenon::measure {

class Board final : public Watch {
 public:
  Board();                         // makes one
  explicit Board(int descriptor);  // the worker's view of the one behind the descriptor
  ~Board() override;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  int descriptor() const { return descriptor_; }
  void enter(int index, double limit_s) override;
  void leave() override;

  // The candidate that runs, or -1.
  std::int64_t running() const { return page_->candidate.load(std::memory_order_acquire); }
  // Whether it runs for longer than it may.
  bool overdue() const;

 private:
  struct Page {
    std::atomic<std::int64_t> candidate;
    std::atomic<std::int64_t> deadline_ns;  // of the monotonic clock, which all processes share
  };
  void map();
  int descriptor_ = -1;
  Page* page_ = nullptr;
};

}  // namespace tenon::measure
