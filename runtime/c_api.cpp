// The C API over Library and Layer: handles, error codes, messages.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "ir/error.h"
#include "ir/layout.h"
#include "runtime/layer.h"
#include "runtime/signature.h"
#include "runtime/tenon.h"
#include "runtime/torch_operator.h"
#include "runtime/utf8.h"

using namespace tenon;

struct tenon_library {
  std::unique_ptr<runtime::Library> library;
};

struct tenon_kernel {
  std::unique_ptr<runtime::Layer> layer;
};

namespace {

thread_local std::string last_error;

class NotFound : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Runs `body`; exceptions become status and message, and never cross the C boundary.
template <class Body>
tenon_status guarded(Body body) {
  auto failed = [](tenon_status status, const std::string& message) {
    last_error = runtime::utf8(message);
    return status;
  };
  try {
    body();
    return TENON_OK;
  } catch (const NotFound& e) {
    return failed(TENON_NOT_FOUND, e.what());
  } catch (const UserError& e) {
    return failed(TENON_BAD_INPUT, e.what());
  } catch (const DeviceError& e) {
    return failed(TENON_DEVICE_ERROR, e.what());
  } catch (const std::bad_alloc&) {
    return failed(TENON_DEVICE_ERROR, "out of memory");
  } catch (const std::exception& e) {
    return failed(TENON_INTERNAL_ERROR, std::string("internal error: ") + e.what());
  }
}

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) throw UserError(name, "NULL", "a pointer that is not NULL");
}

// What `body` says of a layer; `none` for a NULL kernel.
template <class Value, class Body>
Value of(const tenon_kernel* kernel, Value none, Body body) {
  guarded([&] {
    require(kernel, "kernel");
    none = body(*kernel->layer);
  });
  return none;
}

// "m=16,k=4096" -> values by name.
template <class Value, class Parse>
std::map<std::string, Value> parse_pairs(const char* argument, const std::string& text,
                                         Parse parse) {
  std::map<std::string, Value> pairs;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    const std::size_t equals = item.find('=');
    Value value{};
    const bool good = equals != std::string::npos && equals > 0 &&
                      parse(item.c_str() + equals + 1, item.c_str() + item.size(), value);
    if (!good) throw UserError(argument, text, "NAME=VALUE pairs separated by commas");
    pairs[item.substr(0, equals)] = value;
    at = end + 1;
  }
  return pairs;
}

std::map<std::string, std::int64_t> parse_integers(const char* argument, const std::string& text) {
  return parse_pairs<std::int64_t>(argument, text,
                                   [](const char* from, const char* last, std::int64_t& value) {
                                     auto [stop, error] = std::from_chars(from, last, value);
                                     return error == std::errc() && stop == last;
                                   });
}

std::map<std::string, double> parse_attributes(const std::string& text) {
  return parse_pairs<double>("attributes", text,
                             [](const char* from, const char* last, double& value) {
                               auto [stop, error] = std::from_chars(from, last, value);
                               return error == std::errc() && stop == last && std::isfinite(value);
                             });
}

// A catalog name, or a whole program in the text form, which has several lines.
ir::Program program_of(const std::string& text) {
  return text.find('\n') == std::string::npos ? ir::catalog_program(text) : ir::parse_program(text);
}

// "w=n,k;v=n,k": the program with these inputs stored so.
ir::Program with_layouts(ir::Program program, const std::string& layouts) {
  for (std::size_t at = 0; at < layouts.size();) {
    const std::size_t end = std::min(layouts.find(';', at), layouts.size());
    program = ir::with_layout(program, layouts.substr(at, end - at));
    at = end + 1;
  }
  return program;
}

// The struct as this library knows it, from one that may be shorter.
tenon_bind_options options_of(const tenon_bind_options* given) {
  tenon_bind_options options{};
  if (given != nullptr) {
    if (given->size < sizeof(std::size_t) || given->size > 4096)
      throw UserError("options.size", std::to_string(given->size), "sizeof(tenon_bind_options)");
    std::memcpy(&options, given, std::min(given->size, sizeof options));
    // What a newer caller asks for beyond that must not be passed over in silence.
    const auto* bytes = reinterpret_cast<const unsigned char*>(given);
    if (std::any_of(bytes + std::min(given->size, sizeof options), bytes + given->size,
                    [](unsigned char byte) { return byte != 0; }))
      throw UserError("options", "one that this libtenon_runtime does not know",
                      "what version " TENON_VERSION_TEXT " has");
  }
  return options;
}

