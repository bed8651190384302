// Where a runner is, told so that another process can see which candidate hangs or kills it.
#pragma once

#include <cstdint>

namespace tenon::measure {

class Watch {
 public:
  virtual ~Watch() = default;
  // From here on candidate `index` of the request runs on the device, for `limit_s` at most.
  virtual void enter(int index, double limit_s) {}
  virtual void leave() {}
};

// Enters for as long as it lives, where there is a watch. Costs two stores to memory; stands
// outside of what is timed.
class Watched {
 public:
  Watched(Watch* watch, int index, double limit_s) : watch_(watch) {
    if (watch_ != nullptr) watch_->enter(index, limit_s);
  }
  ~Watched() {
    if (watch_ != nullptr) watch_->leave();
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  Watch* watch_;
};

}  // namespace tenon::measure
