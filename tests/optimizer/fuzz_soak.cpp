// tenon_fuzz_soak [CASES [FIRST]]: random programs through search, verifier and host device, on all
// processors. Exit code 1 when one fails; each failure prints its seed and its program.
#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>

#include "fuzz.h"

int main(int argc, char** argv) {
  const std::uint64_t cases = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10000;
  const std::uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000;
  std::atomic<std::uint64_t> failed = 0, found = 0, compared = 0, launches = 0;
  std::mutex mutex;
  const auto start = std::chrono::steady_clock::now();
  tbb::parallel_for(first, first + cases, [&](std::uint64_t seed) {
    const tenon::test::FuzzCase c = tenon::test::fuzz(seed);
    found += c.graphs > 0;
    compared += c.compared;
    launches += static_cast<std::uint64_t>(c.run);
    if (c.ok) return;
    ++failed;
    std::lock_guard lock(mutex);
    fmt::print("FAILED: {}\n", c.problem);
    std::fflush(stdout);
  });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{} programs, {} with a µGraph, {} launches, {} compared, {} failed, {:.0f} s\n",
             cases, found.load(), launches.load(), compared.load(), failed.load(), seconds);
  return failed == 0 ? 0 : 1;
}
