// See attention_block_kernels.h.
#include "policy/kernels/attention_block_kernels.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "policy/kernels/packing_kernels.h"

namespace dp_bench::policy {
namespace {

// Batch rows [begin, begin + n_rows) of a sublayer, whose queries (without a memory, also keys and
// values) are `projected`, [n_rows * T, width of w_in].
struct BlockOfRows {
  const AttentionBlockShape& shape;
  std::int64_t begin;
  std::int64_t n_rows;
  const float* projected;
  std::int64_t projected_stride;
  const float* memory;

  AttentionShape Shape() const {
    const bool is_self = memory == nullptr;
    return {.batch = n_rows,
            .n_head = shape.n_head,
            .head_dim = shape.head_dim,
            .n_query = shape.n_query,
            .n_key = shape.n_key,
            .q_row = shape.n_query * projected_stride,
            .q_token = projected_stride,
            .kv_row = is_self ? shape.n_query * projected_stride : shape.memory_row,
            .kv_token = is_self ? projected_stride : shape.memory_token,
            .mask_row = shape.mask_row};
  }

  std::int64_t memory_offset() const { return begin * shape.memory_row; }
  const float* keys() const {
    return memory == nullptr ? projected + shape.width() : memory + memory_offset();
  }
  const float* values() const { return keys() + shape.width(); }

  // Of scores, [B, H, S, padded T].
  std::int64_t scores_per_row() const {
    return shape.n_head * shape.n_key * PaddedQueries(shape.n_query);
  }
  const float* Scores(const float* all) const {
    return all == nullptr ? nullptr : all + begin * scores_per_row();
  }
  const float* Mask(const float* mask) const {
    return mask == nullptr ? nullptr : mask + begin * shape.mask_row;
  }
};

// `Args`: those of the forward or the backward pass.
template <class Args>
void Attend(const Args& args, const BlockOfRows& rows, float* out, float* probabilities) {
  RunAttentionForward({.shape = rows.Shape(),
                       .q = rows.projected,
                       .k = rows.keys(),
                       .v = rows.values(),
                       .bias = args.bias,
                       .mask = rows.Mask(args.mask),
                       .dropout = rows.Scores(args.dropout),
                       .out = out,
                       .probabilities = probabilities},
                      /*n_threads=*/1);
}

// What a thread needs for some batch rows.
struct BlockScratch {
  BlockScratch(const AttentionBlockShape& shape, std::int64_t n_rows, std::int64_t n_projected)
      : projected(Allocate<float>(n_rows * shape.n_query * n_projected)),
        out(Allocate<float>(n_rows * shape.n_query * shape.width())),
        probabilities(
            Allocate<float>(n_rows * shape.n_head * shape.n_key * PaddedQueries(shape.n_query))) {}

  std::shared_ptr<float[]> projected;      // [rows * T, width of w_in], or their gradients
  std::shared_ptr<float[]> out;            // [rows * T, d]
  std::shared_ptr<float[]> probabilities;  // [rows, H, S, padded T]
};

void ForwardBlock(const AttentionBlockForward& args, std::int64_t begin, std::int64_t n_rows,
                  const BlockScratch& scratch) {
  const AttentionBlockShape& shape = args.shape;
  const std::int64_t first = begin * shape.n_query;
  const std::int64_t n = n_rows * shape.n_query;
  const std::int64_t width = shape.width();
  MultiplyByWeight({.n_rows = n,
                    .x = args.x + first * width,
                    .x_stride = width,
                    .c = scratch.projected.get(),
                    .c_stride = args.w_in->n_rows},
                   *args.w_in, /*n_threads=*/1);
  Attend(args,
         {.shape = shape,
          .begin = begin,
          .n_rows = n_rows,
          .projected = scratch.projected.get(),
          .projected_stride = args.w_in->n_rows,
          .memory = args.memory},
         scratch.out.get(), scratch.probabilities.get());
  MultiplyByWeight({.n_rows = n,
                    .x = scratch.out.get(),
                    .x_stride = width,
                    .c = args.y + first * width,
                    .c_stride = width},
                   *args.w_out, /*n_threads=*/1);
}

class AttentionBetween : public BetweenProducts {
 public:
  AttentionBetween(const AttentionBlockBackward& args, std::int64_t rows_per_block)
      : args_(args),
        n_projected_(RoundUp(args.products.w1->n_rows, 16)),
        scratch_(args.shape, rows_per_block, n_projected_),
        grad_bias_(static_cast<std::size_t>(3 * args.shape.width())) {}

