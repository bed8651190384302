// A worker on the host whose candidates do harm when their plan's schedule says so ("fault abort"
// …): what kernels that fault, hang or ask for too much do on a GPU.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "ir/error.h"
#include "measure/worker.h"

namespace tenon::measure {
namespace {

constexpr std::size_t kTooMuch = std::size_t{200} << 30;

void harm(const std::string& fault, void* const* outputs) {
  if (fault == "abort") std::abort();
  if (fault == "exit") _exit(7);
  if (fault == "trap") raise(SIGTRAP);
  if (fault == "illegal address") {
    volatile std::uintptr_t nowhere = 16;
    *reinterpret_cast<volatile int*>(nowhere) = 1;
  }
  if (fault == "infinite loop") {
    for (volatile int forever = 1; forever == 1;) {
    }
  }
  if (fault == "stray write")  // far from every buffer: whatever is there, or nothing
    for (std::size_t i = 0; i < std::size_t{1} << 34; i += 4096)
      static_cast<volatile char*>(outputs[0])[i] = 1;
  if (fault == "allocation") {
    // Beyond what is free on any machine that runs this, so that none need be touched. malloc,
    // whose failure AddressSanitizer can leave to the caller; operator new's it cannot.
    const auto memory = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t size = std::max(kTooMuch, 2 * memory);
    void* too_much = std::malloc(size);
    if (!too_much) throw std::bad_alloc();
    std::memset(too_much, 1, size);
    std::free(too_much);
  }
  if (fault == "launch") throw DeviceError("an illegal address was encountered");
  if (fault == "chatter") std::printf("a library that prints to standard output\n");
}

class FaultyExecutable final : public runtime::Executable {
 public:
  FaultyExecutable(std::unique_ptr<runtime::Executable> inner, std::string fault)
      : inner_(std::move(inner)), fault_(std::move(fault)) {}
  const ir::LaunchPlan& plan() const override { return inner_->plan(); }
  void prepare(const std::vector<const void*>& inputs, runtime::StreamHandle s) override {
    inner_->prepare(inputs, s);
  }
  void launch(const void* const* inputs, void* const* outputs, std::int64_t m,
              runtime::StreamHandle s, bool dependent) override {
    inner_->launch(inputs, outputs, m, s, dependent);
    harm(fault_, outputs);
  }
  std::unique_ptr<Executable> replicate() const override {
    return std::make_unique<FaultyExecutable>(inner_->replicate(), fault_);
  }

 private:
  std::unique_ptr<runtime::Executable> inner_;
  std::string fault_;
};

class FaultyDevice final : public runtime::Device {
 public:
  explicit FaultyDevice(std::unique_ptr<runtime::Device> host) : host_(std::move(host)) {}
  const runtime::DeviceInfo& info() const override { return host_->info(); }
  std::unique_ptr<runtime::Memory> allocate(std::size_t bytes) override {
    return host_->allocate(bytes);
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    host_->upload(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    host_->download(to, from, bytes);
  }
  void fill(void* to, std::uint8_t value, std::size_t bytes) override {
    host_->fill(to, value, bytes);
  }
  void synchronize() override { host_->synchronize(); }
  std::unique_ptr<runtime::Executable> load(const ir::LaunchPlan& plan,
                                            const std::vector<std::string>& cubins) override {
    const std::string marker = "fault ";
    if (plan.schedule.rfind(marker, 0) != 0) return host_->load(plan, cubins);
    ir::LaunchPlan harmless = plan;
    harmless.schedule = "host()";
    return std::make_unique<FaultyExecutable>(host_->load(harmless, cubins),
                                              plan.schedule.substr(marker.size()));
  }

 private:
  std::unique_ptr<runtime::Device> host_;
};

}  // namespace
}  // namespace tenon::measure

int main() {
  using namespace tenon;
  return measure::serve([](const std::string& id) -> std::unique_ptr<runtime::Device> {
    if (id == "never") std::this_thread::sleep_for(std::chrono::hours(1));
    return std::make_unique<measure::FaultyDevice>(runtime::open_device(id));
  });
}