const cache::Stored& widest(const runtime::Layer& layer) {
  return layer.plan(layer.segments().back());
}

tenon_status open(std::unique_ptr<runtime::Library> library, tenon_library** out) {
  auto made = std::make_unique<tenon_library>();
  made->library = std::move(library);
  *out = made.release();
  return TENON_OK;
}

}  // namespace

extern "C" {

int tenon_abi_version(void) { return TENON_ABI_VERSION; }

const char* tenon_version(void) { return TENON_VERSION_TEXT; }

const char* tenon_last_error(void) { return last_error.c_str(); }

tenon_status tenon_library_open(const char* database, const char* device, tenon_library** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    if (database != nullptr && *database == '\0')
      throw UserError("database", "", "a path, or NULL for the default database");
    open(runtime::Library::open(database == nullptr ? "" : database,
                                device == nullptr ? "auto" : device),
         out);
  });
}

tenon_status tenon_library_open_bytes(const void* bytes, size_t size, const char* name,
                                      const char* device, tenon_library** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(bytes, "bytes");
    open(runtime::Library::open_bytes(bytes, size, name == nullptr ? "in memory" : name,
                                      device == nullptr ? "auto" : device),
         out);
  });
}

void tenon_library_close(tenon_library* library) { delete library; }

const char* tenon_library_device(const tenon_library* library) {
  const char* id = nullptr;
  guarded([&] {
    require(library, "library");
    id = library->library->device().id.c_str();
  });
  return id;
}

tenon_status tenon_bind_with(tenon_library* library, const char* program, const char* dims,
                             const char* dtype, const tenon_bind_options* options,
                             const void* const* inputs, void* stream, tenon_kernel** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(library, "library");
    require(program, "program");
    require(dims, "dims");
    require(dtype, "dtype");
    require(inputs, "inputs");
    const tenon_bind_options asked = options_of(options);
    auto type = ir::dtype_from_name(dtype);
    if (!type || *type == ir::DType::kElem) throw UserError("dtype", dtype, "bf16, fp16, fp32");
    const std::string layouts = asked.layouts == nullptr ? "" : asked.layouts;
    ir::Workload workload = ir::make_workload(
        with_layouts(program_of(program), layouts), parse_integers("dims", dims), *type,
        parse_attributes(asked.attributes == nullptr ? "" : asked.attributes));
    workload.keep_weights = asked.keep_weights != 0;
    if (asked.row_strides != nullptr)
      for (const auto& [name, stride] : parse_integers("row_strides", asked.row_strides))
        workload = ir::with_row_stride(std::move(workload), name, stride);
    runtime::BindOptions bind;
    bind.m_min = asked.m_min == 0 ? 1 : asked.m_min;
    bind.dependent = asked.dependent != 0;
    bind.exclusive = asked.exclusive != 0;
    bind.allow_library = asked.no_vendor_library == 0;
    const std::size_t count = workload.program.signature.inputs.size();
    std::string why;
    auto kernel = std::make_unique<tenon_kernel>();
    // Parentheses: braces would make a vector of these two pointers.
    kernel->layer = library->library->bind(
        workload, bind, std::vector<const void*>(inputs, inputs + count), stream, why);
    if (!kernel->layer)
      throw NotFound("nothing is stored for " + ir::print(workload) +
                     (layouts.empty() ? "" : " with layout " + layouts) + " on " +
                     library->library->device().id + ": " + why);
    *out = kernel.release();
  });
}

tenon_status tenon_bind(tenon_library* library, const char* program, const char* dims,
                        const char* dtype, int dependent, const void* const* inputs, void* stream,
                        tenon_kernel** out) {
  tenon_bind_options options{};
  options.size = sizeof options;
  options.dependent = dependent;
  return tenon_bind_with(library, program, dims, dtype, &options, inputs, stream, out);
}

void tenon_kernel_close(tenon_kernel* kernel) { delete kernel; }

tenon_status tenon_launch(tenon_kernel* kernel, const void* const* inputs, void* const* outputs,
                          int64_t m, void* stream, int dependent) {
  if (m == 0) return TENON_OK;
  return guarded([&] {
    require(kernel, "kernel");
    require(inputs, "inputs");
    require(outputs, "outputs");
    kernel->layer->launch(inputs, outputs, m, stream, dependent != 0);
  });
}

