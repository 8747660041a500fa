// See two_products_kernels.h. The gradients of the weights are products over the rows. Their left
// factors, x^T and d y^T, are narrow, so transposing them is cheap; their right factors only change
// places in pairs.
#include "policy/kernels/two_products_kernels.h"

#include <algorithm>
#include <array>
#include <vector>

#include "policy/kernels/packing_kernels.h"
#include "policy/kernels/product_tiles.h"

namespace dp_bench::policy {
namespace {

// From one row of a wide array to the next: a cache line more than needed, so that the rows do not
// compete for a place in the cache.
std::int64_t WideStride(std::int64_t n) { return RoundUp(n, kBf16Width) + kBf16Width; }

// Rows of a narrow matrix in bfloat16, as they are and transposed, with zeros up to whole tiles.
class NarrowBlock {
 public:
  explicit NarrowBlock(std::int64_t width)
      : width_(width),
        inner_(RoundUp(width, kBf16Inner)),
        rows_(Allocate<std::uint16_t>(kMaxBlockRows * inner_)),
        columns_(Allocate<std::uint16_t>(RoundUp(width, kBf16Rows) * kMaxBlockRows)) {}

  void Round(const float* matrix, std::int64_t n) {
    const std::int64_t n_padded = RoundUp(n, kBf16Inner);
    for (std::int64_t i = 0; i < n_padded; ++i) {
      std::uint16_t* const row = rows_.get() + i * inner_;
      if (i < n) RoundToBf16(matrix + i * width_, width_, row);
      std::fill(row + (i < n ? width_ : 0), row + inner_, std::uint16_t{0});
    }
    const MatrixView transposed = {
        .data = matrix, .n_rows = width_, .n_columns = n, .row_stride = 1, .column_stride = width_};
    for (std::int64_t row = 0; row < width_; row += kBf16Rows) {
      std::uint16_t* const to = columns_.get() + row * kMaxBlockRows;
      for (std::int64_t k = 0; k < n; k += kPackedColumns) {
        PackBf16Rows(transposed, {.row = row, .column = k}, kMaxBlockRows, to);
      }
      for (std::int64_t i = 0; i < kBf16Rows; ++i) {
        std::fill(to + i * kMaxBlockRows + n, to + i * kMaxBlockRows + n_padded, std::uint16_t{0});
      }
    }
  }

  const std::uint16_t* rows() const { return rows_.get(); }        // [n, width]
  const std::uint16_t* columns() const { return columns_.get(); }  // [width, kMaxBlockRows]

 private:
  std::int64_t width_;
  std::int64_t inner_;
  std::shared_ptr<std::uint16_t[]> rows_;
  std::shared_ptr<std::uint16_t[]> columns_;
};

// Rows of a wide matrix in bfloat16, in pairs: [pairs of rows, columns, 2].
class WidePairs {
 public:
  explicit WidePairs(std::int64_t width)
      : stride_(2 * WideStride(width)),
        memory_(Allocate<std::uint16_t>(kMaxBlockRows / 2 * stride_)) {
    std::fill_n(memory_.get(), kMaxBlockRows / 2 * stride_, std::uint16_t{0});
  }

  // Columns [column, column + n) of `n_rows` rows, with zeros up to whole blocks of products.
  void Interleave(const float* matrix, std::int64_t matrix_stride, std::int64_t n_rows,
                  std::int64_t column, std::int64_t n) {
    for (std::int64_t i = 0; i < RoundUp(n_rows, kBf16Inner); i += 2) {
      const float* const even = matrix + i * matrix_stride;
      std::uint16_t* const to = memory_.get() + i / 2 * stride_ + 2 * column;
      if (i + 1 < n_rows) {
        InterleaveBf16(even, even + matrix_stride, n, to);
      } else if (i < n_rows) {
        const std::vector<float> zeros(static_cast<std::size_t>(n));
        InterleaveBf16(even, zeros.data(), n, to);
      } else {
        std::fill_n(to, 2 * n, std::uint16_t{0});
      }
    }
  }

  const std::uint16_t* data() const { return memory_.get(); }
  std::int64_t stride() const { return stride_; }

 private:
  std::int64_t stride_;
  std::shared_ptr<std::uint16_t[]> memory_;
};

// The sums of one weight's gradient over a slice of the rows: [width, columns], padded.
struct WeightSums {
  float* data;
  std::int64_t n_columns;
};

struct SliceSums {
  WeightSums w1;
  WeightSums w2;
  float* bias;
};

// The sums of all slices. Their number depends on the shape alone, so that the number of threads
// does not change the result.
class Gradients {
 public:
  Gradients(const TwoProductsBackward& args, const BetweenSizes& sizes)
      : args_(args),
        n_biases_(sizes.n_biases),
        n_blocks_(Ceiling(args.rows, sizes.rows_per_block)),
        width_(args.w1->n_inner),
        size1_(RoundUp(width_, kBf16Rows) * WideStride(args.w1->n_rows)),
        size2_(RoundUp(width_, kBf16Rows) * WideStride(args.w2_transposed->n_rows)) {
    constexpr std::int64_t kMaxSlices = 8;
    constexpr std::int64_t kMaxFloats = 16 << 20;  // of all slices
    const std::int64_t room = std::max<std::int64_t>(2, kMaxFloats / (size1_ + size2_));
    n_slices_ = std::clamp<std::int64_t>(n_blocks_ / 2, 1, std::min(kMaxSlices, room));
    sums_ = Allocate<float>(n_slices_ * (size1_ + size2_));
    biases_.resize(static_cast<std::size_t>(n_slices_ * n_biases_));
  }

