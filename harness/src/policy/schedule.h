// The tables of a diffusion process: how much noise each training timestep adds, and which
// timesteps the reverse process visits.
#pragma once

#include <cstdint>
#include <vector>

#include "dp_bench/noise_scheduler.h"

namespace dp_bench::policy {

/// beta_t for t = 0 .. num_train_timesteps - 1. The values are rounded to float32, as in diffusers:
/// the last alphas_cumprod of the cosine schedule depend on that rounding.
std::vector<double> MakeBetas(const NoiseSchedulerConfig& config);

/// Running product of 1 - beta_t, rounded to float32.
std::vector<double> MakeAlphasCumprod(const std::vector<double>& betas);

/// The timesteps of the reverse process, high to low. Throws Error{kConfig} if num_inference_steps
/// is not within 1 .. num_train_timesteps or steps_offset leads out of the table.
std::vector<std::int64_t> MakeTimesteps(const NoiseSchedulerConfig& config,
                                        int num_inference_steps);

}  // namespace dp_bench::policy
