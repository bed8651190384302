// Work of uneven sizes, shared out one by one.
#pragma once

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <cstddef>

namespace tenon::search {

// f(0) to f(n - 1), begun in this order by whichever thread of the arena is free: with the largest
// first, no thread is left alone with it at the end.
template <class F>
void in_turn(std::size_t n, const F& f) {
  std::atomic<std::size_t> next = 0;
  const auto threads = static_cast<std::size_t>(tbb::this_task_arena::max_concurrency());
  tbb::parallel_for(
      std::size_t{0}, threads,
      [&](std::size_t) {
        for (std::size_t i = next++; i < n; i = next++) f(i);
      },
      tbb::simple_partitioner());
}

}  // namespace tenon::search
