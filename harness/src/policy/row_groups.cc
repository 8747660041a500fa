// See row_groups.h.
#include "policy/row_groups.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>

#include <algorithm>
#include <exception>
#include <vector>

#include "policy/kernels/product_cache.h"

namespace dp_bench::policy {
namespace {

// With fewer, each thread spends its time on reading all weights. The statistics of norm_kernels.cc
// are summed in one order from this number of rows on.
constexpr std::int64_t kMinRows = 4;

}  // namespace

std::int64_t CountRowGroups(std::int64_t n_rows) {
  if (at::in_parallel_region()) return 1;
  return std::clamp<std::int64_t>(n_rows / kMinRows, 1, at::get_num_threads());
}

void ForRowGroups(std::int64_t n_rows, std::int64_t n_groups,
                  const std::function<void(std::int64_t begin, std::int64_t n)>& work) {
  const at::ThreadLocalState caller;
  ProductCache* const products = ProductScope::Current();
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(n_groups));
#pragma omp parallel for num_threads(static_cast <int>(n_groups)) schedule(static, 1)
  for (std::int64_t i = 0; i < n_groups; ++i) {
    try {
      const at::ThreadLocalStateGuard state(caller);
      const ProductScope scope(products);
      const std::int64_t begin = n_rows * i / n_groups;
      work(begin, n_rows * (i + 1) / n_groups - begin);
    } catch (...) {
      errors[static_cast<std::size_t>(i)] = std::current_exception();
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

}  // namespace dp_bench::policy
