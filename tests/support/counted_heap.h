// Counts the heap allocations of a program, and may fill what they return. Include it in one file
// of the program, because it defines operator new, which serves the program's libraries too.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace dp_bench {

inline std::atomic<long> n_allocations{0};
inline thread_local long n_allocations_of_thread = 0;
inline std::atomic<int> fill_of_allocations{-1};  // a byte; -1: what was there before

inline void* CountedAllocate(std::size_t size) {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  ++n_allocations_of_thread;
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  const int fill = fill_of_allocations.load(std::memory_order_relaxed);
  if (fill >= 0) std::memset(memory, fill, size);
  return memory;
}

}  // namespace dp_bench

void* operator new(std::size_t size) { return dp_bench::CountedAllocate(size); }
void* operator new[](std::size_t size) { return dp_bench::CountedAllocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
