// The diffusion process of a loss, from the stages that the policy noted (dp_bench/stage_trace.h):
// its tensors, the predicted x_0, and their ranges for the log. Includes LibTorch.
#pragma once

#include <torch/types.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

}  // namespace dp_bench::train