  std::int64_t n_slices() const { return n_slices_; }
  std::int64_t FirstBlock(std::int64_t slice) const { return slice * n_blocks_ / n_slices_; }
  SliceSums At(std::int64_t slice) {
    float* const begin = sums_.get() + slice * (size1_ + size2_);
    return {.w1 = {begin, args_.w1->n_rows},
            .w2 = {begin + size1_, args_.w2_transposed->n_rows},
            .bias = biases_.data() + slice * n_biases_};
  }

  // Adds the slices up to their places, by the threads of a parallel region.
  void Collect() {
    const SliceSums first = At(0);
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < width_; row += kBf16Rows) {
      const std::int64_t n = std::min(kBf16Rows, width_ - row);
      for (std::int64_t i = row; i < row + n; ++i) {
        AddUp(first.w1, i);
        std::copy_n(AddUp(first.w2, i), first.w2.n_columns, args_.grad_w2 + i * first.w2.n_columns);
      }
      const std::int64_t stride = WideStride(first.w1.n_columns);
      for (std::int64_t column = 0; column < first.w1.n_columns; ++column) {
        float* const to = args_.grad_w1 + column * width_ + row;
        const float* const from = first.w1.data + row * stride + column;
        for (std::int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
      }
    }
#pragma omp single
    for (std::int64_t i = 0; i < n_biases_; ++i) {
      args_.grad_bias[i] = 0.0F;
      for (std::int64_t slice = 0; slice < n_slices_; ++slice) {
        args_.grad_bias[i] += At(slice).bias[i];
      }
    }
  }

 private:
  // Adds a row of all slices to that of the first, which it returns.
  const float* AddUp(const WeightSums& first, std::int64_t row) const {
    float* const sum = first.data + row * WideStride(first.n_columns);
    for (std::int64_t slice = 1; slice < n_slices_; ++slice) {
      const float* const more = sum + slice * (size1_ + size2_);
      for (std::int64_t i = 0; i < first.n_columns; ++i) sum[i] += more[i];
    }
    return sum;
  }

  const TwoProductsBackward& args_;
  std::int64_t n_biases_;
  std::int64_t n_blocks_;
  std::int64_t width_;
  std::int64_t size1_;
  std::int64_t size2_;
  std::int64_t n_slices_ = 1;
  std::shared_ptr<float[]> sums_;
  std::vector<float> biases_;
};

// The blocks of one thread.
class BackwardBlocks {
 public:
  BackwardBlocks(const TwoProductsBackward& args, std::int64_t group, const Bf16Kernels& kernels,
                 BetweenProducts& between)
      : args_(args),
        kernels_(kernels),
        between_(between),
        width_(args.w1->n_inner),
        n_hidden_(args.w1->n_rows),
        n_values_(args.w2_transposed->n_rows),
        has_one_group_(group >= n_hidden_),
        x_(width_),
        grad_y_(width_),
        values_(n_values_),
        grad_hidden_(n_hidden_),
        hidden_stride_(RoundUp(n_hidden_, kBf16Inner)),
        grad_hidden_rows_(Allocate<std::uint16_t>(kMaxBlockRows * hidden_stride_)),
        group1_(RoundUp(std::min(group, n_hidden_), kBf16Width)),
        group2_(has_one_group_ ? RoundUp(n_values_, kBf16Width) : group1_),
        hidden_floats_(Allocate<float>(kMaxBlockRows * group1_)),
        grad_floats_(Allocate<float>(kMaxBlockRows * group2_)) {
    std::fill_n(grad_hidden_rows_.get(), kMaxBlockRows * hidden_stride_, std::uint16_t{0});
  }

  void Run(std::int64_t begin, std::int64_t n, bool accumulates, const SliceSums& sums) {
    x_.Round(args_.x + begin * width_, n);
    grad_y_.Round(args_.grad_y + begin * width_, n);
    for (std::int64_t column = 0; column < n_hidden_; column += group1_) {
      RunGroup(begin, n, column, sums.bias);
    }
    MultiplyBf16Rows(kernels_,
                     {.n_rows = n,
                      .a = grad_hidden_rows_.get(),
                      .first_panel = 0,
                      .n_panels = Ceiling(width_, kBf16Width),
                      .c = args_.grad_x + begin * width_,
                      .c_stride = width_},
                     *args_.w1_transposed);
    AddProduct(x_, grad_hidden_, n, accumulates, sums.w1);
    AddProduct(grad_y_, values_, n, accumulates, sums.w2);
  }

