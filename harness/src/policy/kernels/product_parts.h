// What the products of product_kernels.h have in common: how the threads of a parallel region share
// one, and how its columns lie in memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "policy/kernels/packing_kernels.h"
#include "policy/kernels/product_tiles.h"

namespace dp_bench::policy {

inline constexpr std::int64_t kRowsPerTask = 96;   // a multiple of the tallest tiles
inline constexpr std::int64_t kPanelsPerTask = 2;  // of products in blocks, as in a tile

/// Rows per task, so that a few tasks fall to each thread.
inline std::int64_t ChunkOf(std::int64_t n_rows, std::int64_t n_others, std::int64_t step,
                            std::int64_t limit, int n_threads) {
  const std::int64_t wanted = Ceiling(2 * n_threads, n_others);  // parts of the rows
  return std::clamp(RoundUp(Ceiling(n_rows, wanted), step), step, limit);
}

/// Calls compute(outer, inner) for all pairs, distributed over threads.
struct Tasks {
  std::int64_t n_outer;
  std::int64_t n_inner;
};
template <class Compute>
void RunTasks(const Tasks& tasks, const Compute& compute) {
#pragma omp for collapse(2) schedule(static) nowait
  for (std::int64_t outer = 0; outer < tasks.n_outer; ++outer) {
    for (std::int64_t inner = 0; inner < tasks.n_inner; ++inner) compute(outer, inner);
  }
}

/// The same with memory for each thread, which calls prepare(outer, scratch) before its first pair
/// with another `outer`.
template <class T, class Prepare, class Compute>
void RunTasksWithScratch(const Tasks& tasks, std::int64_t scratch_size, const Prepare& prepare,
                         const Compute& compute) {
  const std::shared_ptr<T[]> scratch = Allocate<T>(scratch_size);
  std::int64_t prepared = -1;
  RunTasks(tasks, [&](std::int64_t outer, std::int64_t inner) {
    if (prepared != outer) prepare(outer, scratch.get());
    prepared = outer;
    compute(outer, inner, scratch.get());
  });
}

/// Where the blocks of a packed panel begin, in elements. `inner`: a multiple of `block`.
inline std::vector<std::int64_t> PanelOffsets(std::int64_t inner, std::int64_t block) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t k = 0; k < inner; k += block) offsets.push_back(k * kBf16Width);
  return offsets;
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

/// Where the sources of a product lie in blocks of kGroup rows: [matrices, groups of rows, columns,
/// kGroup], with a margin on both sides of the columns, so that a shift is an offset in memory. Two
/// sources may be the same matrix.
template <std::int64_t kGroup, std::int64_t kBlock>
class ColumnBlocks {
 public:
  ColumnBlocks(const WeightByColumns& args, std::int64_t n_rows)
      : args_(args), n_rows_(n_rows), n_groups_(RoundUp(n_rows, kBlock) / kGroup) {
    for (const ShiftedRows& source : args.sources) {
      margin_ = std::max(margin_, std::abs(source.shift));
      if (std::ranges::find(matrices_, source.x) == matrices_.end()) matrices_.push_back(source.x);
    }
    // a multiple of whole cache lines, but not of the distance at which lines compete for a place
    width_ = RoundUp(args.n_columns + 2 * margin_ + kPanelsPerTask * kBf16Width, kBf16Width);
    if (width_ % 256 == 0) width_ += kBf16Width;
  }

  std::int64_t n_matrices() const { return std::ssize(matrices_); }
  std::int64_t n_rows() const { return n_rows_; }      // of a matrix
  std::int64_t n_groups() const { return n_groups_; }  // of a matrix, up to a whole block
  std::int64_t margin() const { return margin_; }
  std::int64_t width() const { return width_; }  // with both margins and up to whole panels
  std::int64_t stride() const { return kGroup * width_; }  // of a group, in elements

  const float* Row(std::int64_t matrix, std::int64_t row) const {
    return matrices_[static_cast<std::size_t>(matrix)] + row * args_.x_stride;
  }

  std::int64_t blocks_of_source() const { return n_groups_ * kGroup / kBlock; }

  /// Where the blocks of the inner dimension begin for column 0, in elements.
  std::vector<std::int64_t> BlockOffsets() const {
    std::vector<std::int64_t> offsets;
    for (const ShiftedRows& source : args_.sources) {
      const auto matrix = std::ranges::find(matrices_, source.x) - matrices_.begin();
      for (std::int64_t group = 0; group < n_groups_; group += kBlock / kGroup) {
        offsets.push_back((matrix * n_groups_ + group) * stride() +
                          kGroup * (margin_ + source.shift));
      }
    }
    return offsets;
  }

 private:
  const WeightByColumns& args_;
  std::int64_t n_rows_;
  std::int64_t n_groups_;
  std::int64_t margin_ = 0;
  std::int64_t width_ = 0;
  std::vector<const float*> matrices_;
};

}  // namespace dp_bench::policy
