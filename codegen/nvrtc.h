// NVRTC, opened at run time.
#pragma once

#include <nvrtc.h>

#include <string>
#include <vector>

namespace tenon::codegen {

// NVRTC's functions, by their names. Immutable once loaded, and NVRTC itself is thread-safe
// across programs.
struct Nvrtc {
  decltype(&::nvrtcVersion) version = nullptr;
  decltype(&::nvrtcCreateProgram) create_program = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy_program = nullptr;
  decltype(&::nvrtcCompileProgram) compile_program = nullptr;
  decltype(&::nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&::nvrtcGetProgramLog) log = nullptr;
  decltype(&::nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&::nvrtcGetCUBIN) cubin = nullptr;
  decltype(&::nvrtcGetPTXSize) ptx_size = nullptr;
  decltype(&::nvrtcGetPTX) ptx = nullptr;
  decltype(&::nvrtcGetErrorString) error_string = nullptr;

  std::string path;          // what was opened
  std::string version_text;  // "13.0"
};

// Files and names that are tried, in order: TENON_NVRTC; the toolkit of the build; the loader's
// own search; .deps/cuda/lib of the checkout (beside the executable's folders and the working
// folder); the folders of LD_LIBRARY_PATH, where PyPI's wheels put nvidia/*/lib.
std::vector<std::string> nvrtc_candidates();

// The library, or null; `why` then says what was looked for and what went wrong.
const Nvrtc* find_nvrtc(std::string* why = nullptr);

}  // namespace tenon::codegen
