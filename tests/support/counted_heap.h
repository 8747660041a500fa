// Counts the heap allocations of a program. Include it in one file of the program, because it
// defines operator new, which serves the program's libraries too.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace dp_bench {

inline std::atomic<long> n_allocations{0};
inline thread_local long n_allocations_of_thread = 0;

inline void* CountedAllocate(std::size_t size) {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  ++n_allocations_of_thread;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace dp_bench

void* operator new(std::size_t size) { return dp_bench::CountedAllocate(size); }
void* operator new[](std::size_t size) { return dp_bench::CountedAllocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
