// The operands of product_kernels.h in the layouts of product_tiles.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "policy/kernels/product_kernels.h"

namespace dp_bench::policy {

constexpr std::int64_t Ceiling(std::int64_t n, std::int64_t step) { return (n + step - 1) / step; }
constexpr std::int64_t RoundUp(std::int64_t n, std::int64_t step) {
  return Ceiling(n, step) * step;
}

template <class T>
std::shared_ptr<T[]> Allocate(std::int64_t n) {
  constexpr std::size_t kAlignment = 64;
  return std::shared_ptr<T[]>(new (std::align_val_t(kAlignment)) T[static_cast<std::size_t>(n)],
                              [](T* p) { ::operator delete[](p, std::align_val_t(kAlignment)); });
}

inline constexpr std::int64_t kPackedColumns = 64;  // so that a block stays in the nearest cache

/// Rows [row, row + 16) and columns [column, column + kPackedColumns) of a matrix.
struct PackingBlock {
  std::int64_t row;
  std::int64_t column;
};

/// Whether the numbers of a row are closer together than those of a column.
bool IsRowMajor(const MatrixView& m);

/// Calls pack(block) for all blocks of `m` in the order of the memory, distributed over the threads
/// of the parallel region that calls it.
template <class Pack>
void ForPackingBlocks(const MatrixView& m, const Pack& pack) {
  constexpr std::int64_t kRows = 16;
  const std::int64_t n_groups = Ceiling(m.n_rows, kRows);
  const std::int64_t n_chunks = Ceiling(m.n_columns, kPackedColumns);
  const bool is_row_major = IsRowMajor(m);
#pragma omp for schedule(static)
  for (std::int64_t i = 0; i < n_groups * n_chunks; ++i) {
    const std::int64_t group = is_row_major ? i / n_chunks : i % n_groups;
    const std::int64_t chunk = is_row_major ? i % n_chunks : i / n_groups;
    pack(PackingBlock{.row = group * kRows, .column = chunk * kPackedColumns});
  }
}

/// The block of `m`, rounded to bfloat16, to its place in [16, stride] at `to`, which begins with
/// column 0 of m. Columns beyond those of m stay as they are, but for one if their number is odd.
/// Rows beyond those of m are 0.
void PackBf16Rows(const MatrixView& m, const PackingBlock& block, std::int64_t stride,
                  std::uint16_t* to);

/// The block to its place in a panel of 16 rows of m at `to`: [pairs of columns, 16, 2], with 0
/// beyond m up to whole blocks of products.
void PackBf16Panel(const MatrixView& m, const PackingBlock& block, std::uint16_t* to);

}  // namespace dp_bench::policy
