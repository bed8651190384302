#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <new>
#include <thread>

#include "ir/error.h"
#include "measure/statistics.h"
#include "measure/timing.h"
#include "runtime/cuda/context.h"

namespace tenon::measure {

namespace {

namespace cuda = runtime::cuda;

constexpr double kShortSampleUs = 1000;  // a graph's own start is then below one part in 500
constexpr double kBurstUs = 2000;        // of bursts
// Calls from this length on are bursts. Products of 20 µs already draw enough power to lower the
// clock by a tenth when they follow each other for a second; screening cannot afford the pauses,
// and its contenders, interleaved, suffer alike.
constexpr double kWarmCallUs = 15, kScreeningWarmCallUs = 100;
constexpr int kMostCalls = 4000;
constexpr double kBlockingS = 10;  // loading, allocating and copying
constexpr std::size_t kLongScreeningSamples = 2;

// Owns a stream, two events and a graph.
class Stream {
 public:
  explicit Stream(const cuda::Driver& driver) : driver_(driver) {
    driver.check(driver.stream_create(&handle_, CU_STREAM_NON_BLOCKING), "creating a stream");
    driver.check(driver.event_create(&start_, CU_EVENT_DEFAULT), "creating an event");
    driver.check(driver.event_create(&stop_, CU_EVENT_DEFAULT), "creating an event");
  }
  ~Stream() {
    if (start_) driver_.event_destroy(start_);
    if (stop_) driver_.event_destroy(stop_);
    if (handle_) driver_.stream_destroy(handle_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CUstream get() const { return handle_; }
  void start() { driver_.check(driver_.event_record(start_, handle_), "recording an event"); }
  void stop() { driver_.check(driver_.event_record(stop_, handle_), "recording an event"); }
  // Waits for stop(); false when the limit passed first. Throws DeviceError when a kernel failed.
  bool wait(double limit_s) {
    const double end = now_s() + limit_s;
    for (;;) {
      CUresult result = driver_.event_query(stop_);
      if (result == CUDA_SUCCESS) return true;
      if (result != CUDA_ERROR_NOT_READY) driver_.check(result, "a kernel failed");
      if (now_s() > end) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  double elapsed_us() const {
    float ms = 0;
    driver_.check(driver_.event_elapsed(&ms, start_, stop_), "reading an event");
    return static_cast<double>(ms) * 1e3;
  }

 private:
  const cuda::Driver& driver_;
  CUstream handle_ = nullptr;
  CUevent start_ = nullptr, stop_ = nullptr;
};

class ReplayGraph {
 public:
  explicit ReplayGraph(const cuda::Driver& driver) : driver_(driver) {}
  ~ReplayGraph() { destroy(); }
  ReplayGraph(const ReplayGraph&) = delete;
  ReplayGraph& operator=(const ReplayGraph&) = delete;

  // Captures what `body` launches on `stream`, instead of what was captured before.
  template <class F>
  void capture(CUstream stream, const F& body) {
    destroy();
    driver_.check(driver_.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                  "capturing a graph");
    CUgraph graph = nullptr;
    try {
      body();
    } catch (...) {
      driver_.stream_end_capture(stream, &graph);
      if (graph) driver_.graph_destroy(graph);
      throw;
    }
    driver_.check(driver_.stream_end_capture(stream, &graph), "capturing a graph");
    CUresult result = driver_.graph_instantiate(&exec_, graph, 0);
    driver_.graph_destroy(graph);
    driver_.check(result, "instantiating a graph");
    driver_.check(driver_.graph_upload(exec_, stream), "uploading a graph");
  }
  void launch(CUstream stream) const {
    driver_.check(driver_.graph_launch(exec_, stream), "replaying a graph");
  }

 private:
  void destroy() {
    if (exec_) driver_.graph_exec_destroy(exec_);
    exec_ = nullptr;
  }
  const cuda::Driver& driver_;
  CUgraphExec exec_ = nullptr;
};

class CudaTimer {
 public:
  CudaTimer(runtime::Device& device, Rotation& rotation, std::vector<Contender>& contenders,
            const Protocol& protocol, Watch& watch)
      : context_(cuda::context_of(device)),
        driver_(context_->driver()),
        scope_(*context_),
        device_(device),
        rotation_(rotation),
        contenders_(contenders),
        protocol_(protocol),
        watch_(watch),
        stream_(driver_) {}

  bool run() {
    for (std::size_t i = 0; i < contenders_.size(); ++i)
      graphs_.push_back(std::make_unique<ReplayGraph>(driver_));
    for (std::size_t i = 0; i < contenders_.size(); ++i)
      if (!guarded(contenders_[i], [&] { return prepare(contenders_[i], *graphs_[i]); }))
        return false;
    const int samples = std::max(1, protocol_.samples);
    for (int sample = 0; sample < samples; ++sample)
      for (std::size_t i = 0; i < contenders_.size(); ++i)
        if (!guarded(contenders_[i], [&] { return measure(contenders_[i], *graphs_[i]); }))
          return false;
    for (Contender& c : contenders_) {
      c.timing.protocol = text_of(c);
      c.timing.median_us = median(c.timing.samples_us);
      c.timing.spread_us = spread(c.timing.samples_us);
    }
    return true;
  }

 private:
  bool is_burst(const Contender& c) const {
    return c.estimate_us > (protocol_.screening ? kScreeningWarmCallUs : kWarmCallUs);
  }

  std::string text_of(const Contender& c) const {
    const std::string how =
        c.dropped ? "one replay, far behind the best"
        : is_burst(c)
            ? fmt::format("burst ({:g} ms idle, one replay, one timed)", protocol_.idle_ms)
            : "one replay, one timed";
    return fmt::format(
        "cuda graph, {} launch: {} samples of {} calls, {} interleaved, rotating over {}, {}",
        protocol_.dependent_launch ? "dependent" : "plain", c.timing.samples_us.size(), c.calls,
        contenders_.size(), rotation_.text(), how);
  }

  // Runs a step of a contender that is ok; false when the device is lost.
  template <class F>
  bool guarded(Contender& c, const F& step) {
    if (!c.ok()) return true;
    // A step waits for its own kernels by the hang limit; whoever watches, for calls that block.
    Watched watched(&watch_, c.index, 4 * protocol_.hang_limit_s + kBlockingS);
    try {
      if (step()) return true;
      c.fail(Status::kTimeout, fmt::format("no end within {:.3g} s", protocol_.hang_limit_s));
      mark_not_run(contenders_);
      return false;
    } catch (const DeviceError& error) {
      c.fail(Status::kLaunchError, error.what());
    } catch (const UserError& error) {
      c.fail(Status::kUnsupported, error.what());
    } catch (const std::bad_alloc&) {
      c.fail(Status::kLaunchError, kOutOfMemory);
    }
    if (c.timing.status != Status::kLaunchError || !device_lost(device_)) return true;
    mark_not_run(contenders_);
    return false;
  }

  void call(Contender& c, int i, bool dependent) {
    const int set = i % rotation_.sets();
    c.binding(set).launch(rotation_.inputs(set), rotation_.outputs(set), rotation_.m(),
                          stream_.get(), dependent);
  }

  bool prepare(Contender& c, ReplayGraph& graph) {
    rotation_.ensure(c, 0, rotation_.sets());
    rotation_.poison();
    // The first launch of a binding is never a dependent one; it belongs to no graph.
    stream_.start();
    for (int i = 0; i < rotation_.sets(); ++i) call(c, i, false);
    stream_.stop();
    if (!stream_.wait(protocol_.hang_limit_s)) return false;
    std::string what;
    if (!rotation_.written(protocol_.screening, &what)) {
      c.fail(Status::kWrongResult, what);
      return true;
    }
    stream_.start();
    for (int i = 0; i < rotation_.sets(); ++i) call(c, i, protocol_.dependent_launch);
    stream_.stop();
    if (!stream_.wait(protocol_.hang_limit_s)) return false;
    // Launches from the CPU are spaced further apart than in a graph: an upper estimate.
    c.estimate_us = stream_.elapsed_us() / rotation_.sets();
    capture(c, graph, rotation_.sets());
    double us = 0;
    if (!replay(c, graph, us)) return false;
    c.estimate_us = us;
    if (protocol_.drop_above_us > 0 && us > protocol_.drop_above_us) {
      c.dropped = true;
      c.timing.samples_us.push_back(us);
      return true;
    }
    const double least = protocol_.min_sample_us > 0 ? protocol_.min_sample_us
                         : is_burst(c)               ? kBurstUs
                                                     : kShortSampleUs;
    const int rounds = static_cast<int>(std::ceil(least / std::max(0.1, us * rotation_.sets())));
    const int calls = std::min(kMostCalls, std::max(1, rounds) * rotation_.sets());
    if (calls != rotation_.sets()) capture(c, graph, calls);
    return true;
  }

  void capture(Contender& c, ReplayGraph& graph, int calls) {
    c.calls = calls;
    graph.capture(stream_.get(), [&] {
      for (int i = 0; i < calls; ++i) call(c, i, protocol_.dependent_launch);
    });
  }

  // One warm replay, one timed; microseconds per call.
  bool replay(Contender& c, const ReplayGraph& graph, double& us) {
    graph.launch(stream_.get());
    stream_.start();
    graph.launch(stream_.get());
    stream_.stop();
    if (!stream_.wait(protocol_.hang_limit_s)) return false;
    us = stream_.elapsed_us() / c.calls;
    return true;
  }

  bool measure(Contender& c, const ReplayGraph& graph) {
    const bool burst = is_burst(c);
    const bool enough =
        burst && protocol_.screening && c.timing.samples_us.size() >= kLongScreeningSamples;
    if (c.dropped || enough) return true;
    if (burst)
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(protocol_.idle_ms));
    double us = 0;
    if (!replay(c, graph, us)) return false;
    c.timing.samples_us.push_back(us);
    return true;
  }

  std::shared_ptr<const cuda::Context> context_;
  const cuda::Driver& driver_;
  cuda::Scope scope_;
  runtime::Device& device_;
  Rotation& rotation_;
  std::vector<Contender>& contenders_;
  const Protocol& protocol_;
  Watch& watch_;
  Stream stream_;
  std::vector<std::unique_ptr<ReplayGraph>> graphs_;
};

}  // namespace

bool device_lost(const runtime::Device& device) {
  auto context = cuda::context_of(device);
  if (!context) return false;
  cuda::Scope scope(*context);
  return context->driver().context_synchronize() != CUDA_SUCCESS;
}

void mark_not_run(std::vector<Contender>& contenders) {
  for (Contender& c : contenders) {
    if (!c.ok()) continue;
    c.fail(Status::kLaunchError, "not measured: another candidate took the device with it");
    c.timing.not_run = true;
  }
}

bool time_on_cuda(runtime::Device& device, Rotation& rotation, std::vector<Contender>& contenders,
                  const Protocol& protocol, Watch& watch) {
  auto timer = std::make_unique<CudaTimer>(device, rotation, contenders, protocol, watch);
  if (timer->run()) return true;
  timer.release();  // freeing a stream would wait for the kernel that does not end
  return false;
}

}  // namespace tenon::measure
