#include "child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace tenon::test {

namespace {

constexpr double kLongestEnd = 5;  // seconds that a killed process may take to disappear

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
  // A child runs the test that it is told to, whatever part of all tests this process was given.
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string variable_here = *e;
    if (variable_here.rfind("GTEST_TOTAL_SHARDS=", 0) != 0 &&
        variable_here.rfind("GTEST_SHARD_", 0) != 0)
      environment.push_back(variable_here);
  }
  environment.push_back(variable);

  std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
  const auto start = std::chrono::steady_clock::now();
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("cannot start " + arguments[0]);
  if (pid == 0) {
    // Only calls that are safe between fork and exec. A child in an endless kernel must not outlive
    // this process, however that ends.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    setpgid(0, 0);
    const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || dup2(file, 1) < 0 || dup2(file, 2) < 0) _exit(127);
    execvpe(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  setpgid(pid, pid);  // whichever of the two is first

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
    // The driver may take its time to end a killed process's kernel; it is not waited for longer.
    if (elapsed() > limit_s + kLongestEnd) break;
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
