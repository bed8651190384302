#include "runtime/layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "runtime/load.h"

namespace tenon::runtime {

namespace {

std::size_t row_bytes(const std::string& name, const ir::Axes& axes, ir::DType dtype,
                      const ir::Workload& workload) {
  std::size_t bytes = ir::size_of(ir::bind(dtype, workload.dtype));
  const auto apart = workload.row_strides.find(name);
  if (apart != workload.row_strides.end()) return bytes * static_cast<std::size_t>(apart->second);
  for (const ir::Axis& axis : axes)
    if (workload.program.signature.dims[axis.dim] != "m")
      bytes *= static_cast<std::size_t>(workload.extents[axis.dim]);
  return bytes;
}

[[noreturn]] void out_of_bounds(std::int64_t m, std::int64_t low, std::int64_t high) {
  throw UserError("m", std::to_string(m),
                  fmt::format("{} to {}, the rows this layer was bound for", low, high));
}

[[noreturn]] void null_tensor(const char* what, std::size_t index) {
  throw UserError(fmt::format("{} {} of a launch", what, index), "NULL",
                  "an address on the device");
}

}  // namespace

Layer::Layer(DispatchTable table, std::vector<std::unique_ptr<Executable>> executables,
             std::vector<std::size_t> input_row_bytes, std::vector<std::size_t> output_row_bytes)
    : table_(std::move(table)),
      executables_(std::move(executables)),
      input_row_bytes_(std::move(input_row_bytes)),
      output_row_bytes_(std::move(output_row_bytes)) {
  if (input_row_bytes_.size() > kMaxArguments || output_row_bytes_.size() > kMaxArguments)
    throw UserError("inputs or outputs of a program", std::to_string(input_row_bytes_.size()),
                    fmt::format("at most {} of each", kMaxArguments));
  takes_one_ = !input_row_bytes_.empty() && input_row_bytes_[0] > 0 &&
               std::all_of(input_row_bytes_.begin() + 1, input_row_bytes_.end(),
                           [](std::size_t bytes) { return bytes == 0; }) &&
               output_row_bytes_.size() == 1;
}

const Segment& Layer::segment(std::int64_t m) const {
  const std::vector<Segment>& all = table_.segments;
  auto after = std::upper_bound(all.begin(), all.end(), m,
                                [](std::int64_t x, const Segment& s) { return x < s.low; });
  if (after == all.begin() || m > all.back().high) out_of_bounds(m, m_min(), m_max());
  return *std::prev(after);
}

void Layer::launch(const void* const* inputs, void* const* outputs, std::int64_t m,
                   StreamHandle stream, bool dependent) {
  if (m == 0) return;
  for (std::size_t i = 0; i < input_row_bytes_.size(); ++i)
    if (inputs[i] == nullptr && input_row_bytes_[i] > 0) null_tensor("input", i);
  for (std::size_t i = 0; i < output_row_bytes_.size(); ++i)
    if (outputs[i] == nullptr) null_tensor("output", i);
  const Segment& found = segment(m);
  if (found.chunk == 0)
    executables_[found.plan]->launch(inputs, outputs, m, stream, dependent);
  else
    launch_chunks(inputs, outputs, m, found.chunk, stream, dependent);
}

void Layer::launch_chunks(const void* const* inputs, void* const* outputs, std::int64_t m,
                          std::int64_t chunk, StreamHandle stream, bool dependent) {
  const void* in[kMaxArguments];
  void* out[kMaxArguments];
  for (std::int64_t row = 0; row < m; row += chunk) {
    const auto at = static_cast<std::size_t>(row);
    for (std::size_t i = 0; i < input_row_bytes_.size(); ++i)
      in[i] = inputs[i] == nullptr ? nullptr
                                   : static_cast<const char*>(inputs[i]) + at * input_row_bytes_[i];
    for (std::size_t i = 0; i < output_row_bytes_.size(); ++i)
      out[i] = static_cast<char*>(outputs[i]) + at * output_row_bytes_[i];
    // Chunks of a size that is served directly: this does not come back here.
    launch(in, out, std::min(chunk, m - row), stream, dependent);
  }
}

bool Layer::reads(std::size_t input) const {
  return std::any_of(executables_.begin(), executables_.end(),
                     [input](const auto& e) { return e->plan().buffers[input].in_main; });
}

std::unique_ptr<Library> Library::open(const std::string& path, const std::string& device) {
  auto opened = open_device(device);
  auto database = cache::Database::open(path.empty() ? cache::default_path() : path, true);
  return std::unique_ptr<Library>(new Library(std::move(database), std::move(opened)));
}

std::unique_ptr<Library> Library::open_bytes(const void* bytes, std::size_t size,
                                             const std::string& name, const std::string& device) {
  auto opened = open_device(device);
  auto database = cache::Database::open_packed({static_cast<const char*>(bytes), size}, name);
  return std::unique_ptr<Library>(new Library(std::move(database), std::move(opened)));
}

std::unique_ptr<Executable> Library::executable(const cache::Stored& stored) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<Executable>& prototype = loaded_[stored.plan.id];
  if (!prototype) prototype = load(stored, *device_);
  return prototype->replicate();
}

std::unique_ptr<Layer> Library::bind(const ir::Workload& workload, const BindOptions& options,
                                     const std::vector<const void*>& inputs, StreamHandle stream,
                                     std::string& why) {
  const ir::Signature& signature = workload.program.signature;
  if (inputs.size() != signature.inputs.size())
    throw UserError(
        "number of inputs", std::to_string(inputs.size()),
        fmt::format("{}, the inputs of {}", signature.inputs.size(), signature.program));
  const std::int64_t m_max = dynamic_extent(workload);
  if (options.m_min < 1 || options.m_min > m_max)
    throw UserError("m_min", std::to_string(options.m_min),
                    fmt::format("1 to {}, the extent of m", m_max));
  cache::Query query = make_query(workload, device_->info(), options.dependent);
  query.allow_library = options.allow_library;
  if (!options.exclusive)
    query.refuse = [copies = query.refuse](const cache::Stored& stored) -> std::string {
      std::string problem = needs_device(stored);
      return problem.empty() && copies ? copies(stored) : problem;
    };
  DispatchTable table =
      make_dispatch(*database_, query, options.m_min, m_max, is_row_wise(workload.program), why);
  if (table.segments.empty()) return nullptr;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] == nullptr && signature.inputs[i].role == ir::Role::kParameter)
      throw UserError("parameter " + signature.inputs[i].name, "NULL", "an address on the device");
  std::vector<std::unique_ptr<Executable>> executables;
  for (const cache::Stored& stored : table.plans) {
    std::unique_ptr<Executable> made = executable(stored);
    const bool adopted = std::any_of(executables.begin(), executables.end(),
                                     [&made](const auto& before) { return made->adopt(*before); });
    if (!adopted) made->prepare(inputs, stream);
    executables.push_back(std::move(made));
  }
  // What is needed to launch is loaded: the cubins need not be kept a second time.
  for (cache::Stored& stored : table.plans) stored.kernels.clear();
  std::vector<std::size_t> in, out;
  for (const ir::ProgramInput& input : signature.inputs)
    in.push_back(input.role == ir::Role::kActivation
                     ? row_bytes(input.name, input.axes, input.dtype, workload)
                     : 0);
  for (const ir::ProgramOutput& output : signature.outputs)
    out.push_back(
        row_bytes(output.name, workload.program.graph.axes(output.value), output.dtype, workload));
  return std::make_unique<Layer>(std::move(table), std::move(executables), std::move(in),
                                 std::move(out));
}

}  // namespace tenon::runtime
