// Rows to fill a database with, and a folder to put it in.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "cache/database.h"

namespace tenon::cache {

// A folder of its own, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A candidate as the optimizer stores it: everything from workload to measurement. The defaults
// make a usable one; a test changes what it is about.
struct Sample {
  std::int64_t m = 16, k = 576, n = 960;
  std::string dtype = "bf16";
  std::string program_text = "program rmsnorm_linear\n";
  std::string mugraph = "mugraph one\n";
  std::string schedule = "host()";
  std::string device_class = "sm_90a";
  std::string device_name = "NVIDIA H200";
  std::string driver = "580.65.06";
  std::string nvrtc = "13.0";
  std::string tenon = "0.1.0";
  std::string cubin =
      "\x7f"
      "ELF one";  // empty: no kernel
  std::int64_t m_min = 16, m_max = 16;
  bool dependent_launch = false;
  bool uses_library = false;
  std::string random = "pass";  // verdicts; empty: no such evidence
  std::string z3 = "proved";
  std::string numeric = "pass";
  std::string kind = "measured";
  std::string status = "ok";
  std::string reason;
  double time_us = 10;
  std::string created;  // empty: now
  std::string disturbance;
  bool decides = true;
  double reference_us = 0;  // of the session
};

std::string key_of(const Sample& sample);
// The query that the sample answers.
Query query_for(const Sample& sample);
// Stores the sample in one transaction; returns the plan's id.
std::int64_t add(Database& database, const Sample& sample);

}  // namespace tenon::cache
