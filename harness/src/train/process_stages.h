// What a policy noted (dp_bench/stage_trace.h): the diffusion process of a loss, with the predicted
// x_0 and its ranges for the log, and what sampling does step by step. Includes LibTorch.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dp_bench/env.h"
#include "policy/noise_scheduler.h"
#include "train/data_parallel.h"

namespace dp_bench::train {

/// Copies of the noted tensors, on the CPU; undefined if the policy noted none.
struct ProcessStages {
  torch::Tensor x_0;        // [B, T, Da]
  torch::Tensor noise;      // [B, T, Da]
  torch::Tensor timesteps;  // [B]
  torch::Tensor x_t;        // [B, T, Da]
  torch::Tensor prediction;
  torch::Tensor condition;  // [B, ...], what the network gets beside x_t and t
  std::optional<PredictionType> prediction_type;
  std::optional<torch::ScalarType> output_type;  // of the network, before a conversion to float32
  torch::Tensor betas;                           // [num_train_timesteps], the policy's own tables
  torch::Tensor alphas_cumprod;

  /// Keeps the tensor of a stage that belongs to the process and ignores other stages.
  void Note(std::string_view stage, const torch::Tensor& tensor);

  bool is_complete() const;  // whether all tensors but the tables are there
};

/// x_0 as the network's output implies it, before clipping: [N, T, Da] for the N rows that have at
/// least as much signal as noise (alphas_cumprod >= 0.5). At higher timesteps it would mostly show
/// the output's error times sqrt(1 / alphas_cumprod - 1). Undefined without the stages that it
/// needs, and if there are no such rows.
torch::Tensor PredictedX0(const ProcessStages& stages);

/// A tensor under its name in the log; may be undefined.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// "<name>_min", "<name>_max", "<name>_mean" and "<name>_std" of each tensor over all ranks. NaN if
/// a tensor is not finite. Without the names of tensors that no rank has.
std::map<std::string, double> RangesOf(const NamedTensors& tensors, const DataParallel& parallel);

/// The ranges of x0, noise, xt, predicted_x0, condition, output (the network's) and t, the
/// timesteps.
std::map<std::string, double> ProcessRanges(const ProcessStages& stages,
                                            const DataParallel& parallel);

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

}  // namespace dp_bench::train
