// What a launch through Tenon costs the calling thread beyond the driver's own call, and what
// opening a database and binding a layer takes.
// The bare call is the very one that Tenon makes: recorded once (function, grid, attributes,
// arguments) and repeated. Batches of both take turns; a batch's time divided by its calls is a
// sample, and the device is idle when it begins.
#include "bench/launch_overhead.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "ir/error.h"
#include "runtime/cuda/context.h"
#include "runtime/layer.h"
#include "runtime/load.h"
#include "runtime/tenon.h"

namespace tenon::bench {

namespace {

namespace cuda = runtime::cuda;
using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// One recorded launch; the driver table that records is a copy of the real one.
struct Recorded {
  CUfunction function = nullptr;
  CUlaunchConfig config{};
  std::vector<CUlaunchAttribute> attributes;
  std::vector<std::vector<std::byte>> values;
  std::vector<void*> pointers;
};
const cuda::Driver* real_driver = nullptr;
std::vector<Recorded>* recording = nullptr;

CUresult record_launch(const CUlaunchConfig* config, CUfunction function, void** arguments,
                       void** extra) {
  if (recording != nullptr) {
    Recorded& r = recording->emplace_back();
    r.function = function;
    r.config = *config;
    r.attributes.assign(config->attrs, config->attrs + config->numAttrs);
    std::size_t offset = 0, size = 0;
    for (std::size_t i = 0;
         real_driver->function_parameter(function, i, &offset, &size) == CUDA_SUCCESS; ++i) {
      // A tensor map is aligned to 64 bytes; its copy must be too.
      r.values.emplace_back(size + 64);
      auto at = reinterpret_cast<std::uintptr_t>(r.values.back().data());
      void* aligned = r.values.back().data() + (64 - at % 64);
      std::memcpy(aligned, arguments[i], size);
      r.pointers.push_back(aligned);
    }
  }
  return real_driver->launch(config, function, arguments, extra);
}

template <class Call>
double batch(const cuda::Driver& d, CUstream stream, const Call& call) {
  constexpr int kCalls = 64;
  d.check(d.stream_synchronize(stream), "a batch");
  const auto begin = Clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  const double us = us_since(begin) / kCalls;
  d.check(d.stream_synchronize(stream), "a batch");
  return us;
}

}  // namespace

LaunchOverhead measure_launch_overhead(const std::string& path, const std::string& device_id,
                                       std::int64_t m, std::int64_t k, std::int64_t n) {
  const auto first = Clock::now();
  auto device = runtime::open_device(device_id);
  const double device_ms = us_since(first) / 1e3;
  auto context = cuda::context_of(*device);
  if (!context) throw UserError("device", device_id, "cuda:N");
  const cuda::Driver& d = context->driver();
  const ir::Workload workload = ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                                                  {{"m", m}, {"k", k}, {"n", n}}, ir::DType::kBF16);
  std::vector<std::unique_ptr<runtime::Memory>> memory;
  for (std::int64_t elements : {m * k, k, k * n, m * n}) {
    memory.push_back(device->allocate(static_cast<std::size_t>(elements) * 2));
    device->fill(memory.back()->data(), 0, memory.back()->size());
  }
  const std::vector<const void*> inputs = {memory[0]->data(), memory[1]->data(), memory[2]->data()};
  void* outputs[] = {memory[3]->data()};

  // Open and bind, with the context there (PyTorch's process has it): files new to the page cache
  // the first time only, so the median of several.
  std::vector<double> open_ms, bind_ms, prepare_ms;
  std::string why;
  std::unique_ptr<runtime::Layer> layer;
  std::unique_ptr<runtime::Library> library;
  for (int i = 0; i < 7; ++i) {
    layer.reset();
    library.reset();
    auto begin = Clock::now();
    library = runtime::Library::open(path, device_id);
    open_ms.push_back(us_since(begin) / 1e3);
    begin = Clock::now();
    layer = library->bind(workload, {}, inputs, nullptr, why);
    bind_ms.push_back(us_since(begin) / 1e3);
    if (!layer) throw UserError("nothing is stored for this shape: " + why);
  }
  auto database = cache::Database::open(path, true);
  auto stored = database->best(runtime::make_query(workload, device->info()), &why);
  if (!stored) throw UserError("nothing is stored for this shape: " + why);
  auto executable = runtime::load(*stored, *device);
  for (int i = 0; i < 7; ++i) {
    const auto begin = Clock::now();
    executable->prepare(inputs, nullptr);
    prepare_ms.push_back(us_since(begin) / 1e3);
  }

