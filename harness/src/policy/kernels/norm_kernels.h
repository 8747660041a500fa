// The loops behind fused_norm.h: plain C++ over float rows, compiled for several instruction sets.
// They use no fused multiply-add, so the lanes of a vector and the loop's remainder give equal
// bits.
#pragma once

#include <cstdint>

namespace dp_bench::policy {

/// All arrays are dense: activations [C, T, B], per-channel vectors [C], film rows [C, B],
/// statistics [n_groups, B]. A null pointer leaves its term out.
struct NormForward {
  std::int64_t channels, n_groups, steps, batch;
  float eps;
  const float* x;
  const float* bias;
  const float* gamma;
  const float* beta;
  const float* scale;     // optional
  const float* offset;    // optional
  const float* residual;  // optional
  float* y;
  float* mean;
  float* rstd;
};

/// Pointers for the gradient of a group norm over time steps.
struct NormBackward {
  std::int64_t channels, n_groups, steps, batch;
  const float* x;
  const float* bias;
  const float* gamma;
  const float* beta;
  const float* scale;  // optional
  const float* mean;
  const float* rstd;
  const float* grad_y;
  float* grad_x;
  float* grad_bias;
  float* grad_gamma;
  float* grad_beta;
  float* grad_scale;   // optional
  float* grad_offset;  // optional
};

/// Processes all groups on at most `n_threads` threads; their number does not change the result.
void RunNormForward(const NormForward& args, int n_threads);
void RunNormBackward(const NormBackward& args, int n_threads);

/// y = mish(x), element by element.
void MishForward(std::int64_t n, const float* x, float* y);

}  // namespace dp_bench::policy
