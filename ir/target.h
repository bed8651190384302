// What code is generated for: enough of a device to bind schedules and rank them.
#pragma once

#include <string>

namespace tenon::ir {

struct Target {
  std::string name = "host";       // "host", "sm_80", "sm_89", "sm_90a", …
  int sm_count = 1;                // host: worker threads
  int shared_bytes_per_block = 0;  // opt-in limit
  int shared_bytes_per_sm = 0;
  int registers_per_sm = 0;
  double memory_tb_per_s = 0.02;  // sustained read
  double matrix_tflops = 0.1;     // 16-bit inputs, fp32 accumulation
  double fp32_tflops = 0.05;
  double launch_us = 0.5;  // spacing of empty kernels in a graph
  int l2_bytes = 0;
  bool is_host() const { return name == "host"; }
  // 80 for "sm_80", 90 for "sm_90a"; 0 for the host.
  int compute_capability() const;
  friend bool operator==(const Target&, const Target&) = default;
};

// Known defaults: "host", "sm_80" (A100), "sm_89", "sm_90"/"sm_90a" (H200). Throws UserError.
Target target_from_name(const std::string& name);

}  // namespace tenon::ir