tenon_status tenon_launch_one(tenon_kernel* kernel, const void* x, void* y, int64_t m, void* stream,
                              int dependent) {
  if (m == 0) return TENON_OK;
  return guarded([&] {
    require(kernel, "kernel");
    if (!kernel->layer->takes_one())
      throw UserError("tenon_launch_one", "called for a program of several activations or outputs",
                      "tenon_launch for those");
    const void* inputs[runtime::Layer::kMaxArguments];
    const std::size_t count = kernel->layer->input_count();
    inputs[0] = x;
    for (std::size_t i = 1; i < count; ++i) inputs[i] = nullptr;
    void* outputs[] = {y};
    kernel->layer->launch(inputs, outputs, m, stream, dependent != 0);
  });
}

const char* tenon_program_signature(const char* program) {
  static thread_local std::string text;
  const tenon_status status = guarded([&] {
    require(program, "program");
    text = runtime::describe_signature(program_of(program));
  });
  return status == TENON_OK ? text.c_str() : nullptr;
}

int tenon_kernel_reads(const tenon_kernel* kernel, int input) {
  return of(kernel, 0, [&](const runtime::Layer& layer) -> int {
    const auto index = static_cast<std::size_t>(input);
    if (input < 0 || index >= layer.input_count())
      throw UserError("input", std::to_string(input),
                      "0 to " + std::to_string(layer.input_count() - 1));
    return layer.reads(index);
  });
}

int64_t tenon_kernel_m_min(const tenon_kernel* kernel) {
  return of(kernel, int64_t{0}, [](const runtime::Layer& layer) { return layer.m_min(); });
}
int64_t tenon_kernel_m_max(const tenon_kernel* kernel) {
  return of(kernel, int64_t{0}, [](const runtime::Layer& layer) { return layer.m_max(); });
}
const char* tenon_kernel_note(const tenon_kernel* kernel) {
  return of(kernel, static_cast<const char*>(nullptr),
            [](const runtime::Layer& layer) { return layer.note().c_str(); });
}

tenon_status tenon_kernel_segment(const tenon_kernel* kernel, int64_t m, tenon_segment* out) {
  return guarded([&] {
    require(kernel, "kernel");
    require(out, "out");
    if (out->size < sizeof(std::size_t))
      throw UserError("segment.size", std::to_string(out->size), "sizeof(tenon_segment)");
    const runtime::Segment& found = kernel->layer->segment(m);
    const cache::Stored& stored = kernel->layer->plan(found);
    tenon_segment segment{};
    segment.size = out->size;
    segment.low = found.low;
    segment.high = found.high;
    segment.chunk = found.chunk;
    segment.plan = stored.plan.id;
    segment.tuned_m = stored.workload.m;
    segment.time_us = stored.measurement.time_us;
    segment.label = stored.mugraph.label.c_str();
    segment.schedule = stored.schedule.text.c_str();
    std::memcpy(out, &segment, std::min(out->size, sizeof segment));
  });
}

int64_t tenon_kernel_plan(const tenon_kernel* kernel) {
  return of(kernel, int64_t{0}, [](const runtime::Layer& layer) { return widest(layer).plan.id; });
}
double tenon_kernel_stored_time_us(const tenon_kernel* kernel) {
  return of(kernel, 0.0,
            [](const runtime::Layer& layer) { return widest(layer).measurement.time_us; });
}
const char* tenon_kernel_label(const tenon_kernel* kernel) {
  return of(kernel, static_cast<const char*>(nullptr),
            [](const runtime::Layer& layer) { return widest(layer).mugraph.label.c_str(); });
}
const char* tenon_kernel_schedule(const tenon_kernel* kernel) {
  return of(kernel, static_cast<const char*>(nullptr),
            [](const runtime::Layer& layer) { return widest(layer).schedule.text.c_str(); });
}

tenon_status tenon_torch_register(void) {
  std::string why;
  const tenon_status status = guarded([&] {
    if (!runtime::register_torch_operator(why)) throw NotFound(why);
  });
  return status;
}

tenon_status tenon_torch_set_layer(int64_t layer, tenon_kernel* kernel,
                                   const tenon_torch_layer* expected) {
  return guarded([&] {
    runtime::TorchLayer entry;
    if (kernel != nullptr) {
      require(expected, "expected");
      entry.layer = kernel->layer.get();
      entry.dtype = expected->dtype;
      entry.device_type = expected->device_type;
      entry.device_index = expected->device_index;
      entry.dependent = expected->dependent != 0;
      entry.columns_in = expected->columns_in;
      entry.columns_out = expected->columns_out;
    }
    runtime::set_torch_layer(layer, entry);
  });
}

}  // extern "C"
