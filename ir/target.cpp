#include "ir/target.h"

#include <algorithm>
#include <string_view>
#include <thread>

#include "ir/error.h"

namespace tenon::ir {
namespace {

constexpr int kKiB = 1024;

// Shared memory: CUDA C++ Programming Guide, table of technical specifications (the
// opt-in limit of a block is 1 KiB less than the multiprocessor's). Rates are dense
// ones of the named card; memory is what a long read sustains, not the datasheet.
Target ampere_datacenter() {  // A100 80 GB
  Target t;
  t.name = "sm_80";
  t.sm_count = 108;
  t.shared_bytes_per_block = 163 * kKiB;
  t.shared_bytes_per_sm = 164 * kKiB;
  t.registers_per_sm = 65536;
  t.memory_tb_per_s = 1.9;
  t.matrix_tflops = 280;
  t.fp32_tflops = 19.5;
  t.launch_us = 0.9;
  t.l2_bytes = 40 * kKiB * kKiB;
  return t;
}

Target ampere_small() {  // A10
  Target t;
  t.name = "sm_86";
  t.sm_count = 72;
  t.shared_bytes_per_block = 99 * kKiB;
  t.shared_bytes_per_sm = 100 * kKiB;
  t.registers_per_sm = 65536;
  t.memory_tb_per_s = 0.55;
  t.matrix_tflops = 110;
  t.fp32_tflops = 31;
  t.launch_us = 0.9;
  t.l2_bytes = 6 * kKiB * kKiB;
  return t;
}

Target ada() {  // L40S
  Target t;
  t.name = "sm_89";
  t.sm_count = 142;
  t.shared_bytes_per_block = 99 * kKiB;
  t.shared_bytes_per_sm = 100 * kKiB;
  t.registers_per_sm = 65536;
  t.memory_tb_per_s = 0.78;
  t.matrix_tflops = 330;
  t.fp32_tflops = 90;
  t.launch_us = 0.8;
  t.l2_bytes = 96 * kKiB * kKiB;
  return t;
}

Target hopper(const std::string& name) {  // H200; rates and spacing as bench/ measures them
  Target t;
  t.name = name;
  t.sm_count = 132;
  t.shared_bytes_per_block = 227 * kKiB;
  t.shared_bytes_per_sm = 228 * kKiB;
  t.registers_per_sm = 65536;
  t.memory_tb_per_s = 4.3;
  t.matrix_tflops = 790;
  t.fp32_tflops = 60;
  t.launch_us = 0.54;
  t.l2_bytes = 60 * kKiB * kKiB;
  return t;
}

Target host() {
  Target t;
  t.sm_count = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return t;
}

}  // namespace

int Target::compute_capability() const {
  constexpr std::string_view kPrefix = "sm_";
  if (name.compare(0, kPrefix.size(), kPrefix) != 0) return 0;
  int value = 0;
  for (std::size_t i = kPrefix.size();
       i < name.size() && name[i] >= '0' && name[i] <= '9' && value < 1000; ++i) {
    value = value * 10 + (name[i] - '0');
  }
  return value;
}

Target target_from_name(const std::string& name) {
  if (name == "host") return host();
  if (name == "sm_80") return ampere_datacenter();
  if (name == "sm_86") return ampere_small();
  if (name == "sm_89") return ada();
  if (name == "sm_90" || name == "sm_90a") return hopper(name);
  throw UserError("target", name, "host, sm_80, sm_86, sm_89, sm_90, sm_90a");
}

}  // namespace tenon::ir
