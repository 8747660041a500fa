// The rows of a batch on several threads. Within a plan, threads that share every product wait for
// one another some hundred times; threads with rows of their own never do.
#pragma once

#include <cstdint>
#include <functional>

namespace dp_bench::policy {

/// How many groups of rows pay on the CPU with the number of threads that LibTorch has now.
std::int64_t CountRowGroups(std::int64_t n_rows);

/// Calls `work` for `n_groups` groups of about equal size that make up n_rows rows, each on a
/// thread of its own and with the thread-local state of the caller. In them, operators use one
/// thread. Rethrows the error of the first group that has one.
void ForRowGroups(std::int64_t n_rows, std::int64_t n_groups,
                  const std::function<void(std::int64_t begin, std::int64_t n)>& work);

}  // namespace dp_bench::policy