  // The bare launches of the plan that serves m.
  real_driver = &d;
  cuda::Driver copy = d;
  copy.launch = record_launch;
  CUdevice ordinal = 0;
  d.check(d.device_get(&ordinal, std::atoi(device_id.c_str() + 5)), "device");
  std::vector<Recorded> recorded;
  const ir::LaunchPlan plan = ir::parse_plan(stored->plan.text);
  std::vector<std::string> cubins;
  for (const cache::KernelRow& kernel : stored->kernels) cubins.push_back(kernel.cubin);
  CUstream stream = nullptr;
  cuda::Scope scope(*context);
  d.check(d.stream_create(&stream, CU_STREAM_NON_BLOCKING), "stream");
  auto same = cuda::load_plan(std::make_shared<const cuda::Context>(copy, ordinal), device->info(),
                              plan, cubins);
  same->prepare(inputs, nullptr);
  recording = &recorded;
  same->launch(inputs.data(), outputs, m, stream, false);
  recording = nullptr;
  for (Recorded& r : recorded) r.config.attrs = r.attributes.data();

  tenon_library* c_library = nullptr;
  tenon_kernel* c_kernel = nullptr;
  const std::string dims = fmt::format("m={},k={},n={}", m, k, n);
  if (tenon_library_open(path.c_str(), device_id.c_str(), &c_library) != TENON_OK ||
      tenon_bind(c_library, "rmsnorm_linear", dims.c_str(), "bf16", 0, inputs.data(), nullptr,
                 &c_kernel) != TENON_OK)
    throw DeviceError(tenon_last_error());
  auto bare = [&] {
    for (Recorded& r : recorded) d.launch(&r.config, r.function, r.pointers.data(), nullptr);
  };
  auto through_layer = [&] { layer->launch(inputs.data(), outputs, m, stream, false); };
  auto through_c = [&] { tenon_launch_one(c_kernel, inputs[0], outputs[0], m, stream, 0); };
  std::vector<double> bare_us, layer_us, c_us;
  for (int i = 0; i < 220; ++i) {
    const double a = batch(d, stream, bare), b = batch(d, stream, through_layer),
                 c = batch(d, stream, through_c);
    if (i < 20) continue;  // warm
    bare_us.push_back(a);
    layer_us.push_back(b);
    c_us.push_back(c);
  }
  tenon_kernel_close(c_kernel);
  tenon_library_close(c_library);
  d.stream_destroy(stream);

  LaunchOverhead result;
  result.launches = static_cast<int>(recorded.size());
  result.bare_us = median(bare_us);
  result.layer_us = median(layer_us);
  result.c_api_us = median(c_us);
  result.open_and_bind_ms = median(open_ms) + median(bind_ms) - median(prepare_ms);
  result.json = fmt::format(
      "{{\"device\": \"{}\", \"driver\": \"{}\", \"m\": {}, \"k\": {}, \"n\": {}, \"plan\": {}, "
      "\"launches_of_the_plan\": {}, \"bare_us\": {:.3f}, \"layer_us\": {:.3f}, \"c_api_us\": "
      "{:.3f}, "
      "\"overhead_us\": {:.3f}, \"c_api_overhead_us\": {:.3f}, \"first_device_open_ms\": {:.1f}, "
      "\"open_ms\": {:.2f}, \"bind_ms\": {:.2f}, \"prepare_ms\": {:.2f}, "
      "\"open_and_bind_without_prepare_ms\": {:.2f}}}\n",
      device->info().name, device->info().driver, m, k, n, stored->plan.id, recorded.size(),
      result.bare_us, result.layer_us, result.c_api_us, result.layer_us - result.bare_us,
      result.c_api_us - result.bare_us, device_ms, median(open_ms), median(bind_ms),
      median(prepare_ms), result.open_and_bind_ms);
  return result;
}

}  // namespace tenon::bench
