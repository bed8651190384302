#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "codegen/codegen.h"
#include "codegen/embedded.h"
#include "codegen/nvrtc.h"
#include "codegen/resources.h"
#include "ir/sha256.h"

namespace tenon::codegen {

namespace {

class Program {
 public:
  Program(const Nvrtc& nvrtc, const Source& source) : nvrtc_(nvrtc) {
    std::vector<const char*> names, texts;
    for (std::size_t i = 0; i < kDeviceFiles_count; ++i) {
      names.push_back(kDeviceFiles[i].name);
      texts.push_back(kDeviceFiles[i].text);
    }
    nvrtcResult result =
        nvrtc.create_program(&program_, source.text.c_str(), "kernel.cu",
                             static_cast<int>(names.size()), texts.data(), names.data());
    if (result != NVRTC_SUCCESS)
      throw DeviceError(
          fmt::format("NVRTC could not create a program: {}", nvrtc.error_string(result)));
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { nvrtc_.destroy_program(&program_); }

  nvrtcResult compile(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    for (const std::string& o : options) pointers.push_back(o.c_str());
    return nvrtc_.compile_program(program_, static_cast<int>(pointers.size()), pointers.data());
  }
  std::string log() const { return fetch(nvrtc_.log_size, nvrtc_.log, true); }
  std::string cubin() const { return fetch(nvrtc_.cubin_size, nvrtc_.cubin, false); }
  std::string ptx() const { return fetch(nvrtc_.ptx_size, nvrtc_.ptx, true); }

 private:
  template <class SizeOf, class Get>
  std::string fetch(SizeOf size_of, Get get, bool text) const {
    std::size_t size = 0;
    if (size_of(program_, &size) != NVRTC_SUCCESS || size == 0) return "";
    std::string out(size, '\0');
    if (get(program_, out.data()) != NVRTC_SUCCESS) return "";
    if (text && out.back() == '\0') out.pop_back();
    return out;
  }

  const Nvrtc& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

std::vector<std::string> options_for(const ir::Target& target) {
  return {"--gpu-architecture=" + target.name, "--std=c++17", "--device-as-default-execution-space",
          "--ptxas-options=-v"};
}

// What decides the result besides the compiler: the text and the headers it may include.
std::string source_digest(const Source& source) {
  static const std::string headers = [] {
    std::string all;
    for (std::size_t i = 0; i < kDeviceFiles_count; ++i)
      all += std::string(kDeviceFiles[i].name) + '\0' + kDeviceFiles[i].text + '\0';
    return ir::sha256_hex(all);
  }();
  return ir::sha256_hex(source.text + headers);
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out) throw UserError("TENON_DUMP_DIR", path.string(), "a folder that can be written");
}

// <folder>/<first entry>.<digest>.{cu,log,ptx,cubin}, and the device library beside them, so
// that `nvcc -I <folder>` compiles the source.
void dump(const Source& source, const Compiled& compiled, const ir::Target& target) {
  const char* folder = std::getenv("TENON_DUMP_DIR");
  if (!folder || !*folder) return;
  std::filesystem::path root = folder;
  std::string entry = source.entries.empty() ? "kernel" : source.entries.front();
  std::string stem =
      fmt::format("{}.{}.{}", entry, target.name, compiled.source_sha256.substr(0, 12));
  write_file(root / (stem + ".cu"), source.text);
  write_file(root / (stem + ".log"), compiled.log);
  if (!compiled.ptx.empty()) write_file(root / (stem + ".ptx"), compiled.ptx);
  if (compiled.ok) write_file(root / (stem + ".cubin"), compiled.cubin);
  for (std::size_t i = 0; i < kDeviceFiles_count; ++i)
    if (!std::filesystem::exists(root / kDeviceFiles[i].name))
      write_file(root / kDeviceFiles[i].name, kDeviceFiles[i].text);
}

}  // namespace

Compiled compile(const Source& source, const ir::Target& target, bool want_ptx) {
  std::string why;
  const Nvrtc* nvrtc = find_nvrtc(&why);
  if (!nvrtc) throw DeviceError(why);
  if (target.is_host()) throw DeviceError("the host target has nothing to compile");

  auto start = std::chrono::steady_clock::now();
  std::vector<std::string> options = options_for(target);
  Compiled out;
  out.nvrtc_version = nvrtc->version_text;
  out.source_sha256 = source_digest(source);
  out.options = fmt::format("{}", fmt::join(options, " "));

  Program program(*nvrtc, source);
  nvrtcResult result = program.compile(options);
  out.log = program.log();
  const char* dump_folder = std::getenv("TENON_DUMP_DIR");
  if (want_ptx || (dump_folder && *dump_folder)) out.ptx = program.ptx();
  if (result == NVRTC_SUCCESS) out.cubin = program.cubin();
  out.ok = result == NVRTC_SUCCESS && !out.cubin.empty();
  if (out.ok) {
    out.sha256 = ir::sha256_hex(out.cubin);
    out.resources = resources_of(out.cubin, out.log);
    for (const std::string& entry : source.entries) {
      bool found = false;
      for (const KernelResources& r : out.resources) found = found || r.entry == entry;
      if (!found) {
        out.ok = false;
        out.log += fmt::format("the cubin has no kernel {}\n", entry);
      }
    }
  } else if (out.log.find_first_not_of(" \n\t") == std::string::npos) {
    out.log = nvrtc->error_string(result);
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  dump(source, out, target);
  return out;
}

}  // namespace tenon::codegen
