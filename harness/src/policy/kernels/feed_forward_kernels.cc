// See feed_forward_kernels.h.
#include "policy/kernels/feed_forward_kernels.h"

#include <algorithm>
#include <array>
#include <memory>

#include "policy/kernels/packing_kernels.h"
#include "policy/kernels/product_tiles.h"
#include "policy/kernels/vector_math.h"

namespace dp_bench::policy {
namespace {

constexpr std::int64_t kGroup = 64;  // hidden units that are computed together

void ForwardBlock(const FeedForwardForward& args, std::int64_t begin, std::int64_t n,
                  float* hidden) {
  const std::int64_t n_units = args.w1->n_rows;
  const std::int64_t width = args.w1->n_inner;
  MultiplyByWeight({.n_rows = n,
                    .x = args.x + begin * width,
                    .x_stride = width,
                    .c = hidden,
                    .c_stride = n_units},
                   *args.w1, /*n_threads=*/1);
  RunBiasActivationForward({.activation = args.activation,
                            .rows = n,
                            .width = n_units,
                            .x = hidden,
                            .bias = args.bias,
                            .y = hidden},
                           /*n_threads=*/1);
  if (args.dropout != nullptr) {
    const float* const dropout = args.dropout + begin * n_units;
    for (std::int64_t i = 0; i < n * n_units; ++i) hidden[i] *= dropout[i];
  }
  MultiplyByWeight({.n_rows = n,
                    .x = hidden,
                    .x_stride = n_units,
                    .c = args.y + begin * width,
                    .c_stride = width},
                   *args.w2, /*n_threads=*/1);
}

// Some hidden units of one row: `hidden` is their sum of products, `grad` their gradient after
// dropout. They become the units after dropout and the gradient of the sum.
struct UnitRow {
  std::int64_t n;
  const float* bias;
  const float* dropout;
  float* hidden;
  float* grad;
  float* grad_bias;
};

template <class Function>
DPB_ALWAYS_INLINE void ReturnUnits(const UnitRow& row) {
  const float* __restrict bias = row.bias;
  const float* __restrict dropout = row.dropout;
  float* __restrict hidden = row.hidden;
  float* __restrict grad = row.grad;
  float* __restrict grad_bias = row.grad_bias;
#pragma omp simd
  for (std::int64_t i = 0; i < row.n; ++i) {
    const ActivationValue at = Function::At(hidden[i] + bias[i]);
    hidden[i] = at.value * dropout[i];
    grad[i] *= at.slope * dropout[i];
    grad_bias[i] += grad[i];
  }
}

DPB_VECTOR_VERSIONS
void ReturnThroughUnits(Activation activation, const UnitRow& row) {
  if (activation == Activation::kGelu) {
    ReturnUnits<Gelu>(row);
  } else {
    ReturnUnits<Relu>(row);
  }
}

class HiddenUnits : public BetweenProducts {
 public:
  explicit HiddenUnits(const FeedForwardBackward& args) : args_(args) { no_dropout_.fill(1.0F); }

  Results Run(const Block& block) override {
    for (std::int64_t i = 0; i < block.n_rows; ++i) {
      const float* const dropout =
          args_.dropout == nullptr
              ? no_dropout_.data()
              : args_.dropout + (block.begin + i) * args_.products.w1->n_rows + block.column;
      ReturnThroughUnits(args_.activation, {.n = block.n,
                                            .bias = args_.bias + block.column,
                                            .dropout = dropout,
                                            .hidden = block.hidden + i * block.hidden_stride,
                                            .grad = block.grad + i * block.grad_stride,
                                            .grad_bias = block.grad_bias + block.column});
    }
    return {.values = block.hidden,
            .values_stride = block.hidden_stride,
            .grad_hidden = block.grad,
            .grad_hidden_stride = block.grad_stride};
  }

 private:
  const FeedForwardBackward& args_;
  std::array<float, kGroup> no_dropout_;
};

}  // namespace

void RunFeedForwardForward(const FeedForwardForward& args, int n_threads) {
  constexpr std::int64_t kMaxRows = 96;  // a multiple of the tallest tiles
  const std::int64_t wanted = Ceiling(args.rows, 2 * n_threads);
  const std::int64_t block = std::clamp(RoundUp(wanted, 2 * kBf16Rows), 2 * kBf16Rows, kMaxRows);
#pragma omp parallel num_threads(n_threads) if (n_threads > 1)
  {
    const auto hidden = Allocate<float>(block * args.w1->n_rows);
#pragma omp for schedule(static)
    for (std::int64_t begin = 0; begin < args.rows; begin += block) {
      ForwardBlock(args, begin, std::min(block, args.rows - begin), hidden.get());
    }
  }
}

void RunFeedForwardBackward(const FeedForwardBackward& args, int n_threads) {
  RunTwoProductsBackward(
      args.products,
      {.rows_per_block = kMaxBlockRows, .group = kGroup, .n_biases = args.products.w1->n_rows},
      [&] { return std::make_unique<HiddenUnits>(args); }, n_threads);
}

}  // namespace dp_bench::policy
