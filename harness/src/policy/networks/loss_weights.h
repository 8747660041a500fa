// What the errors of a diffusion policy count in its loss, by the step of the action chunk and by
// the timestep of the diffusion. Includes LibTorch.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "policy/noise_scheduler.h"

namespace dp_bench::policy {

/// The weight of each of the T steps of the chunk, from loss_chunk_weights, a list, or
/// loss_chunk_decay d, for d^t: [T, 1] with mean 1. Undefined if neither is given.
torch::Tensor ReadChunkWeights(const Config& params, std::int64_t horizon);

/// loss_weighting and its keys, as the params of a policy have them.
struct TimestepWeighting {
  std::string kind;           // none, min_snr, snr or table
  double snr_gamma = 5.0;     // of min_snr
  std::vector<double> table;  // of table

  static TimestepWeighting FromConfig(const Config& params);
};

/// The weight of each training timestep, from loss_weighting: [num_train_timesteps] float32.
/// Undefined for "none". min_snr is Min-SNR-gamma (Hang et al. 2023, Sec. 3.4): the error of x_0
/// counts min(SNR, gamma), with SNR = alpha_bar / (1 - alpha_bar). snr is the same without gamma.
/// The error of another prediction counts what is left after expressing that of x_0 by it.
torch::Tensor ReadTimestepWeights(const Config& params, const NoiseScheduler& scheduler);

}  // namespace dp_bench::policy
