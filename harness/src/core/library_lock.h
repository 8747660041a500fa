// Locks of C libraries that are not thread-safe. dp_bench_core exists once in a process, and so do
// they, although several plugins bring the code that calls such a library.
#pragma once

#include <mutex>

namespace dp_bench::core {

/// Held during every call of libhdf5.
std::mutex& Hdf5Lock();

}  // namespace dp_bench::core
