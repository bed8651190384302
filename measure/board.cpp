#include "measure/board.h"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <new>

#include "ir/error.h"

namespace tenon::measure {

namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Board::Board() {
  descriptor_ = memfd_create("tenon_board", MFD_CLOEXEC);
  if (descriptor_ < 0 || ftruncate(descriptor_, sizeof(Page)) != 0)
    throw DeviceError("a worker cannot be started: no memory can be shared with it");
  map();
  new (page_) Page;
  leave();
}

Board::Board(int descriptor) : descriptor_(descriptor) { map(); }

Board::~Board() {
  munmap(page_, sizeof(Page));
  close(descriptor_);
}

void Board::map() {
  void* memory = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED)
    throw DeviceError("a worker cannot be started: no memory can be shared with it");
  page_ = static_cast<Page*>(memory);
}

void Board::enter(int index, double limit_s) {
  page_->deadline_ns.store(now_ns() + static_cast<std::int64_t>(limit_s * 1e9),
                           std::memory_order_relaxed);
  page_->candidate.store(index, std::memory_order_release);
}

void Board::leave() { page_->candidate.store(-1, std::memory_order_release); }

bool Board::overdue() const {
  return running() >= 0 && now_ns() > page_->deadline_ns.load(std::memory_order_relaxed);
}

}  // namespace tenon::measure
