// The C API over Database, Device and Executable: handles, error codes, messages.
#include <charconv>
#include <new>

#include "ir/error.h"
#include "runtime/load.h"
#include "runtime/tenon.h"

using namespace tenon;

struct tenon_library {
  std::unique_ptr<cache::Database> database;
  std::unique_ptr<runtime::Device> device;
};

struct tenon_kernel {
  std::unique_ptr<runtime::Executable> executable;
  cache::Stored stored;
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
  try {
    body();
    return TENON_OK;
  } catch (const NotFound& e) {
    last_error = e.what();
    return TENON_NOT_FOUND;
  } catch (const UserError& e) {
    last_error = e.what();
    return TENON_BAD_INPUT;
  } catch (const DeviceError& e) {
    last_error = e.what();
    return TENON_DEVICE_ERROR;
  } catch (const std::bad_alloc&) {
    last_error = "out of memory";
    return TENON_DEVICE_ERROR;
  } catch (const std::exception& e) {
    last_error = std::string("internal error: ") + e.what();
    return TENON_INTERNAL_ERROR;
  }
}

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) throw UserError(name, "NULL", "a pointer that is not NULL");
}

// "m=16,k=4096" -> extents by name.
std::map<std::string, std::int64_t> parse_dims(const std::string& text) {
  std::map<std::string, std::int64_t> dims;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find(',', at), text.size());
    std::string item = text.substr(at, end - at);
    std::size_t equals = item.find('=');
    std::int64_t value = 0;
    const char* last = item.data() + item.size();
    bool good = equals != std::string::npos && equals > 0;
    if (good) {
      auto [stop, error] = std::from_chars(item.data() + equals + 1, last, value);
      good = error == std::errc() && stop == last;
    }
    if (!good) throw UserError("dims", text, "NAME=EXTENT pairs separated by commas");
    dims[item.substr(0, equals)] = value;
    at = end + 1;
  }
  return dims;
}

}  // namespace

extern "C" {

int tenon_abi_version(void) { return TENON_ABI_VERSION; }

const char* tenon_last_error(void) { return last_error.c_str(); }

tenon_status tenon_library_open(const char* database, const char* device, tenon_library** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    auto library = std::make_unique<tenon_library>();
    library->device = runtime::open_device(device == nullptr ? "auto" : device);
    library->database =
        cache::Database::open(database == nullptr ? cache::default_path() : database, true);
    *out = library.release();
  });
}

void tenon_library_close(tenon_library* library) { delete library; }

tenon_status tenon_bind(tenon_library* library, const char* program, const char* dims,
                        const char* dtype, int dependent, const void* const* inputs, void* stream,
                        tenon_kernel** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(library, "library");
    require(program, "program");
    require(dims, "dims");
    require(dtype, "dtype");
    require(inputs, "inputs");
    auto type = ir::dtype_from_name(dtype);
    if (!type || *type == ir::DType::kElem) throw UserError("dtype", dtype, "bf16, fp16, fp32");
    ir::Workload workload =
        ir::make_workload(ir::catalog_program(program), parse_dims(dims), *type);
    std::string why;
    auto stored = library->database->best(
        runtime::make_query(workload, library->device->info(), dependent != 0), &why);
    if (!stored) throw NotFound(why);
    auto kernel = std::make_unique<tenon_kernel>();
    kernel->stored = std::move(*stored);
    kernel->executable = runtime::load(kernel->stored, *library->device);
    const std::size_t count = static_cast<std::size_t>(kernel->executable->plan().input_count);
    // Parentheses: braces would make a vector of these two pointers.
    kernel->executable->prepare(std::vector<const void*>(inputs, inputs + count), stream);
    *out = kernel.release();
  });
}

void tenon_kernel_close(tenon_kernel* kernel) { delete kernel; }

tenon_status tenon_launch(tenon_kernel* kernel, const void* const* inputs, void* const* outputs,
                          int64_t m, void* stream, int dependent) {
  if (m == 0) return TENON_OK;
  return guarded([&] {
    require(kernel, "kernel");
    require(inputs, "inputs");
    require(outputs, "outputs");
    kernel->executable->launch(inputs, outputs, m, stream, dependent != 0);
  });
}

int64_t tenon_kernel_plan(const tenon_kernel* kernel) { return kernel->stored.plan.id; }
double tenon_kernel_stored_time_us(const tenon_kernel* kernel) {
  return kernel->stored.measurement.time_us;
}
const char* tenon_kernel_label(const tenon_kernel* kernel) {
  return kernel->stored.mugraph.label.c_str();
}
const char* tenon_kernel_schedule(const tenon_kernel* kernel) {
  return kernel->stored.schedule.text.c_str();
}

}  // extern "C"
