#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>

#include "ir/error.h"
#include "measure/statistics.h"
#include "measure/timing.h"

namespace tenon::measure {

namespace {

constexpr double kSampleUs = 1500;
constexpr int kMostCalls = 2000;
constexpr int kSlowCalls = 3;

// `calls` calls from set `first` on, rotating; seconds.
double run(Rotation& rotation, Contender& c, int first, int calls) {
  const double start = now_s();
  for (int i = 0; i < calls; ++i) {
    const int set = (first + i) % rotation.sets();
    c.binding(set).launch(rotation.inputs(set), rotation.outputs(set), rotation.m(), nullptr);
  }
  return now_s() - start;
}

// Runs and turns failures into the contender's status; microseconds per call.
double attempt(Rotation& rotation, Contender& c, int first, int calls, const Protocol& protocol,
               Watch& watch) {
  try {
    rotation.ensure(c, first, calls);
    // More calls than a few are made only where one is short.
    Watched watched(&watch, c.index, protocol.hang_limit_s * std::min(calls, kSlowCalls));
    double seconds = run(rotation, c, first, calls);
    if (seconds / calls > protocol.hang_limit_s)
      c.fail(Status::kTimeout, fmt::format("a call took {:.3g} s; the limit is {:.3g} s",
                                           seconds / calls, protocol.hang_limit_s));
    return seconds * 1e6 / calls;
  } catch (const DeviceError& error) {
    c.fail(Status::kLaunchError, error.what());
  } catch (const UserError& error) {
    c.fail(Status::kUnsupported, error.what());
  } catch (const std::bad_alloc&) {
    c.fail(Status::kLaunchError, kOutOfMemory);
  }
  return 0;
}

}  // namespace

void time_on_host(Rotation& rotation, std::vector<Contender>& contenders, const Protocol& protocol,
                  Watch& watch) {
  const double least_us = protocol.min_sample_us > 0 ? protocol.min_sample_us : kSampleUs;
  for (Contender& c : contenders) {
    if (!c.ok()) continue;
    rotation.poison();
    attempt(rotation, c, 0, 1, protocol, watch);  // first touch of scratch and pages
    if (!c.ok()) continue;
    std::string what;
    if (!rotation.written(false, &what)) {
      c.fail(Status::kWrongResult, what);
      continue;
    }
    c.estimate_us = attempt(rotation, c, 1, std::min(kSlowCalls, rotation.sets()), protocol, watch);
    c.calls = std::clamp(static_cast<int>(std::ceil(least_us / std::max(1e-3, c.estimate_us))), 1,
                         kMostCalls);
  }
  std::vector<int> next(contenders.size(), 0);
  const int samples = std::max(1, protocol.samples);
  for (int sample = 0; sample < samples; ++sample) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      Contender& c = contenders[i];
      if (!c.ok()) continue;
      double us = attempt(rotation, c, next[i], c.calls, protocol, watch);
      next[i] = (next[i] + c.calls) % rotation.sets();
      if (c.ok()) c.timing.samples_us.push_back(us);
    }
  }
  for (Contender& c : contenders) {
    c.timing.protocol =
        fmt::format("host calls: {} samples of {} call{}, {} interleaved, rotating over {}",
                    samples, c.calls, c.calls == 1 ? "" : "s", contenders.size(), rotation.text());
    c.timing.median_us = median(c.timing.samples_us);
    c.timing.spread_us = spread(c.timing.samples_us);
  }
}

}  // namespace tenon::measure