 private:
  void RunGroup(std::int64_t begin, std::int64_t n, std::int64_t column, float* grad_bias) {
    const std::int64_t n1 = std::min(group1_, n_hidden_ - column);
    const std::int64_t n2 = has_one_group_ ? n_values_ : n1;
    const auto multiply = [&](const NarrowBlock& rows, const PackedWeight& w,
                              std::int64_t n_columns, float* to, std::int64_t stride) {
      MultiplyBf16Rows(kernels_,
                       {.n_rows = n,
                        .a = rows.rows(),
                        .first_panel = column / kBf16Width,
                        .n_panels = Ceiling(n_columns, kBf16Width),
                        .c = to,
                        .c_stride = stride},
                       w);
    };
    multiply(x_, *args_.w1, n1, hidden_floats_.get(), group1_);
    multiply(grad_y_, *args_.w2_transposed, n2, grad_floats_.get(), group2_);
    const BetweenProducts::Results results = between_.Run({.begin = begin,
                                                           .n_rows = n,
                                                           .column = column,
                                                           .n = n1,
                                                           .hidden = hidden_floats_.get(),
                                                           .hidden_stride = group1_,
                                                           .grad = grad_floats_.get(),
                                                           .grad_stride = group2_,
                                                           .grad_bias = grad_bias});
    values_.Interleave(results.values, results.values_stride, n, column, n2);
    grad_hidden_.Interleave(results.grad_hidden, results.grad_hidden_stride, n, column, n1);
    for (std::int64_t i = 0; i < n; ++i) {
      RoundToBf16(results.grad_hidden + i * results.grad_hidden_stride, n1,
                  grad_hidden_rows_.get() + i * hidden_stride_ + column);
    }
  }

  // sums [width, columns] += left^T right.
  void AddProduct(const NarrowBlock& left, const WidePairs& right, std::int64_t n, bool accumulates,
                  const WeightSums& sums) const {
    std::array<std::int64_t, kMaxBlockRows / kBf16Inner> block_offsets;
    for (std::size_t i = 0; i < block_offsets.size(); ++i) {
      block_offsets[i] = static_cast<std::int64_t>(i) * kBf16Inner / 2 * right.stride();
    }
    const std::int64_t n_rows = RoundUp(width_, kBf16Rows);
    const std::int64_t n_panels = Ceiling(sums.n_columns, kBf16Width);
    const std::int64_t stride = WideStride(sums.n_columns);
    for (std::int64_t row = 0; row < n_rows; row += 2 * kBf16Rows) {
      for (std::int64_t p = 0; p < n_panels; p += 2) {
        kernels_.Run({.n_blocks = Ceiling(n, kBf16Inner),
                      .n_rows = std::min(2 * kBf16Rows, n_rows - row),
                      .n_panels = std::min<std::int64_t>(2, n_panels - p),
                      .a = left.columns() + row * kMaxBlockRows,
                      .a_stride = kMaxBlockRows,
                      .b = right.data() + 2 * p * kBf16Width,
                      .block_offsets = block_offsets.data(),
                      .b_stride = right.stride(),
                      .panel_stride = 2 * kBf16Width,
                      .c = sums.data + row * stride + p * kBf16Width,
                      .c_stride = stride,
                      .accumulates = accumulates});
      }
    }
  }

  const TwoProductsBackward& args_;
  const Bf16Kernels& kernels_;
  BetweenProducts& between_;
  std::int64_t width_;
  std::int64_t n_hidden_;
  std::int64_t n_values_;
  bool has_one_group_;
  NarrowBlock x_;
  NarrowBlock grad_y_;
  WidePairs values_;
  WidePairs grad_hidden_;
  std::int64_t hidden_stride_;
  std::shared_ptr<std::uint16_t[]> grad_hidden_rows_;  // [kMaxBlockRows, hidden_stride_]
  std::int64_t group1_;
  std::int64_t group2_;
  std::shared_ptr<float[]> hidden_floats_;  // [kMaxBlockRows, group1_]
  std::shared_ptr<float[]> grad_floats_;    // [kMaxBlockRows, group2_]
};

}  // namespace

void RunTwoProductsBackward(const TwoProductsBackward& args, const BetweenSizes& sizes,
                            const std::function<std::unique_ptr<BetweenProducts>()>& make,
                            int n_threads) {
  Gradients gradients(args, sizes);
#pragma omp parallel num_threads(n_threads) if (n_threads > 1)
  {
    const Bf16Kernels kernels(Bf16Order::kAny);
    const std::unique_ptr<BetweenProducts> between = make();
    BackwardBlocks blocks(args, sizes.group, kernels, *between);
#pragma omp for schedule(static)
    for (std::int64_t slice = 0; slice < gradients.n_slices(); ++slice) {
      const SliceSums sums = gradients.At(slice);
      const std::int64_t first = gradients.FirstBlock(slice);
      for (std::int64_t i = first; i < gradients.FirstBlock(slice + 1); ++i) {
        const std::int64_t begin = i * sizes.rows_per_block;
        blocks.Run(begin, std::min(sizes.rows_per_block, args.rows - begin), i > first, sums);
      }
    }
    gradients.Collect();
  }
}

}  // namespace dp_bench::policy
