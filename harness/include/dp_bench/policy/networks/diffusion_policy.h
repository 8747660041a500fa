// Diffusion Policy (Chi et al. 2023): a denoiser, conditioned on a window of observations, trained
// to turn noise into action sequences. The config chooses the objective: diffusion, flow matching,
// MIP, consistency or regression. The caller passes the network and the observation encoder.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dp_bench/policy.h"
#include "dp_bench/policy/networks/denoiser.h"
#include "dp_bench/policy/policy_base.h"
#include "dp_bench/policy/vision/obs_encoder.h"

namespace dp_bench::policy {

struct Guidance;
class Objective;
class RepeatedWork;
struct SamplingPlan;
struct TrainingPass;

/// Diffusion Policy (Chi et al. 2023): an observation encoder, a denoiser and an objective.
class DiffusionPolicy final : public PolicyBase {
 public:
  /// The two halves of the network, and the module that owns the parameters of both.
  struct Model {
    std::shared_ptr<torch::nn::Module> module = std::make_shared<torch::nn::Module>("diffusion");
    std::unique_ptr<ObsEncoder> obs_encoder;
    DenoiserChannels channels;  // those that the denoiser was made with
    std::shared_ptr<Denoiser> denoiser;
  };

  /// Reads objective with its section, do_mask_loss_for_padding, gradient_checkpointing, cuda_graph
  /// and the keys of loss_weights.h from `params`. `name` is the plugin's name, for messages.
  DiffusionPolicy(std::string name, const Config& params, const PolicySpec& spec, Model model);
  ~DiffusionPolicy() override;

  /// A policy whose halves these functions make from `params`: MakeHybridObsEncoder,
  /// MakeUnetDenoiser or the like.
  static std::unique_ptr<Policy> Assemble(
      std::string name, const Config& params, const PolicySpec& spec,
      const std::function<std::unique_ptr<ObsEncoder>(const Config&, const PolicySpec&,
                                                      torch::nn::Module& parent)>& make_encoder,
      const std::function<std::shared_ptr<Denoiser>(const Config&, const PolicySpec&,
                                                    const DenoiserChannels&,
                                                    torch::nn::Module& parent)>& make_denoiser);

  /// `policy` as what it is, also if the host checks its calls. Null for another kind of policy.
  static DiffusionPolicy* Find(Policy& policy);

  void WeightsChanged() override;
  int n_train_obs_steps() const override;
  void LearnFrom(Policy& teacher, Policy& average) override;

  /// Samples as the objective does. features [B, To, Do], initial noise [B, T, Da] -> normalized
  /// action sequence [B, T, Da]. With inpainting, both are [B, T, Da + Do], and the result holds
  /// the features in its first To steps. Steps that add noise draw it from `noise`.
  torch::Tensor ConditionalSample(const torch::Tensor& features, const torch::Tensor& initial,
                                  NoiseSource& noise);

  bool can_continue_chunks() const override { return true; }
  int max_prefix() const override { return model_.channels.max_prefix; }

  /// The features of each observation step of `obs`, [B, To, Do]. Augments if `augment` is not
  /// null.
  torch::Tensor EncodeObs(const TensorMap& obs, NoiseSource* augment);

  /// What ConditionalSample does, as numbers (policy/sampling.h of the harness).
  SamplingPlan sampling_plan() const;

  Denoiser& denoiser() { return *model_.denoiser; }
  const DenoiserChannels& channels() const { return model_.channels; }

 private:
  LossOutput BatchLoss(const Batch& batch, NoiseSource& noise) override;
  torch::Tensor PredictSequence(const TensorMap& obs, NoiseSource& noise) override;
  torch::Tensor ContinueSequence(const TensorMap& obs, const ChunkPrefix& prefix,
                                 NoiseSource& noise) override;
  torch::Tensor InitialSample(const torch::Tensor& features, NoiseSource& noise) const;
  std::vector<torch::Tensor> SamplingInputs(const SamplingPlan& plan, const torch::Tensor& features,
                                            const torch::Tensor& initial, NoiseSource& noise) const;
  torch::Tensor FeaturesOf(const TensorMap& obs, NoiseSource* regularizing);
  torch::Tensor Denoise(const SamplingPlan& plan, const std::vector<torch::Tensor>& inputs,
                        const Guidance* guidance = nullptr);
  torch::Tensor DenoiseRows(const SamplingPlan& plan, const std::vector<torch::Tensor>& inputs,
                            const Guidance* guidance = nullptr);
  torch::Tensor DenoiseThroughNetwork(const SamplingPlan& plan,
                                      const std::vector<torch::Tensor>& inputs,
                                      const Guidance& guidance);

  // Training-time RTC (Black et al. 2025, arXiv 2512.05964): the steps of a random number of first
  // actions of the chunk are 1 in [B, T, 1]. Undefined for a policy without prefixes.
  torch::Tensor DrawPrefix(NoiseSource& noise, const torch::Tensor& like) const;

  // `sequence` as the network sees it: with the given actions in place, and their steps as a last
  // channel. Without prefixes, as it is.
  torch::Tensor WithPrefix(const torch::Tensor& sequence, const torch::Tensor& given,
                           const torch::Tensor& is_given) const;
  torch::Tensor WithPrefix(const torch::Tensor& sequence, const Guidance* guidance) const;
  torch::Tensor AnswerOf(const torch::Tensor& output) const;

  // The sum over the passes.
  torch::Tensor LossOf(const std::vector<TrainingPass>& passes, const torch::Tensor& features,
                       const torch::Tensor& is_pad, NoiseSource* regularizing);
  torch::Tensor RepeatedLossOf(const std::vector<TrainingPass>& passes,
                               const torch::Tensor& features, const torch::Tensor& is_pad,
                               NoiseSource* regularizing);
  torch::Tensor LossOf(const TrainingPass& pass, const torch::Tensor& features,
                       const torch::Tensor& is_pad, NoiseSource* regularizing);

  // Mean square error, weighted by step and by row. With do_mask_loss_for_padding, a padded step
  // counts as zero; with inpainting, so does an observation that the network was given.
  torch::Tensor WeightedLoss(const torch::Tensor& prediction, const TrainingPass& pass,
                             const torch::Tensor& is_pad) const;

  torch::Tensor Inpaint(const torch::Tensor& sequence, const torch::Tensor& features) const;
  torch::Tensor ActionOf(const torch::Tensor& sequence) const;
  torch::Tensor ConditionOf(const torch::Tensor& features) const;

  std::unique_ptr<Objective> objective_;
  bool mask_loss_for_padding_;
  torch::Tensor chunk_weights_;  // [T, 1], mean 1; undefined: all steps have equal weight
  Model model_;
  std::unique_ptr<RepeatedWork> denoising_;
  std::unique_ptr<RepeatedWork> training_;  // null without cuda_graph
  bool has_caches_ = false;                 // of the network, for the weights as they are
  DiffusionPolicy* teacher_ = nullptr;      // borrowed for the training, like the next
  DiffusionPolicy* average_ = nullptr;
};

}  // namespace dp_bench::policy
