// See attention_kernels.h. Scaled dot-product attention (Vaswani et al. 2017, eq. 1) with
// transposed scores, [S, T]. The softmax then runs down the columns and needs no horizontal sums.
#include "policy/kernels/attention_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "policy/kernels/vector_math.h"

namespace dp_bench::policy {
namespace {

constexpr std::int64_t kLanes = kQueryLanes;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

constexpr std::int64_t kBlockRows = 8;  // batch rows per task

std::int64_t RoundUp(std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// The score of an excluded key. Lower scores count as excluded too, for example -inf plus a finite
// score.
constexpr float kExcluded = -1e30F;

// Matrices of one head, with rows padded with zeros to whole vectors.
class Workspace {
 public:
  explicit Workspace(const AttentionShape& shape)
      : padded_queries(PaddedQueries(shape.n_query)),
        padded_dim(RoundUp(shape.head_dim)),
        storage_(static_cast<std::size_t>(3 * padded_dim * padded_queries +
                                          2 * shape.n_key * padded_dim +
                                          2 * shape.n_key * padded_queries + 2 * padded_queries)) {
    float* next = storage_.data();
    const auto take = [&next](std::int64_t n) {
      float* begin = next;
      next += n;
      return begin;
    };
    q_rows = take(padded_queries * padded_dim);
    q_columns = take(padded_dim * padded_queries);
    out_columns = take(padded_dim * padded_queries);
    k_rows = take(shape.n_key * padded_dim);
    v_rows = take(shape.n_key * padded_dim);
    scores = take(shape.n_key * padded_queries);
    weights = take(shape.n_key * padded_queries);
    highest = take(padded_queries);
    totals = take(padded_queries);
  }

  std::int64_t padded_queries;  // T'
  std::int64_t padded_dim;      // D'
  float* q_rows;                // [T, D'], scaled by 1 / sqrt(D)
  float* q_columns;             // [D, T'], the same transposed
  float* out_columns;           // [D, T'], gradient of the output
  float* k_rows;                // [S, D']
  float* v_rows;                // [S, D']
  float* scores;                // [S, T']
  float* weights;               // [S, T']
  float* highest;               // [T']
  float* totals;                // [T']

 private:
  std::vector<float> storage_;
};

DPB_ALWAYS_INLINE void LoadRows(std::int64_t n, std::int64_t dim, const float* __restrict from,
                                std::int64_t stride, const float* __restrict bias, float scale,
                                float* __restrict to, std::int64_t to_stride) {
  for (std::int64_t t = 0; t < n; ++t) {
    const float* __restrict source = from + t * stride;
    float* __restrict row = to + t * to_stride;
    if (bias == nullptr) {
#pragma GCC ivdep
      for (std::int64_t c = 0; c < dim; ++c) row[c] = source[c] * scale;
    } else {
#pragma GCC ivdep
      for (std::int64_t c = 0; c < dim; ++c) row[c] = (source[c] + bias[c]) * scale;
    }
  }
}

// Element by element, each store would touch another cache line.
DPB_ALWAYS_INLINE void Transpose4x4(const float* from, std::int64_t stride, float* to,
                                    std::int64_t to_stride) {
  using Floats4 = float __attribute__((vector_size(16)));
  Floats4 rows[4];
  for (int i = 0; i < 4; ++i) std::memcpy(&rows[i], from + i * stride, sizeof(Floats4));
  const Floats4 low01 = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
  const Floats4 high01 = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
  const Floats4 low23 = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
  const Floats4 high23 = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
  const Floats4 columns[4] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                              __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                              __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                              __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (int i = 0; i < 4; ++i) std::memcpy(to + i * to_stride, &columns[i], sizeof(Floats4));
}

DPB_ALWAYS_INLINE void Transpose(std::int64_t n, std::int64_t dim, const float* __restrict from,
                                 std::int64_t stride, float* __restrict to,
                                 std::int64_t to_stride) {
  std::int64_t t = 0;
  for (; t + 4 <= n; t += 4) {
    std::int64_t c = 0;
    for (; c + 4 <= dim; c += 4) {
      Transpose4x4(from + t * stride + c, stride, to + c * to_stride + t, to_stride);
    }
    for (; c < dim; ++c) {
      for (std::int64_t i = t; i < t + 4; ++i) to[c * to_stride + i] = from[i * stride + c];
    }
  }
  for (; t < n; ++t) {
    for (std::int64_t c = 0; c < dim; ++c) to[c * to_stride + t] = from[t * stride + c];
  }
}

// Multiply for kRows rows, whose sums stay in registers: each vector of b is loaded once for all of
// them, and the additions do not wait for each other.
template <int kRows>
DPB_ALWAYS_INLINE void MultiplyRows(std::int64_t n_sum, std::int64_t width,
                                    const float* __restrict a, std::int64_t a_row,
                                    std::int64_t a_next, const float* __restrict b,
                                    float* __restrict out, std::int64_t out_row) {
  for (std::int64_t begin = 0; begin < width; begin += kLanes) {
    Lanes sums[kRows] = {};
    for (std::int64_t j = 0; j < n_sum; ++j) {
      Lanes column;
      std::memcpy(&column, b + j * width + begin, sizeof(column));
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) sums[i] += a[j * a_next + i * a_row] * column;
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      std::memcpy(out + i * out_row + begin, &sums[i], sizeof(Lanes));
    }
  }
}

// out[i][0..width) = sum over j < n_sum of a[j * a_next + i * a_row] * b[j][0..width), for i < n.
// b and out have rows of `width`, a multiple of the lanes.
DPB_ALWAYS_INLINE void Multiply(std::int64_t n, std::int64_t n_sum, std::int64_t width,
                                const float* __restrict a, std::int64_t a_row, std::int64_t a_next,
                                const float* __restrict b, float* __restrict out,
                                std::int64_t out_row) {
  constexpr int kRows = 6;  // with AVX2, 12 of the 16 registers
  std::int64_t i = 0;
  for (; i + kRows <= n; i += kRows) {
    MultiplyRows<kRows>(n_sum, width, a + i * a_row, a_row, a_next, b, out + i * out_row, out_row);
  }
  for (; i + 2 <= n; i += 2) {
    MultiplyRows<2>(n_sum, width, a + i * a_row, a_row, a_next, b, out + i * out_row, out_row);
  }
  if (i < n) {
    MultiplyRows<1>(n_sum, width, a + i * a_row, a_row, a_next, b, out + i * out_row, out_row);
  }
}

// scores [S, T'] become probabilities, column by column.
DPB_ALWAYS_INLINE void Softmax(std::int64_t n_key, std::int64_t width, float* __restrict scores,
                               float* __restrict highest, float* __restrict total) {
  std::fill_n(highest, width, kExcluded);
  std::fill_n(total, width, 0.0F);
  for (std::int64_t s = 0; s < n_key; ++s) {
    const float* __restrict row = scores + s * width;
#pragma GCC ivdep
    for (std::int64_t t = 0; t < width; ++t) highest[t] = row[t] > highest[t] ? row[t] : highest[t];
  }
  for (std::int64_t s = 0; s < n_key; ++s) {
    float* __restrict row = scores + s * width;
#pragma GCC ivdep
    for (std::int64_t t = 0; t < width; ++t) {
      const float value = Exp(row[t] - highest[t]);
      row[t] = row[t] < kExcluded ? 0.0F : value;
      total[t] += row[t];
    }
  }
#pragma GCC ivdep
  for (std::int64_t t = 0; t < width; ++t) total[t] = 1.0F / total[t];
  for (std::int64_t s = 0; s < n_key; ++s) {
    float* __restrict row = scores + s * width;
#pragma GCC ivdep
    for (std::int64_t t = 0; t < width; ++t) row[t] *= total[t];
  }
}

DPB_ALWAYS_INLINE void MultiplyInto(std::int64_t n, const float* __restrict a,
                                    const float* __restrict b, float* __restrict out) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
}

DPB_ALWAYS_INLINE void AddTo(std::int64_t n, const float* __restrict a, float* __restrict out) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] += a[i];
}

