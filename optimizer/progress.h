// How a long command tells what it is doing. The command line draws a bar; tests and
// libraries pass the silent default.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::optimizer {

class Progress {
 public:
  virtual ~Progress() = default;
  // A named step begins; `total` units of work are expected (0: unknown).
  virtual void begin(const std::string& step, std::int64_t total) {}
  virtual void advance(std::int64_t units = 1) {}
  virtual void end(const std::string& summary, double seconds) {}
  // Something the user should know now, in one sentence.
  virtual void note(const std::string& sentence) {}
};

}  // namespace tenon::optimizer
