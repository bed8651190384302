// Counts every allocation of the program. In a file of its own, so that the compiler does not
// look through the replaced operators.
#include <atomic>
#include <cstdlib>
#include <new>

std::atomic<long> heap_allocations{0};

void* operator new(std::size_t n) {
  ++heap_allocations;
  if (void* p = std::malloc(n ? n : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