// The bias of q (part 0), k (1) or v (2) for one head.
const float* BiasOf(const AttentionShape& shape, const float* bias, std::int64_t part,
                    std::int64_t head) {
  return bias == nullptr ? nullptr : bias + (part * shape.n_head + head) * shape.head_dim;
}

float ScaleOf(const AttentionShape& shape) {
  return 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
}

DPB_VECTOR_VERSIONS
void ForwardRow(const AttentionForward& args, std::int64_t b, Workspace& work) {
  const AttentionShape& s = args.shape;
  const std::int64_t width = work.padded_queries;
  const std::int64_t n_scores = s.n_key * width;
  const std::int64_t out_token = s.n_head * s.head_dim;
  for (std::int64_t head = 0; head < s.n_head; ++head) {
    const std::int64_t column = head * s.head_dim;
    LoadRows(s.n_query, s.head_dim, args.q + b * s.q_row + column, s.q_token,
             BiasOf(s, args.bias, 0, head), ScaleOf(s), work.q_rows, work.padded_dim);
    Transpose(s.n_query, s.head_dim, work.q_rows, work.padded_dim, work.q_columns, width);
    LoadRows(s.n_key, s.head_dim, args.k + b * s.kv_row + column, s.kv_token,
             BiasOf(s, args.bias, 1, head), 1.0F, work.k_rows, work.padded_dim);
    LoadRows(s.n_key, s.head_dim, args.v + b * s.kv_row + column, s.kv_token,
             BiasOf(s, args.bias, 2, head), 1.0F, work.v_rows, work.padded_dim);

    const std::int64_t place = (b * s.n_head + head) * n_scores;
    float* probabilities = args.probabilities + place;
    Multiply(s.n_key, s.head_dim, width, work.k_rows, work.padded_dim, 1, work.q_columns,
             probabilities, width);
    if (args.mask != nullptr) AddTo(n_scores, args.mask + b * s.mask_row, probabilities);
    Softmax(s.n_key, width, probabilities, work.highest, work.totals);

    const float* weights = probabilities;
    if (args.dropout != nullptr) {
      MultiplyInto(n_scores, probabilities, args.dropout + place, work.weights);
      weights = work.weights;
    }
    Multiply(s.n_query, s.n_key, work.padded_dim, weights, 1, width, work.v_rows, work.q_rows,
             work.padded_dim);
    for (std::int64_t t = 0; t < s.n_query; ++t) {
      std::copy_n(work.q_rows + t * work.padded_dim, s.head_dim,
                  args.out + (b * s.n_query + t) * out_token + column);
    }
  }
}

