// Compiles schedules with NVRTC, in parallel, into a folder of cubins that later runs reuse.
#pragma once

#include <nvrtc.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <thread>

#include "gemm_config.h"

namespace gemm_bench {

struct Compiled {
  bool ok = false;
  std::string cubin, log;
  int registers = 0, spills = 0;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::uint64_t fnv(const std::string& text, std::uint64_t hash = 1469598103934665603ull) {
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211ull;
  return hash;
}

class Compiler {
 public:
  Compiler(std::string include, std::string folder)
      : include_(std::move(include)), folder_(std::move(folder)) {
    std::set<std::filesystem::path> files;
    for (const char* part : {"device/ptx", "device/gemm"}) {
      for (const auto& entry : std::filesystem::directory_iterator(include_ + "/" + part)) {
        files.insert(entry.path());
      }
    }
    for (const auto& file : files) headers_ = fnv(read_file(file), headers_);
    std::filesystem::create_directories(folder_);
  }

  Compiled compile(const Schedule& schedule) const {
    const std::string source = schedule.source();
    char key[32];
    std::snprintf(key, sizeof key, "%016llx",
                  static_cast<unsigned long long>(fnv(source, headers_)));
    const auto stem = std::filesystem::path(folder_) / key;
    Compiled result;
    if (std::filesystem::exists(stem.string() + ".cubin")) {
      result.cubin = read_file(stem.string() + ".cubin");
      result.log = read_file(stem.string() + ".log");
      result.ok = true;
    } else {
      run(source, result);
      if (result.ok) {
        std::ofstream(stem.string() + ".log", std::ios::binary) << result.log;
        std::ofstream(stem.string() + ".cubin", std::ios::binary) << result.cubin;
      }
    }
    std::smatch match;
    if (std::regex_search(result.log, match, std::regex("Used (\\d+) registers"))) {
      result.registers = std::stoi(match[1]);
    }
    if (std::regex_search(result.log, match, std::regex("(\\d+) bytes spill stores"))) {
      result.spills = std::stoi(match[1]);
    }
    return result;
  }

  std::vector<Compiled> compile_all(const std::vector<Schedule>& schedules,
                                    const std::vector<bool>& legal) const {
    std::vector<Compiled> results(schedules.size());
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
      workers.emplace_back([&] {
        for (std::size_t j; (j = next++) < schedules.size();) {
          if (legal[j]) results[j] = compile(schedules[j]);
        }
      });
    }
    for (auto& worker : workers) worker.join();
    return results;
  }

 private:
  void run(const std::string& source, Compiled& result) const {
    nvrtcProgram program;
    if (nvrtcCreateProgram(&program, source.c_str(), "gemm.cu", 0, nullptr, nullptr)) return;
    const std::string include = "-I" + include_;
    std::vector<const char*> options = {"-arch=sm_90a", "-std=c++17", "-default-device",
                                        "--ptxas-options=-v", include.c_str()};
    result.ok = nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data()) ==
                NVRTC_SUCCESS;
    std::size_t size = 0;
    nvrtcGetProgramLogSize(program, &size);
    result.log.resize(size);
    nvrtcGetProgramLog(program, result.log.data());
    if (result.ok) {
      nvrtcGetCUBINSize(program, &size);
      result.cubin.resize(size);
      nvrtcGetCUBIN(program, result.cubin.data());
    }
    nvrtcDestroyProgram(&program);
  }

  std::string include_, folder_;
  std::uint64_t headers_ = 1469598103934665603ull;
};

}  // namespace gemm_bench