  Results Run(const Block& block) override {
    const AttentionBlockShape& shape = args_.shape;
    const std::int64_t width = shape.width();
    const BlockOfRows rows = {.shape = shape,
                              .begin = block.begin / shape.n_query,
                              .n_rows = block.n_rows / shape.n_query,
                              .projected = block.hidden,
                              .projected_stride = block.hidden_stride,
                              .memory = args_.memory};
    Attend(args_, rows, scratch_.out.get(), scratch_.probabilities.get());
    float* const grad = scratch_.projected.get();
    float* const grad_keys =
        args_.memory == nullptr ? grad + width : args_.grad_memory + rows.memory_offset();
    RunAttentionBackward({.shape = rows.Shape(),
                          .q = rows.projected,
                          .k = rows.keys(),
                          .v = rows.values(),
                          .bias = args_.bias,
                          .dropout = rows.Scores(args_.dropout),
                          .probabilities = scratch_.probabilities.get(),
                          .grad_out = Dense(block.grad, block.grad_stride, block.n_rows),
                          .grad_q = grad,
                          .grad_k = grad_keys,
                          .grad_v = grad_keys + width,
                          .grad_bias = grad_bias_.data()},
                         /*n_threads=*/1);
    for (std::size_t i = 0; i < grad_bias_.size(); ++i) block.grad_bias[i] += grad_bias_[i];
    return {.values = scratch_.out.get(),
            .values_stride = width,
            .grad_hidden = grad,
            .grad_hidden_stride = block.hidden_stride};
  }

 private:
  // The loops take the gradient without gaps between its rows.
  const float* Dense(float* grad, std::int64_t stride, std::int64_t n_rows) const {
    const std::int64_t width = args_.shape.width();
    for (std::int64_t i = 1; stride != width && i < n_rows; ++i) {
      std::copy_n(grad + i * stride, width, grad + i * width);
    }
    return grad;
  }

  const AttentionBlockBackward& args_;
  std::int64_t n_projected_;  // as wide as the block's rows
  BlockScratch scratch_;
  std::vector<float> grad_bias_;
};

}  // namespace

void RunAttentionBlockForward(const AttentionBlockForward& args, int n_threads) {
  constexpr std::int64_t kTokens = 96;  // of a block, about; a multiple of the tallest tiles
  const AttentionBlockShape& shape = args.shape;
  const std::int64_t block = std::clamp<std::int64_t>(
      Ceiling(shape.batch, 2 * n_threads), 1, std::max<std::int64_t>(1, kTokens / shape.n_query));
#pragma omp parallel num_threads(n_threads) if (n_threads > 1)
  {
    const BlockScratch scratch(shape, block, args.w_in->n_rows);
#pragma omp for schedule(static)
    for (std::int64_t begin = 0; begin < shape.batch; begin += block) {
      ForwardBlock(args, begin, std::min(block, shape.batch - begin), scratch);
    }
  }
}

bool HasBlocks(const AttentionBlockShape& shape) { return shape.n_query <= kMaxBlockRows; }

void RunAttentionBlockBackward(const AttentionBlockBackward& args, int n_threads) {
  const AttentionBlockShape& shape = args.shape;
  const std::int64_t rows_per_block = kMaxBlockRows / shape.n_query;
  RunTwoProductsBackward(
      args.products,
      {.rows_per_block = rows_per_block * shape.n_query,
       .group = args.products.w1->n_rows,
       .n_biases = 3 * shape.width()},
      [&] { return std::make_unique<AttentionBetween>(args, rows_per_block); }, n_threads);
}

}  // namespace dp_bench::policy
