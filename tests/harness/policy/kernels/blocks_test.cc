// The loops without LibTorch, so that the address sanitizer sees their arrays, each of which has a
// heap block of its own. Their values are compared in feed_forward_test.cc and
// projected_attention_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "policy/kernels/attention_block_kernels.h"
#include "policy/kernels/feed_forward_kernels.h"

namespace dp_bench::policy {
namespace {

using Numbers = std::vector<float>;

class Blocks : public testing::Test {
 protected:
  Numbers Random(std::int64_t n) {
    Numbers numbers(static_cast<std::size_t>(n));
    for (float& x : numbers) x = normal_(random_);
    return numbers;
  }

  // NaN, until something is written.
  static Numbers Empty(std::int64_t n) {
    return Numbers(static_cast<std::size_t>(n), std::numeric_limits<float>::quiet_NaN());
  }

  static PackedWeight Panels(const Numbers& w, std::int64_t n_rows, std::int64_t n_columns) {
    return PackedWeight::InPanels({.data = w.data(),
                                   .n_rows = n_rows,
                                   .n_columns = n_columns,
                                   .row_stride = n_columns,
                                   .column_stride = 1},
                                  ProductType::kBf16AnyOrder);
  }

  static PackedWeight PanelsOfTransposed(const Numbers& w, std::int64_t n_rows,
                                         std::int64_t n_columns) {
    return PackedWeight::InPanels({.data = w.data(),
                                   .n_rows = n_columns,
                                   .n_columns = n_rows,
                                   .row_stride = 1,
                                   .column_stride = n_columns},
                                  ProductType::kBf16AnyOrder);
  }

  static bool AllWritten(const Numbers& numbers) {
    return std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); });
  }

 private:
  std::mt19937 random_{5};
  std::normal_distribution<float> normal_{0.0F, 0.3F};
};

// rows, width, hidden units
using LayerSizes = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

class FeedForwardBlocks : public Blocks, public testing::WithParamInterface<LayerSizes> {};

INSTANTIATE_TEST_SUITE_P(Shapes, FeedForwardBlocks,
                         testing::Values(LayerSizes{1, 1, 1}, LayerSizes{4, 5, 3},
                                         LayerSizes{40, 16, 64}, LayerSizes{300, 24, 50},
                                         LayerSizes{1100, 64, 192}, LayerSizes{516, 33, 130}));

TEST_P(FeedForwardBlocks, WriteAllResultsAndNothingElse) {
  const auto [rows, width, n_units] = GetParam();
  const Numbers x = Random(rows * width);
  const Numbers grad_y = Random(rows * width);
  const Numbers w1 = Random(n_units * width);
  const Numbers w2 = Random(n_units * width);
  const Numbers bias = Random(n_units);
  const Numbers dropout = Random(rows * n_units);
  const PackedWeight panels1 = Panels(w1, n_units, width);
  const PackedWeight panels1_transposed = PanelsOfTransposed(w1, n_units, width);
  const PackedWeight panels2 = Panels(w2, width, n_units);
  const PackedWeight panels2_transposed = PanelsOfTransposed(w2, width, n_units);
  for (const int n_threads : {1, 2}) {
    for (const float* const mask : {static_cast<const float*>(nullptr), dropout.data()}) {
      Numbers y = Empty(rows * width);
      RunFeedForwardForward({.activation = Activation::kGelu,
                             .rows = rows,
                             .x = x.data(),
                             .w1 = &panels1,
                             .bias = bias.data(),
                             .dropout = mask,
                             .w2 = &panels2,
                             .y = y.data()},
                            n_threads);
      Numbers grad_x = Empty(rows * width);
      Numbers grad_w1 = Empty(n_units * width);
      Numbers grad_bias = Empty(n_units);
      Numbers grad_w2 = Empty(n_units * width);
      RunFeedForwardBackward({.activation = Activation::kRelu,
                              .bias = bias.data(),
                              .dropout = mask,
                              .products = {.rows = rows,
                                           .x = x.data(),
                                           .grad_y = grad_y.data(),
                                           .w1 = &panels1,
                                           .w1_transposed = &panels1_transposed,
                                           .w2_transposed = &panels2_transposed,
                                           .grad_x = grad_x.data(),
                                           .grad_w1 = grad_w1.data(),
                                           .grad_w2 = grad_w2.data(),
                                           .grad_bias = grad_bias.data()}},
                             n_threads);
      for (const Numbers* const result : {&y, &grad_x, &grad_w1, &grad_bias, &grad_w2}) {
        EXPECT_TRUE(AllWritten(*result));
      }
    }
  }
}

