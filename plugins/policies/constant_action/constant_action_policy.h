// The smallest policy that fulfils the whole contract of policy.h: one learnable action for all
// observations. It is the template for new policies and the policy of many tests.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <memory>
#include <optional>

#include "dp_bench/policy.h"

namespace dp_bench::constant_action {

class ConstantActionPolicy final : public Policy {
 public:
  /// plugin.cc names this function. `params` is the policy.params object of the run's config.
  static std::unique_ptr<Policy> Create(const Config& params, const PolicySpec& spec);

  ConstantActionPolicy(const Config& params, const PolicySpec& spec);

  const PolicySpec& spec() const override { return spec_; }
  void SetNormalizer(const Normalizer& normalizer) override;
  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) override;
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override;
  torch::nn::Module& module() override { return *module_; }

 private:
  void RequireNormalizer() const;

  PolicySpec spec_;
  std::optional<Normalizer> normalizer_;
  std::shared_ptr<torch::nn::Module> module_;  // owns everything that is trained and saved
  torch::Tensor naction_;                      // [Da], normalized
};

}  // namespace dp_bench::constant_action
