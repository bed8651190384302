#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <fstream>

#include "ir/error.h"

namespace tenon::runtime::cuda {

namespace {

// "580.65.06" out of the kernel module's own words, or nothing.
std::string module_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    bool number = word.size() >= 6 && word.find_first_not_of("0123456789.") == std::string::npos &&
                  word.find('.') != std::string::npos;
    if (number) return word;
  }
  return "";
}

struct Opened {
  Driver driver;
  bool usable = false;
  std::string why;

  Opened() {
    // Never closed: the driver's threads outlive any object of ours.
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      why = "the CUDA driver (libcuda.so.1) was not found";
      return;
    }
    std::string missing;
    auto find = [&](auto& member, const char* symbol, bool needed) {
      void* address = dlsym(library, symbol);
      member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(address);
      if (address == nullptr && needed && missing.empty()) missing = symbol;
    };
#define TENON_FIND_REQUIRED(member, function, symbol) find(driver.member, symbol, true);
#define TENON_FIND_OPTIONAL(member, function, symbol) find(driver.member, symbol, false);
    TENON_DRIVER_FUNCTIONS(TENON_FIND_REQUIRED, TENON_FIND_OPTIONAL)
#undef TENON_FIND_REQUIRED
#undef TENON_FIND_OPTIONAL
    if (!missing.empty()) {
      why = "the CUDA driver is too old: it lacks " + missing + " (CUDA 12 or later is needed)";
      return;
    }
    CUresult result = driver.init(0);
    if (result != CUDA_SUCCESS) {
      const char* text = nullptr;
      driver.error_string(result, &text);
      why = fmt::format("the CUDA driver does not start: {}", text ? text : "unknown error");
      return;
    }
    int number = 0;
    driver.driver_version(&number);
    std::string cuda = fmt::format("CUDA {}.{}", number / 1000, number % 1000 / 10);
    std::string own = module_version();
    driver.version = own.empty() ? cuda : fmt::format("{} ({})", own, cuda);
    usable = true;
  }
};

}  // namespace

void Driver::check(CUresult result, const std::string& what) const {
  if (result == CUDA_SUCCESS) return;
  const char* sentence = nullptr;
  const char* label = nullptr;
  error_string(result, &sentence);
  error_name(result, &label);
  throw DeviceError(fmt::format("{}: {} ({})", what, sentence ? sentence : "unknown error",
                                label ? label : "no name"));
}

const Driver* driver(std::string* why) {
  static const Opened opened;
  if (why) *why = opened.why;
  return opened.usable ? &opened.driver : nullptr;
}

}  // namespace tenon::runtime::cuda
