// How the threads of a parallel region share a product.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "policy/kernels/packing_kernels.h"

namespace dp_bench::policy {

inline constexpr std::int64_t kRowsPerTask = 96;   // a multiple of the tallest tiles
inline constexpr std::int64_t kPanelsPerTask = 2;  // of products in blocks, as in a tile

/// Rows per task, so that a few tasks fall to each thread.
inline std::int64_t ChunkOf(std::int64_t n_rows, std::int64_t n_others, std::int64_t step,
                            std::int64_t limit, int n_threads) {
  const std::int64_t wanted = Ceiling(2 * n_threads, n_others);  // parts of the rows
  return std::clamp(RoundUp(Ceiling(n_rows, wanted), step), step, limit);
}

/// Calls compute(outer, inner, scratch) for all pairs, distributed over threads. A thread calls
/// prepare(outer, scratch) before its first pair with another `outer`.
struct Tasks {
  std::int64_t n_outer;
  std::int64_t n_inner;
  std::int64_t scratch_size;
};
template <class T, class Prepare, class Compute>
void RunTasks(const Tasks& tasks, const Prepare& prepare, const Compute& compute) {
  const std::shared_ptr<T[]> scratch = Allocate<T>(tasks.scratch_size);
  std::int64_t prepared = -1;
#pragma omp for collapse(2) schedule(static) nowait
  for (std::int64_t outer = 0; outer < tasks.n_outer; ++outer) {
    for (std::int64_t inner = 0; inner < tasks.n_inner; ++inner) {
      if (prepared != outer) prepare(outer, scratch.get());
      prepared = outer;
      compute(outer, inner, scratch.get());
    }
  }
}

/// Of the sources of a product, those from the first to the last that have columns in [column,
/// column
/// + n_columns) of c. The others are 0 there: with T = 4, a kernel of 5 taps meets padding in 6 of
/// 20 steps.
struct SourceRange {
  std::int64_t begin;
  std::int64_t count;
};
inline SourceRange SourcesAt(const WeightByColumns& args, std::int64_t column,
                             std::int64_t n_columns) {
  const auto has_columns = [&](const ShiftedRows& source) {
    const std::int64_t first = column + source.shift;
    return first < args.n_columns && first + n_columns > 0;
  };
  const auto first = std::ranges::find_if(args.sources, has_columns);
  const auto last = std::ranges::find_if(args.sources.rbegin(), args.sources.rend(), has_columns);
  const std::int64_t begin = first - args.sources.begin();
  return {.begin = begin, .count = std::max<std::int64_t>(args.sources.rend() - last - begin, 0)};
}

}  // namespace dp_bench::policy
