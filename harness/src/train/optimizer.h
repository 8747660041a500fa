// AdamW (Loshchilov & Hutter 2019, algorithm 2), Adam and SGD with momentum over named parameters,
// as torch.optim has them. LibTorch's C++ optimizers visit the parameters one by one in several
// passes; this one makes one fused call per group.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/types.h>

#include <optional>
#include <string>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/config.h"
#include "dp_bench/tensor.h"
#include "train/train_state.h"

namespace dp_bench::train {

/// Overrides of the optimizer's defaults for the parameters that match a pattern.
struct ParameterRule {
  std::string pattern;
  double lr_scale = 1.0;
  std::optional<double> weight_decay = std::nullopt;
  bool is_frozen = false;
  std::string where{};  // the place in the config, for messages

  static ParameterRule FromConfig(const Config& config);
};

enum class OptimizerKind { kAdamW, kAdam, kSgd };

/// Field names are PyTorch's, defaults are diffusion_policy's.
struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double lr = 1e-4;
  double beta1 = 0.95;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-6;  // AdamW shrinks the weights; Adam and SGD add to the gradient
  double momentum = 0.9;       // SGD only
  bool nesterov = false;       // SGD only
  std::vector<ParameterRule> param_groups = {};

  /// Names of the tensors that are kept for each parameter, such as "exp_avg".
  std::vector<std::string> StateNames() const;

  /// Throws Error{kConfig} naming a pattern that is no regex.
  static OptimizerConfig FromConfig(const Config& config);
};

/// Parameters that share a learning rate and a weight decay.
struct ParameterGroup {
  std::vector<std::string> names = {};
  std::vector<torch::Tensor> parameters = {};
  double weight_decay = 0.0;
  double lr_scale = 1.0;  // factor on the rate of each step
};

/// Takes the parameters of frozen rules out of autograd. Call it before the EMA model is paired and
/// the groups are made. Buffers are not parameters: the running statistics of a frozen batch norm
/// still follow the batches, as in PyTorch while a module is in training mode. (The encoders'
/// default, group norm, has none.) Throws Error{kConfig}, with some parameter names, if a pattern
/// matches no parameter, and if nothing is left to train.
void FreezeParameters(torch::nn::Module& module, const OptimizerConfig& config);

/// The trainable parameters of `module` in two groups. Matrices and kernels get the config's weight
/// decay. Parameters of at most one dimension (biases, norms) and embeddings do not; embeddings are
/// the weights of torch::nn::Embedding and parameters whose name contains "pos_emb" or "embedding".
/// After those two groups come two for each rule, with the parameters for which it is the first
/// match. They have its learning rate, and its weight decay for matrices and kernels. Empty groups
/// are left out.
std::vector<ParameterGroup> MakeParameterGroups(const torch::nn::Module& module,
                                                const OptimizerConfig& config);

/// Those of the parameters that have one, in order.
std::vector<torch::Tensor> GradientsOf(const std::vector<ParameterGroup>& groups);

class Optimizer {
 public:
  /// Throws Error{kInternal} if there is nothing to train or a name occurs twice.
  Optimizer(const OptimizerConfig& config, std::vector<ParameterGroup> groups);

  /// Makes one update with the current gradients. Parameters without a gradient do not change. `lr`
  /// is the rate of this step, including the schedule; each group's lr_scale multiplies it.
  void Step(double lr);

  void ZeroGrad();

  /// The total L2 norm of the gradients before clipping, a scalar. Scales them so that the norm is
  /// at most `max_norm`, as torch.nn.utils.clip_grad_norm_ does.
  torch::Tensor ClipGradNorm(double max_norm);

  const OptimizerConfig& config() const { return config_; }
  const std::vector<ParameterGroup>& groups() const { return groups_; }

  /// "<parameter>.<state name>" and "step": the tensors themselves, not copies.
  TensorMap StateDict() const;

  /// Copies the values. Throws Error{kCheckpoint} if the state is that of another kind of
  /// optimizer, and naming all tensors that are missing, have another shape or belong to no
  /// parameter.
  void LoadStateDict(const ArrayMap& state);

 private:
  // The parameters of a group that have a gradient now.
  struct Active {
    std::vector<torch::Tensor> parameters;
    std::vector<torch::Tensor> gradients;
    std::vector<std::vector<torch::Tensor>> state;  // by state name
  };

  Active ActiveOf(std::size_t group) const;
  void StepAdam(const Active& active, const ParameterGroup& group, double lr) const;
  void StepSgd(const Active& active, const ParameterGroup& group, double lr) const;
  void RequireSameKind(const ArrayMap& state) const;

  OptimizerConfig config_;
  std::vector<std::string> state_names_;
  std::vector<ParameterGroup> groups_;
  std::vector<std::vector<std::vector<torch::Tensor>>> state_;  // by group, state name, parameter
  torch::Tensor step_;  // float32 scalar, as the fused kernel requires
};

// The gradient scaler of float16 training (Micikevicius et al. 2018, "Mixed precision training").
// It scales the loss up so that small gradients do not vanish in float16, and skips an update whose
// gradients overflowed. Rules and numbers are those of torch.amp.GradScaler.

/// The number of updates that may be skipped in a row: by then the scale has fallen from its start
/// to 2^-16.
constexpr int kMaxSkipsInARow = 32;

/// Divides the gradients by `scale`. False if any of them is not finite: the update must then be
/// skipped.
bool UnscaleGradients(const std::vector<ParameterGroup>& groups, double scale);

/// The scale of the next step: half of it after gradients that were not finite, twice it after
/// 2,000 updates in a row, unless that overflows.
void UpdateScale(bool is_finite, GradScalerState* state);

}  // namespace dp_bench::train
