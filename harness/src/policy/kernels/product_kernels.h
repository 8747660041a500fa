// Matrix products whose elements depend on nothing but their operands: not on the batch size, their
// place in the batch, the number of threads, or the CPU. A BLAS guarantees none of this: it chooses
// its kernels, and with them the order of a sum, by shape, place and processor.
//
// kFloat32: an element is one chain of fused multiply-adds over the inner dimension, in order.
// kBf16: operands are rounded to bfloat16. The inner dimension is cut into blocks of 32. In a
// block, the elements with even index are one chain of fused multiply-adds from 0, and those with
// odd index another; their sum is added to that of the blocks before. Denormal numbers count as 0.
// This is what TDPBF16PS of AMX computes (Intel's Software Developer's Manual, volume 2);
// processors without it compute the same bits with float32 instructions.
// kBf16AnyOrder: the same operands, summed in the order that the processor is fastest with. It is
// for training, where a result depends on the machine anyway.
// kInt8: a row of the weight is rounded to multiples of its largest magnitude / 127, and each row
// of the other operand to 256 levels from its smallest number, or 0, to its largest, or 0. So 0
// stays 0. Sums are exact.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace dp_bench::policy {

enum class ProductType : std::uint8_t { kFloat32, kBf16, kBf16AnyOrder, kInt8 };

/// A matrix in memory; strides are in elements.
struct MatrixView {
  const float* data;
  std::int64_t n_rows;
  std::int64_t n_columns;
  std::int64_t row_stride;
  std::int64_t column_stride;
};

/// A weight laid out for products, to be used many times.
struct PackedWeight {
  /// w [N, K] for MultiplyByWeight.
  static PackedWeight InPanels(const MatrixView& w, ProductType type, int n_threads = 1);

  /// w [O, K] for MultiplyWeight with `n_sources` sources of equal size. In float32 it may refer to
  /// w's memory.
  static PackedWeight InRows(const MatrixView& w, std::int64_t n_sources, ProductType type);

  /// The same for a weight whose parts, one for each source, are apart; in bfloat16 only.
  static PackedWeight InRows(std::span<const MatrixView> parts, ProductType type, int n_threads);

  ProductType type;
  std::int64_t n_rows;
  std::int64_t n_inner;
  std::int64_t stride;            // from one panel or row to the next, in elements
  const float* floats = nullptr;  // one of the three, in `memory` or in w's
  const std::uint16_t* bf16 = nullptr;
  const std::int8_t* int8 = nullptr;
  const float* scales = nullptr;       // int8: of each row of w, with zeros up to a multiple of 32
  const std::int32_t* sums = nullptr;  // int8: of each source's rounded numbers in each row,
                                       // [sources, rows up to a multiple of 32]
  std::shared_ptr<void> memory = nullptr;
};

/// c [n_rows, N] = x w^T, for w [N, K] in panels. The rows of x and c are dense.
struct RowsByWeight {
  std::int64_t n_rows;
  const float* x;
  std::int64_t x_stride;
  float* c;
  std::int64_t c_stride;
};
void MultiplyByWeight(const RowsByWeight& args, const PackedWeight& w, int n_threads);

/// The same for rows in bfloat16 and some of the panels, in the calling thread.
struct Bf16RowsByWeight {
  std::int64_t n_rows;
  const std::uint16_t* a;  // [n_rows up to a multiple of 16, K up to a multiple of 32], 0 beyond K
  std::int64_t first_panel;  // of 16 rows of w
  std::int64_t n_panels;
  float* c;  // where the first panel's columns begin
  std::int64_t c_stride;
};
class Bf16Kernels;  // product_tiles.h
void MultiplyBf16Rows(const Bf16Kernels& kernels, const Bf16RowsByWeight& args,
                      const PackedWeight& w);

/// Rows of the right-hand side of WeightByColumns: column j of row k is x[k * x_stride + j +
/// shift], and 0 where j + shift is outside of its n_columns.
struct ShiftedRows {
  const float* x;
  std::int64_t shift = 0;
};

/// c [O, n_columns] = w x, added to c if `accumulates` (float32 only). w [O, K] in rows; x are the
/// `sources` below one another, each with K / (number of sources) rows. The rows of c are dense.
///
/// In int8, columns a multiple of `scale_period` apart are rounded alike, over the rows of all
/// sources. Shifts are multiples of it.
struct WeightByColumns {
  std::span<const ShiftedRows> sources;
  std::int64_t x_stride;  // from row to row, of all sources
  std::int64_t n_columns;
  std::int64_t scale_period;
  float* c;
  std::int64_t c_stride;
  bool accumulates = false;
};
void MultiplyWeight(const WeightByColumns& args, const PackedWeight& w, int n_threads);

/// The same for w in panels, in float32 and not accumulated. With so few columns, a register that
/// holds a row of them is mostly empty, and one that holds a row of a panel is full: 80 instead of
/// 31 GFLOP/s at four columns on one core with AVX2.
inline constexpr std::int64_t kFewColumns = 4;
void MultiplyWeightInPanels(const WeightByColumns& args, const PackedWeight& w, int n_threads);

/// c [M, N] = the sum over k of column k + shift of a times column k of b, for a [M, K] and b [N,
/// K]. Columns outside of a are 0. Such is the gradient of a weight. In kBf16AnyOrder.
struct ShiftedResult {
  std::int64_t shift;
  float* c;
  std::int64_t c_stride;
};
struct ProductOverColumns {
  MatrixView a;
  MatrixView b;
  std::span<const ShiftedResult> results;
};
void MultiplyOverColumns(const ProductOverColumns& args, int n_threads);

}  // namespace dp_bench::policy
