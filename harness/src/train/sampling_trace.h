// What sampling does with a batch, step by step, from the stages that the policy notes
// (dp_bench/stage_trace.h). Includes LibTorch.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "dp_bench/env.h"

namespace dp_bench::train {

/// One denoising step of all rows, in normalized units.
struct SamplingStep {
  double timestep = 0.0;  // of a diffusion, or the time of another objective
  double min = 0.0;       // of the sample that the step makes
  double max = 0.0;
  double mean = 0.0;
  double std = 0.0;
  double x_0_min = 0.0;  // of the predicted x_0, after clipping
  double x_0_max = 0.0;
  double x_0_std = 0.0;
  double x_0_change = 0.0;     // root mean square, since the step before; 0 for the first step
  std::int64_t n_clipped = 0;  // values of x_0 that were clipped; 0 without clip_sample
  std::int64_t n_values = 0;   // of x_0

  double clipped_share() const {
    return n_values == 0 ? 0.0 : static_cast<double>(n_clipped) / static_cast<double>(n_values);
  }
};

/// Pass its Note to a policy::StageRecorder around one PredictAction.
class SamplingTrace {
 public:
  /// Keeps the stages of the reverse process and ignores the others.
  void Note(std::string_view stage, const torch::Tensor& tensor);

  /// Empty if the policy does not denoise.
  const std::vector<SamplingStep>& steps() const { return steps_; }

  /// The noise, and what each step makes of it: 1 + steps().size() tensors [B, T, Da] on the CPU.
  const std::vector<torch::Tensor>& samples() const { return samples_; }

 private:
  SamplingStep next_;
  torch::Tensor x_0_;  // of the latest step
  std::vector<SamplingStep> steps_;
  std::vector<torch::Tensor> samples_;
};

/// All steps together: n_clipped and n_values.
SamplingStep ClippedInAll(const std::vector<SamplingStep>& steps);

/// How sampled action chunks emerge from noise, beside the recorded ones. A row of panels for each
/// of the first rows of a batch: samples of the reverse process from the noise to the result, then
/// the recorded chunk. A panel has a curve for each dimension over the steps of the chunk, in
/// normalized units. Pale curves behind the samples are the recorded ones. `recorded`: [B, T, Da],
/// normalized. The trace must not be empty.
RgbImage DrawDenoising(const SamplingTrace& trace, const torch::Tensor& recorded);

}  // namespace dp_bench::train
