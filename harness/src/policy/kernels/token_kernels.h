// The loops behind token_ops.h that process rows of token features, and those that fill arrays with
// random numbers: plain C++ over dense float arrays, compiled for several instruction sets. A row
// of the result depends only on that row. Sums over rows use blocks of fixed size, so the number of
// threads does not change the result.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dp_bench::policy {

/// sum = x + branch + bias, normed = layer_norm(sum); arrays [rows, width], vectors [width],
/// statistics [rows].
struct AddNormForward {
  std::int64_t rows, width;
  float eps;
  const float* x;
  const float* branch;  // null: normed = layer_norm(x); `bias` and `sum` are unused
  const float* bias;
  const float* gamma;
  const float* beta;
  float* sum;
  float* normed;
  float* mean;
  float* rstd;
};

/// Pointers to the rows of AddNorm and of its gradients.
struct AddNormBackward {
  std::int64_t rows, width;
  const float* sum;
  const float* gamma;
  const float* mean;
  const float* rstd;
  const float* grad_sum;  // optional
  const float* grad_normed;
  float* grad_x;  // also the gradient of the branch
  float* grad_gamma;
  float* grad_beta;
  float* grad_bias;
};

void RunAddNormForward(const AddNormForward& args, int n_threads);
void RunAddNormBackward(const AddNormBackward& args, int n_threads);

/// Of a feed-forward layer's hidden units; kGelu is the exact formula.
enum class Activation { kGelu, kRelu };

/// y = activation(x + bias); x, y [rows, width], bias [width]. y may be x.
struct BiasActivationForward {
  Activation activation;
  std::int64_t rows, width;
  const float* x;
  const float* bias;
  float* y;
};

/// Pointers to the rows of the same and of its gradients.
struct BiasActivationBackward {
  Activation activation;
  std::int64_t rows, width;
  const float* x;
  const float* bias;
  const float* grad_y;
  float* grad_x;
  float* grad_bias;
};

void RunBiasActivationForward(const BiasActivationForward& args, int n_threads);
void RunBiasActivationBackward(const BiasActivationBackward& args, int n_threads);

/// Dropout multipliers [keys, row_size]: 0 if a random halfword is below `threshold`, else `scale`.
/// Within 128 elements of a row, element i uses halfword (i / 16) % 2 of word i / 32 of the
/// Philox4x32-10 block at counter {16 * (element / 128) + i % 16, site, 0, 0} under the row's key.
void RunDropout(std::span<const std::uint64_t> keys, std::uint32_t site, std::int64_t row_size,
                std::uint32_t threshold, float scale, float* out, int n_threads);

/// Fills out, [keys, planes, plane_size], with N(0, 1): plane p of key k is the stream
/// RandomStream(k, StreamId::kAugment, p). Which thread draws what does not change the result.
void FillGaussianFields(const std::vector<std::uint64_t>& keys, std::int64_t planes,
                        std::int64_t plane_size, float* out, int n_threads);

}  // namespace dp_bench::policy
