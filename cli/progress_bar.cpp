#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace tenon::cli {

using Clock = std::chrono::steady_clock;

ProgressBar::ProgressBar() : terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressBar::begin(const std::string& step, std::int64_t total) {
  std::lock_guard lock(mutex_);
  step_ = step;
  total_ = total;
  done_ = 0;
  start_ = drawn_ = Clock::now();
  if (terminal_) draw();
}

void ProgressBar::advance(std::int64_t units) {
  std::lock_guard lock(mutex_);
  done_ += units;
  if (!terminal_ || Clock::now() - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = Clock::now();
  draw();
}

void ProgressBar::end(const std::string& summary, double seconds) {
  std::lock_guard lock(mutex_);
  erase();
  fmt::print(stderr, "{:<22} {} ({:.1f} s)\n", step_, summary, seconds);
  std::fflush(stderr);
}

void ProgressBar::note(const std::string& sentence) {
  std::lock_guard lock(mutex_);
  erase();
  fmt::print(stderr, "{}\n", sentence);
}

void ProgressBar::clear() {
  std::lock_guard lock(mutex_);
  erase();
  drawn_ = {};  // drawn again by the next advance
  std::fflush(stderr);
}

void ProgressBar::draw() {
  constexpr std::int64_t kWidth = 30;
  if (total_ <= 0) {
    fmt::print(stderr, "\r\033[K{} …", step_);
  } else {
    std::int64_t filled = std::min(kWidth, done_ * kWidth / total_);
    std::string bar;
    for (std::int64_t i = 0; i < kWidth; ++i) bar += i < filled ? "█" : "░";
    std::string eta;
    double spent = std::chrono::duration<double>(Clock::now() - start_).count();
    if (done_ > 0 && done_ < total_)
      eta = fmt::format("  {:.0f} s left",
                        spent / static_cast<double>(done_) * static_cast<double>(total_ - done_));
    fmt::print(stderr, "\r\033[K{:<22} {} {}/{}{}", step_, bar, done_, total_, eta);
  }
  std::fflush(stderr);
}

void ProgressBar::erase() {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}

}  // namespace tenon::cli
