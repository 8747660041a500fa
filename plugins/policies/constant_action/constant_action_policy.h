// The smallest policy: one learnable action for all observations. It is the template for new
// policies and the policy of many tests. PolicyBase does what most policies share.
#pragma once

#include <torch/types.h>

#include <memory>

#include "dp_bench/policy.h"
#include "dp_bench/policy/policy_base.h"

namespace dp_bench::constant_action {

class ConstantActionPolicy final : public policy::PolicyBase {
 public:
  /// plugin.cc names this function. `params` is the policy.params object of the run's config.
  static std::unique_ptr<Policy> Create(const Config& params, const PolicySpec& spec);

  ConstantActionPolicy(const Config& params, const PolicySpec& spec);

 private:
  LossOutput BatchLoss(const Batch& batch, NoiseSource& noise) override;
  torch::Tensor PredictSequence(const TensorMap& obs, NoiseSource& noise) override;

  torch::Tensor naction_;  // [Da], normalized
};

}  // namespace dp_bench::constant_action
