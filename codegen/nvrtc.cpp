#include "codegen/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "codegen/codegen.h"

namespace tenon::codegen {

namespace {

const char* const kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

void add_folder(std::vector<std::string>& out, const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : kNames)
    if (std::filesystem::exists(folder / name, ignored)) out.push_back((folder / name).string());
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// .deps/cuda/lib in this folder or one of those above it.
void add_checkout(std::vector<std::string>& out, std::filesystem::path folder) {
  for (int up = 0; up < 6 && !folder.empty(); ++up) {
    add_folder(out, folder / ".deps" / "cuda" / "lib");
    if (folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
}

template <class F>
bool resolve(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

// The functions of one opened library; nothing when it lacks one.
std::optional<Nvrtc> bind(void* library, const std::string& path, std::string& problem) {
  Nvrtc n;
  bool ok = resolve(library, "nvrtcVersion", n.version) &&
            resolve(library, "nvrtcCreateProgram", n.create_program) &&
            resolve(library, "nvrtcDestroyProgram", n.destroy_program) &&
            resolve(library, "nvrtcCompileProgram", n.compile_program) &&
            resolve(library, "nvrtcGetProgramLogSize", n.log_size) &&
            resolve(library, "nvrtcGetProgramLog", n.log) &&
            resolve(library, "nvrtcGetCUBINSize", n.cubin_size) &&
            resolve(library, "nvrtcGetCUBIN", n.cubin) &&
            resolve(library, "nvrtcGetPTXSize", n.ptx_size) &&
            resolve(library, "nvrtcGetPTX", n.ptx) &&
            resolve(library, "nvrtcGetErrorString", n.error_string);
  if (!ok) {
    problem = path + " lacks a function";
    return std::nullopt;
  }
  int major = 0, minor = 0;
  if (n.version(&major, &minor) != NVRTC_SUCCESS || major < 12) {
    problem = fmt::format("{} has version {}.{}, older than 12", path, major, minor);
    return std::nullopt;
  }
  n.path = path;
  n.version_text = fmt::format("{}.{}", major, minor);
  return n;
}

struct Loaded {
  std::optional<Nvrtc> nvrtc;
  std::string problems;
};

// NVRTC opens its builtins by name only, which fails where its folder is not on the loader's path
// (an unpacked wheel): loaded already, they are found.
void load_builtins_beside(const std::string& path) {
  std::error_code failed;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(path).parent_path(), failed)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("libnvrtc-builtins.so."))
      dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  }
}

Loaded load() {
  Loaded out;
  std::string tried;
  for (const std::string& path : nvrtc_candidates()) {
    tried += (tried.empty() ? "" : ", ") + path;
    load_builtins_beside(path);
    // Never closed: NVRTC keeps threads and caches of its own.
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    std::string problem;
    out.nvrtc = bind(library, path, problem);
    if (out.nvrtc) return out;
    out.problems += problem + "; ";
    dlclose(library);
  }
  out.problems += "tried " + tried;
  return out;
}

}  // namespace

std::vector<std::string> nvrtc_candidates() {
  std::vector<std::string> out;
  std::string chosen = environment("TENON_NVRTC");
  if (!chosen.empty()) {
    std::error_code ignored;
    if (std::filesystem::is_directory(chosen, ignored))
      add_folder(out, chosen);
    else
      out.push_back(chosen);
  }
  for (const char* lib : {"lib64", "lib"})
    add_folder(out, std::filesystem::path(TENON_CUDA_ROOT) / lib);
  for (const char* name : kNames) out.push_back(name);
  std::error_code failed;
  std::filesystem::path exe = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) add_checkout(out, exe.parent_path());
  std::filesystem::path here = std::filesystem::current_path(failed);
  if (!failed) add_checkout(out, here);
  std::string paths = environment("LD_LIBRARY_PATH");
  for (std::size_t begin = 0; begin < paths.size();) {
    std::size_t end = std::min(paths.find(':', begin), paths.size());
    std::filesystem::path folder = paths.substr(begin, end - begin);
    for (const char* wheel : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"})
      add_folder(out, folder / wheel);
    begin = end + 1;
  }
  return out;
}

const Nvrtc* find_nvrtc(std::string* why) {
  static const Loaded loaded = load();
  if (!loaded.nvrtc && why)
    *why = "NVRTC of CUDA 12 or later was not found (" + loaded.problems +
           "); install it, or set TENON_NVRTC to libnvrtc.so";
  return loaded.nvrtc ? &*loaded.nvrtc : nullptr;
}

bool nvrtc_available(std::string* why) { return find_nvrtc(why) != nullptr; }

std::string nvrtc_version() {
  std::string why;
  const Nvrtc* nvrtc = find_nvrtc(&why);
  if (!nvrtc) throw DeviceError(why);
  return nvrtc->version_text;
}

}  // namespace tenon::codegen