// Writes rows [n, D'] of a gradient to their place, scaled by `scale`, and adds their sum to the
// bias gradient.
DPB_ALWAYS_INLINE void StoreGradient(std::int64_t n, std::int64_t dim, const float* __restrict rows,
                                     std::int64_t row_stride, float scale, float* __restrict to,
                                     std::int64_t stride, float* __restrict bias_sum) {
  for (std::int64_t t = 0; t < n; ++t) {
    const float* __restrict row = rows + t * row_stride;
    float* __restrict target = to + t * stride;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < dim; ++c) {
      const float grad = row[c] * scale;
      target[c] = grad;
      bias_sum[c] += grad;
    }
  }
}

// scores holds d loss / d probability and receives d loss / d score.
DPB_ALWAYS_INLINE void SoftmaxBackward(std::int64_t n_key, std::int64_t width,
                                       const float* __restrict probabilities,
                                       float* __restrict scores, float* __restrict total) {
  std::fill_n(total, width, 0.0F);
  for (std::int64_t s = 0; s < n_key; ++s) {
    const float* __restrict p = probabilities + s * width;
    const float* __restrict grad = scores + s * width;
#pragma GCC ivdep
    for (std::int64_t t = 0; t < width; ++t) total[t] += p[t] * grad[t];
  }
  for (std::int64_t s = 0; s < n_key; ++s) {
    const float* __restrict p = probabilities + s * width;
    float* __restrict grad = scores + s * width;
#pragma GCC ivdep
    for (std::int64_t t = 0; t < width; ++t) grad[t] = p[t] * (grad[t] - total[t]);
  }
}

