#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "ir/error.h"
#include "measure/worker.h"

extern char** environ;

namespace tenon::measure {

namespace fs = std::filesystem;

namespace {

constexpr int kBoardDescriptor = 3;  // in the worker

// A pipe whose ends no other child inherits.
struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw DeviceError(fmt::format("a worker cannot be started: {}", std::strerror(errno)));
    read = ends[0];
    write = ends[1];
  }
};

std::string folder_of(const std::string& path) { return fs::path(path).parent_path().string(); }

// A worker that is gone shows as a failed write, not as a signal that ends this process.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
  }
  ~NoSigpipe() {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    const timespec at_once{};
    if (!sigismember(&before_, SIGPIPE)) {
      while (sigtimedwait(&pipe, nullptr, &at_once) > 0) {
      }
      pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

std::string find_worker() {
  const char* named = std::getenv("TENON_WORKER");
  if (named != nullptr && *named != '\0') {
    if (access(named, X_OK) != 0) throw UserError("TENON_WORKER", named, "an executable");
    return named;
  }
  std::vector<std::string> folders;
  std::error_code error;
  folders.push_back(folder_of(fs::read_symlink("/proc/self/exe", error).string()));
  // A library in another program (Python) looks beside itself.
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&find_worker), &info) != 0 && info.dli_fname != nullptr)
    folders.push_back(folder_of(fs::absolute(info.dli_fname, error).string()));
  std::string tried;
  for (const std::string& folder : folders)
    for (const char* place : {"tenon_worker", "../bin/tenon_worker", "../measure/tenon_worker",
                              "../../measure/tenon_worker", "../libexec/tenon/tenon_worker"}) {
      const std::string path = (fs::path(folder) / place).lexically_normal().string();
      if (access(path.c_str(), X_OK) == 0) return path;
      if (tried.empty()) tried = path;
    }
  throw DeviceError(fmt::format(
      "the worker program is missing (looked for {} and beside it); set TENON_WORKER, or "
      "measure with --in-process",
      tried));
}

WorkerProcess::WorkerProcess(const std::string& program) {
  // Two workers must not inherit each other's pipes: spawned one at a time, all ends close on exec.
  Pipe requests, replies;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, requests.read, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, replies.write, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, board_.descriptor(), kBoardDescriptor);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own: an interrupt from the terminal is this process's to handle.
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  char* arguments[] = {const_cast<char*>(program.c_str()), nullptr};
  const int result =
      posix_spawn(&process_, program.c_str(), &files, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  close(requests.read);
  close(replies.write);
  requests_ = requests.write;
  replies_ = replies.read;
  if (result != 0) {
    process_ = -1;
    close(requests_);
    close(replies_);
    throw DeviceError(
        fmt::format("worker '{}' cannot be started: {}", program, std::strerror(result)));
  }
}

WorkerProcess::~WorkerProcess() {
  end();
  close(requests_);
  close(replies_);
}

bool WorkerProcess::send(Message message, const std::string& content) {
  NoSigpipe guard;
  return measure::send(requests_, message, content);
}

bool WorkerProcess::readable() const {
  pollfd descriptor{replies_, POLLIN, 0};
  return poll(&descriptor, 1, 20) > 0;
}

bool WorkerProcess::receive(Frame& frame) { return measure::receive(replies_, frame); }

std::string WorkerProcess::end() {
  if (process_ < 0) return "";
  kill(process_, SIGKILL);  // of no effect where it has ended already
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  return fmt::format("exited with code {}", WEXITSTATUS(status));
}

}  // namespace tenon::measure
