// launch_overhead DATABASE DEVICE M K N: prints what bench/launch_overhead.h says, as JSON.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "bench/launch_overhead.h"

int main(int argc, char** argv) try {
  if (argc != 6) {
    std::fprintf(stderr, "usage: launch_overhead DATABASE DEVICE M K N\n");
    return 2;
  }
  const auto result = tenon::bench::measure_launch_overhead(
      argv[1], argv[2], std::atoll(argv[3]), std::atoll(argv[4]), std::atoll(argv[5]));
  std::fputs(result.json.c_str(), stdout);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "launch_overhead: %s\n", e.what());
  return 3;
}