// bias_sums: [3, H, D], for this thread's rows.
DPB_VECTOR_VERSIONS
void BackwardRow(const AttentionBackward& args, std::int64_t b, Workspace& work, float* bias_sums) {
  const AttentionShape& s = args.shape;
  const std::int64_t width = work.padded_queries;
  const std::int64_t dim = work.padded_dim;
  const std::int64_t n_scores = s.n_key * width;
  const std::int64_t out_token = s.n_head * s.head_dim;
  const std::int64_t part = s.n_head * s.head_dim;  // in bias_sums
  for (std::int64_t head = 0; head < s.n_head; ++head) {
    const std::int64_t column = head * s.head_dim;
    LoadRows(s.n_query, s.head_dim, args.q + b * s.q_row + column, s.q_token,
             BiasOf(s, args.bias, 0, head), ScaleOf(s), work.q_rows, dim);
    LoadRows(s.n_key, s.head_dim, args.k + b * s.kv_row + column, s.kv_token,
             BiasOf(s, args.bias, 1, head), 1.0F, work.k_rows, dim);
    LoadRows(s.n_key, s.head_dim, args.v + b * s.kv_row + column, s.kv_token,
             BiasOf(s, args.bias, 2, head), 1.0F, work.v_rows, dim);
    const float* grad_out = args.grad_out + b * s.n_query * out_token + column;
    Transpose(s.n_query, s.head_dim, grad_out, out_token, work.out_columns, width);

    // back through out = weights^T v, dropout and the softmax
    const std::int64_t place = (b * s.n_head + head) * n_scores;
    const float* probabilities = args.probabilities + place;
    const float* weights = probabilities;
    Multiply(s.n_key, s.head_dim, width, work.v_rows, dim, 1, work.out_columns, work.scores, width);
    if (args.dropout != nullptr) {
      MultiplyInto(n_scores, probabilities, args.dropout + place, work.weights);
      weights = work.weights;
      for (std::int64_t i = 0; i < n_scores; ++i) work.scores[i] *= args.dropout[place + i];
    }
    SoftmaxBackward(s.n_key, width, probabilities, work.scores, work.totals);

    // d k = d scores q, d q = d scores^T k, d v = weights d out
    float* rows = work.q_columns;  // [max(T, S), D'] scratch space
    Multiply(s.n_query, s.n_key, dim, work.scores, 1, width, work.k_rows, rows, dim);
    StoreGradient(s.n_query, s.head_dim, rows, dim, ScaleOf(s), args.grad_q + b * s.q_row + column,
                  s.q_token, bias_sums + column);
    Multiply(s.n_key, s.n_query, dim, work.scores, width, 1, work.q_rows, work.k_rows, dim);
    StoreGradient(s.n_key, s.head_dim, work.k_rows, dim, 1.0F, args.grad_k + b * s.kv_row + column,
                  s.kv_token, bias_sums + part + column);
    LoadRows(s.n_query, s.head_dim, grad_out, out_token, nullptr, 1.0F, work.q_rows, dim);
    Multiply(s.n_key, s.n_query, dim, weights, width, 1, work.q_rows, work.v_rows, dim);
    StoreGradient(s.n_key, s.head_dim, work.v_rows, dim, 1.0F, args.grad_v + b * s.kv_row + column,
                  s.kv_token, bias_sums + 2 * part + column);
  }
}

// Passing rows to other threads costs about as much as this many multiplications.
constexpr std::int64_t kProductsPerTask = 100'000;

int UsefulThreads(const AttentionShape& s, int n_threads) {
  return s.batch * s.n_head * s.n_query * s.n_key * s.head_dim < kProductsPerTask ? 1 : n_threads;
}

}  // namespace

void RunAttentionForward(const AttentionForward& args, int n_threads) {
  const std::int64_t batch = args.shape.batch;
  const int n = UsefulThreads(args.shape, n_threads);
#pragma omp parallel for num_threads(n) if (n > 1)
  for (std::int64_t begin = 0; begin < batch; begin += kBlockRows) {
    Workspace work(args.shape);
    const std::int64_t end = std::min(batch, begin + kBlockRows);
    for (std::int64_t b = begin; b < end; ++b) ForwardRow(args, b, work);
  }
}

void RunAttentionBackward(const AttentionBackward& args, int n_threads) {
  const std::int64_t batch = args.shape.batch;
  const std::int64_t size = 3 * args.shape.n_head * args.shape.head_dim;
  std::vector<float> sums(static_cast<std::size_t>((batch + kBlockRows - 1) / kBlockRows * size));
  const int n = UsefulThreads(args.shape, n_threads);
#pragma omp parallel for num_threads(n) if (n > 1)
  for (std::int64_t begin = 0; begin < batch; begin += kBlockRows) {
    Workspace work(args.shape);
    const std::int64_t end = std::min(batch, begin + kBlockRows);
    float* block_sums = sums.data() + begin / kBlockRows * size;
    for (std::int64_t b = begin; b < end; ++b) BackwardRow(args, b, work, block_sums);
  }
  if (args.grad_bias == nullptr) return;
  std::fill_n(args.grad_bias, size, 0.0F);
  for (auto block = sums.begin(); block != sums.end(); block += size) {
    for (std::int64_t i = 0; i < size; ++i) args.grad_bias[i] += block[i];
  }
}

}  // namespace dp_bench::policy
