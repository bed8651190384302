#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <new>
#include <thread>

#include "ir/error.h"
#include "measure/local_runner.h"
#include "measure/worker.h"

namespace tenon::measure {

namespace {

constexpr int kBoardDescriptor = 3;

// Ends the process as soon as the one that started it is gone, whatever a candidate is doing.
void end_with_parent(int requests) {
  std::thread([requests] {
    pollfd descriptor{requests, 0, 0};  // only what is always reported: the other end's closing
    for (;;)
      if (poll(&descriptor, 1, -1) > 0 && (descriptor.revents & (POLLHUP | POLLERR)) != 0) _exit(0);
  }).detach();
}

// Should memory run out, this process is the one to go; and a candidate that asks for more than
// the machine has is refused rather than killed.
void bound_memory(bool host) {
  if (std::FILE* file = std::fopen("/proc/self/oom_score_adj", "w")) {
    std::fputs("1000", file);
    std::fclose(file);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // CUDA reserves addresses far beyond its use: there the device's memory is the bound.
  if (!host) return;
  const auto bytes =
      static_cast<rlim_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_AS, &limit);
#endif
}

class Server {
 public:
  Server(const OpenDevice& open, int replies) : open_(open), replies_(replies) {}

  // Answers one request; false when the process is to end.
  bool answer(const Frame& request) {
    try {
      Reader from(request.content);
      Writer to;
      switch (request.message) {
        case Message::kOpen:
          return open(from);
        case Message::kTime:
          return time(from, to);
        case Message::kAccept:
          return accept(from, to);
        default:
          return fail(Failure::kInternal, "an unknown request");
      }
    } catch (const UserError& error) {
      return fail(Failure::kUser, error.what());
    } catch (const DeviceError& error) {
      fail(Failure::kDevice, error.what());
      return false;  // whether the device is sound is not known
    } catch (const std::bad_alloc&) {
      return fail(Failure::kDevice, "there is not enough memory for this workload");
    } catch (const std::exception& error) {
      return fail(Failure::kInternal, error.what());
    }
  }

 private:
  bool open(Reader& from) {
    const std::string id = from.text();
    ir::Workload workload = read_workload(from);
    from.end();
    bound_memory(id == "host");
    runner_ = std::make_unique<LocalRunner>(open_(id), workload, board_);
    return send(replies_, Message::kOpened, "");
  }

  bool time(Reader& from, Writer& to) {
    const Protocol protocol = read_protocol(from);
    std::vector<Candidate> candidates;
    for (std::size_t i = from.count(16); i > 0; --i) candidates.push_back(read_candidate(from));
    from.end();
    std::vector<Timing> timings = runner().time(candidates, protocol);
    to.integer(runner().lost());
    to.integer(static_cast<std::int64_t>(timings.size()));
    for (const Timing& timing : timings) write(to, timing);
    return send(replies_, Message::kTimings, to.bytes()) && !runner().lost();
  }

  bool accept(Reader& from, Writer& to) {
    const Candidate candidate = read_candidate(from);
    const auto seed = static_cast<std::uint64_t>(from.integer());
    runner().set_hang_limit(from.real());
    from.end();
    verifier::Evidence evidence = runner().accept(candidate, seed);
    to.integer(runner().lost());
    write(to, evidence);
    return send(replies_, Message::kEvidence, to.bytes()) && !runner().lost();
  }

  bool fail(Failure failure, const std::string& sentence) {
    Writer to;
    to.integer(static_cast<std::int64_t>(failure));
    to.text(sentence);
    return send(replies_, Message::kFailed, to.bytes());
  }

  LocalRunner& runner() {
    if (!runner_) throw UserError("nothing is open yet");
    return *runner_;
  }

  const OpenDevice& open_;
  int replies_;
  Board board_{kBoardDescriptor};
  std::unique_ptr<LocalRunner> runner_;
};

}  // namespace

int serve(const OpenDevice& open) {
  // What a library prints must not end up among the replies.
  const int requests = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
  const int replies = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (requests < 0 || replies < 0 || nothing < 0 || fcntl(kBoardDescriptor, F_GETFD) < 0) {
    std::fprintf(stderr, "tenon_worker is started by tenon and does nothing by itself\n");
    return 2;
  }
  dup2(nothing, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  end_with_parent(requests);
  Server server(open, replies);
  try {
    Frame request;
    while (receive(requests, request) && server.answer(request)) {
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tenon_worker: %s\n", error.what());
    _exit(1);
  }
  // No destructors: freeing what lives on a lost device would wait for it.
  _exit(0);
}

}  // namespace tenon::measure
