#include "optimizer/many.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "ir/error.h"
#include "runtime/device.h"

namespace tenon::optimizer {

namespace {

// Less than this makes no search worth its start.
constexpr double kLeastShareS = 1;

// Devices of one name, and what of the list they have not taken yet.
struct Group {
  std::vector<std::string> devices;
  std::size_t next = 0;
};

std::map<std::string, Group> groups_of(const ManyOptions& options) {
  std::map<std::string, Group> groups;
  for (const std::string& id : options.devices)
    groups[runtime::open_device(id)->info().name].devices.push_back(id);
  return groups;
}

class Many {
 public:
  Many(const ManyOptions& options, std::stop_token stop,
       const std::function<void(const ManyOutcome&)>& done)
      : options_(options), stop_(std::move(stop)), done_(done) {}

  std::vector<ManyOutcome> run() {
    std::map<std::string, Group> groups = groups_of(options_);
    {
      std::vector<std::jthread> threads;
      for (auto& [name, group] : groups)
        for (const std::string& device : group.devices)
          threads.emplace_back([this, &group, device] { work(group, device); });
    }
    std::stable_sort(outcomes_.begin(), outcomes_.end(), [](const auto& a, const auto& b) {
      return std::tie(a.workload, a.report.device_name) <
             std::tie(b.workload, b.report.device_name);
    });
    return std::move(outcomes_);
  }

 private:
  double left() const {
    return options_.budget_seconds -
           std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  void work(Group& group, const std::string& device) {
    for (;;) {
      Options one = options_.each;
      ManyOutcome outcome;
      outcome.device = device;
      {
        std::lock_guard lock(mutex_);
        const std::size_t waiting = options_.workloads.size() - group.next;
        if (waiting == 0 || stop_.stop_requested()) return;
        outcome.workload = group.next++;
        const std::size_t at_once = std::min(group.devices.size(), waiting);
        one.budget_seconds = left() * static_cast<double>(at_once) / static_cast<double>(waiting);
      }
      one.workload = options_.workloads[outcome.workload];
      one.device = device;
      one.answer_only = one.budget_seconds < kLeastShareS;
      try {
        Progress silent;
        outcome.report = optimize(one, silent, stop_);
      } catch (const UserError& error) {
        outcome.error = error.what();
      } catch (const DeviceError& error) {
        outcome.error = error.what();
      }
      outcome.report.workload = one.workload;
      std::lock_guard lock(mutex_);
      done_(outcome);
      outcomes_.push_back(std::move(outcome));
    }
  }

  const ManyOptions& options_;
  std::stop_token stop_;
  const std::function<void(const ManyOutcome&)>& done_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::vector<ManyOutcome> outcomes_;
};

}  // namespace

std::size_t outcomes_of(const ManyOptions& options) {
  return groups_of(options).size() * options.workloads.size();
}

std::vector<ManyOutcome> optimize_many(const ManyOptions& options, std::stop_token stop,
                                       const std::function<void(const ManyOutcome&)>& done) {
  return Many(options, std::move(stop), done).run();
}

std::vector<std::string> expand_devices(const std::string& text) {
  std::vector<std::string> devices;
  if (text == "all") {
    std::string note;
    for (const runtime::DeviceInfo& info : runtime::list_devices(&note))
      if (info.id.rfind("cuda:", 0) == 0) devices.push_back(info.id);
    if (devices.empty())
      throw DeviceError("--device all finds no GPU" + (note.empty() ? "" : ": " + note));
    return devices;
  }
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string id = text.substr(at, end - at);
    if (std::find(devices.begin(), devices.end(), id) != devices.end())
      throw UserError("--device", text, "each device once");
    devices.push_back(id);
    at = end + 1;
  }
  return devices;
}

}  // namespace tenon::optimizer
