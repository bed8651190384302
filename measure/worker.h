// The process in which candidates run: what it does, and how it is started and replaced.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "measure/board.h"
#include "measure/wire.h"
#include "runtime/device.h"

namespace tenon::measure {

// The worker's side: answers requests on standard input until it ends or the device is lost. What
// the process prints goes to standard error. `open` is runtime::open_device, but in tests.
using OpenDevice = std::function<std::unique_ptr<runtime::Device>(const std::string& id)>;
int serve(const OpenDevice& open);

// The other side: a worker that runs, with the pipes to it. Killed with the object.
class WorkerProcess {
 public:
  // Throws DeviceError when `program` cannot be executed.
  explicit WorkerProcess(const std::string& program);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  const Board& board() const { return board_; }
  bool send(Message message, const std::string& content);
  // Waits for something to receive, or the end, for 20 ms at most.
  bool readable() const;
  bool receive(Frame& frame);
  // Ends it if need be; how it ended, in a clause ("was killed by signal 11 (Segmentation fault)").
  std::string end();

 private:
  Board board_;
  pid_t process_ = -1;
  int requests_ = -1, replies_ = -1;
};

}  // namespace tenon::measure