// batch, queries, keys of a memory (0: none), heads, width of a head
using AttentionSizes =
    std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

class AttentionBlocks : public Blocks, public testing::WithParamInterface<AttentionSizes> {};

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionBlocks,
    testing::Values(AttentionSizes{5, 1, 1, 1, 1}, AttentionSizes{3, 5, 0, 2, 3},
                    AttentionSizes{40, 16, 0, 3, 32}, AttentionSizes{37, 10, 3, 2, 24},
                    AttentionSizes{9, 100, 0, 2, 8}, AttentionSizes{8, 33, 40, 1, 20},
                    AttentionSizes{2, 256, 0, 1, 16}));

TEST_P(AttentionBlocks, WriteAllResultsAndNothingElse) {
  const auto [batch, n_query, n_memory, n_head, head_dim] = GetParam();
  const std::int64_t width = n_head * head_dim;
  const bool has_memory = n_memory > 0;
  const std::int64_t n_in = has_memory ? width : 3 * width;
  const std::int64_t n_key = has_memory ? n_memory : n_query;
  const std::int64_t scores = n_key * PaddedQueries(n_query);
  const AttentionBlockShape shape = {.batch = batch,
                                     .n_head = n_head,
                                     .head_dim = head_dim,
                                     .n_query = n_query,
                                     .n_key = n_key,
                                     .memory_row = 2 * n_memory * width,
                                     .memory_token = 2 * width,
                                     .mask_row = scores};
  const Numbers x = Random(batch * n_query * width);
  const Numbers grad_y = Random(batch * n_query * width);
  const Numbers w_in = Random(n_in * width);
  const Numbers w_out = Random(width * width);
  const Numbers bias = Random(3 * width);
  const Numbers memory = Random(batch * n_memory * 2 * width);
  const Numbers mask = Random(batch * scores);
  const Numbers dropout = Random(batch * n_head * scores);
  const PackedWeight panels_in = Panels(w_in, n_in, width);
  const PackedWeight panels_in_transposed = PanelsOfTransposed(w_in, n_in, width);
  const PackedWeight panels_out = Panels(w_out, width, width);
  const PackedWeight panels_out_transposed = PanelsOfTransposed(w_out, width, width);
  for (const int n_threads : {1, 2}) {
    Numbers y = Empty(batch * n_query * width);
    RunAttentionBlockForward({.shape = shape,
                              .x = x.data(),
                              .w_in = &panels_in,
                              .bias = bias.data(),
                              .memory = has_memory ? memory.data() : nullptr,
                              .mask = mask.data(),
                              .dropout = dropout.data(),
                              .w_out = &panels_out,
                              .y = y.data()},
                             n_threads);
    Numbers grad_x = Empty(batch * n_query * width);
    Numbers grad_memory = Empty(batch * n_memory * 2 * width);
    Numbers grad_w_in = Empty(n_in * width);
    Numbers grad_w_out = Empty(width * width);
    Numbers grad_bias = Empty(3 * width);
    RunAttentionBlockBackward({.shape = shape,
                               .bias = bias.data(),
                               .memory = has_memory ? memory.data() : nullptr,
                               .mask = mask.data(),
                               .dropout = dropout.data(),
                               .grad_memory = grad_memory.data(),
                               .products = {.rows = batch * n_query,
                                            .x = x.data(),
                                            .grad_y = grad_y.data(),
                                            .w1 = &panels_in,
                                            .w1_transposed = &panels_in_transposed,
                                            .w2_transposed = &panels_out_transposed,
                                            .grad_x = grad_x.data(),
                                            .grad_w1 = grad_w_in.data(),
                                            .grad_w2 = grad_w_out.data(),
                                            .grad_bias = grad_bias.data()}},
                              n_threads);
    for (const Numbers* const result :
         {&y, &grad_x, &grad_memory, &grad_w_in, &grad_w_out, &grad_bias}) {
      EXPECT_TRUE(AllWritten(*result));
    }
  }
}

}  // namespace
}  // namespace dp_bench::policy
