// Progress on stderr: a bar with the time left on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <mutex>

#include "optimizer/progress.h"

namespace tenon::cli {

class ProgressBar : public optimizer::Progress {
 public:
  ProgressBar();
  void begin(const std::string& step, std::int64_t total) override;
  void advance(std::int64_t units) override;
  void end(const std::string& summary, double seconds) override;
  // Wipes the bar off the terminal, for a line of output.
  void clear();
  void note(const std::string& sentence) override;

 private:
  void draw();
  void erase();

  std::mutex mutex_;
  bool terminal_;
  std::string step_;
  std::int64_t total_ = 0, done_ = 0;
  std::chrono::steady_clock::time_point start_, drawn_;
};

}  // namespace tenon::cli
