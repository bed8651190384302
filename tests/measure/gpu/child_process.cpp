#include "child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace tenon::test {

namespace {

std::string this_program() {
  std::string path(4096, '\0');
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  if (size <= 0) throw std::runtime_error("cannot read /proc/self/exe");
  path.resize(static_cast<std::size_t>(size));
  return path;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& t : texts) out.push_back(t.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& prefix, const std::string& test,
                      const std::string& variable, const std::string& log, double limit_s) {
  std::vector<std::string> arguments = prefix;
  arguments.push_back(this_program());
  arguments.push_back("--gtest_filter=" + test);
  arguments.push_back("--gtest_brief=1");
  std::vector<std::string> environment;
  for (char** e = environ; *e != nullptr; ++e) environment.emplace_back(*e);
  environment.push_back(variable);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = 0;
  const auto start = std::chrono::steady_clock::now();
  const int error = posix_spawnp(&pid, arguments[0].c_str(), &actions, &attributes,
                                 pointers(arguments).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw std::runtime_error("cannot start " + arguments[0]);

  ChildResult result;
  auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (elapsed() > limit_s && result.end != ChildResult::kTimedOut) {
      result.end = ChildResult::kTimedOut;
      kill(-pid, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  result.seconds = elapsed();
  if (result.end == ChildResult::kTimedOut) return result;
  if (WIFSIGNALED(status)) {
    result.end = ChildResult::kSignalled;
    result.code = WTERMSIG(status);
  } else {
    result.code = WEXITSTATUS(status);
  }
  return result;
}

}  // namespace tenon::test
