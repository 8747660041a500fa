// The part that most policies share: they keep a normalizer, check what they get, predict a
// sequence of normalized actions, and return the steps of it that are executed.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <memory>
#include <optional>
#include <string>

#include "dp_bench/policy.h"

namespace dp_bench::policy {

class ProductCache;

/// Implements the calls of Policy. A subclass registers its networks in `module()` and implements
/// BatchLoss and PredictSequence, which get observations and batches of checked shapes.
class DPB_API PolicyBase : public Policy {
 public:
  ~PolicyBase() override;

  const PolicySpec& spec() const final { return spec_; }
  torch::nn::Module& module() final { return *module_; }

  /// Needs statistics for every key of shape_meta.
  void SetNormalizer(const Normalizer& normalizer) final;

  /// Checks the batch, then BatchLoss. Throws Error{kShape} naming the key that does not fit,
  /// Error{kData} without a normalizer.
  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) final;

  /// Checks the observations, then PredictSequence without gradients and in evaluation mode.
  /// Returns the Ta steps from the current one on, in raw units. Throws like ComputeLoss.
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) final;

  /// Checks both, then ContinueSequence. Throws like ComputeLoss.
  torch::Tensor ContinueAction(const TensorMap& obs, const ChunkPrefix& prefix,
                               NoiseSource& noise) final;

  /// For the products that run on our own kernels: on the CPU, through kernels/row_product.h.
  void SetWeightFormat(WeightFormat format) final;

  /// A subclass that overrides it calls this one too.
  void WeightsChanged() override;

 protected:
  /// `name`: of the plugin, for messages.
  PolicyBase(std::string name, const PolicySpec& spec);

  /// The loss of a batch, a scalar with gradient. Values are in raw units: networks see
  /// `normalizer().Normalize(key, batch.obs.at(key))`.
  virtual LossOutput BatchLoss(const Batch& batch, NoiseSource& noise) = 0;

  /// Normalized actions [B, T, Da] for observations in raw units, [B, To, shape...]. The sequence
  /// begins at the oldest observation; the current step is index To - 1.
  virtual torch::Tensor PredictSequence(const TensorMap& obs, NoiseSource& noise) = 0;

  /// Like PredictSequence, guided. `prefix` has normalized actions [B, T, Da] and weights [B, T] in
  /// place of those of a chunk. Overridden together with can_continue_chunks.
  virtual torch::Tensor ContinueSequence(const TensorMap& obs, const ChunkPrefix& prefix,
                                         NoiseSource& noise);

  /// Throws Error{kData} before SetNormalizer.
  const Normalizer& normalizer() const;

  std::int64_t action_dim() const { return spec_.shape_meta.action_dim(); }

 private:
  torch::Tensor ChunkOf(const torch::Tensor& sequence, std::int64_t n_rows) const;

  std::string name_;
  PolicySpec spec_;
  std::shared_ptr<torch::nn::Module> module_;
  std::optional<Normalizer> normalizer_;
  std::unique_ptr<ProductCache> products_;
};

}  // namespace dp_bench::policy
